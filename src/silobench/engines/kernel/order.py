"""The order of the parameters during a round: PyTorch's, or the native step's own."""

from dataclasses import dataclass
from functools import cached_property

import torch

from silobench.engines.kernel.binding import Kernel, Shape
from silobench.method.types import Vector


@dataclass(frozen=True)
class Order:
    """The order in which parties exchange vectors of parameters with the native step in one round.

    The native step reorders PyTorch's vectors at the beginning and the end of a call. Sparse rows touch a small part of
    a large layer in each step, so reordering all of it for every party would take as long as the training. Their
    vectors are `reordered` once per round, with zeros where the native step pads a line.
    """

    kernel: Kernel
    shape: Shape
    reordered: bool
    broadcast: Vector  # the model of the round, in PyTorch's order

    @cached_property
    def _broadcast(self) -> Vector:
        return self._reordered(self.broadcast)

    def of(self, vector: Vector) -> Vector:
        """Return a vector of PyTorch's order in this one; do not write to the result."""
        if not self.reordered:
            return vector.contiguous()
        return self._broadcast if vector is self.broadcast else self._reordered(vector)

    def back(self, vector: Vector) -> Vector:
        """Return a vector of this order in PyTorch's."""
        if not self.reordered:
            return vector
        flat = torch.empty_like(self.broadcast)
        self.kernel.reorder(self.shape, flat.numpy(), vector.numpy(), back=True)
        return flat

    def _reordered(self, vector: Vector) -> Vector:
        ordered = torch.zeros(self.kernel.size(self.shape))
        self.kernel.reorder(self.shape, vector.contiguous().numpy(), ordered.numpy())
        return ordered
