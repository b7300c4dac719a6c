"""A model is one flat float32 vector: its `Layout`, and the sparse form in which a message may travel."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

Vector: TypeAlias = Tensor  # [..., d]


@dataclass(frozen=True)
class Layout:
    """Where each named tensor of a network lies in its flat vector: trainable ones first, buffers last.

    >>> layout = Layout(("weight", "bias"), (torch.Size([2, 3]), torch.Size([2])), trainable=8)
    >>> layout.size, layout.slices["bias"]
    (8, slice(6, 8, None))
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    trainable: int  # entries [trainable:] are buffers, such as BatchNorm statistics
    norms: frozenset[str] = frozenset()  # the tensors of normalisation layers: weights, biases and buffers

    @cached_property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        found, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            found[name] = slice(start, start + shape.numel())
            start += shape.numel()
        return found

    def views(self, vector: Vector) -> dict[str, Tensor]:
        """The named tensors as views of a vector ``[..., d]``; one without buffers has views of the rest."""
        return {
            name: vector[..., place].view(vector.shape[:-1] + shape)
            for (name, place), shape in zip(self.slices.items(), self.shapes, strict=True)
            if place.stop <= vector.shape[-1]
        }

    def without(self, names: Collection[str]) -> "Layout":
        """The layout of vectors that lack these trainable tensors."""
        kept = [pair for pair in zip(self.names, self.shapes, strict=True) if pair[0] not in names]
        gone = sum(place.stop - place.start for name, place in self.slices.items() if name in names)
        return Layout(
            tuple(name for name, _ in kept),
            tuple(shape for _, shape in kept),
            self.trainable - gone,
            self.norms.difference(names),
        )


# --- vectors without their zeros ---------------------------------------------------------------------

_PLACE = 4  # bytes of a place that is named by its number


def packed(vector: Tensor) -> tuple[Tensor, ...]:
    """The shortest of three forms: all entries; a bit for each and the entries that are not 0; or numbers and these.

    >>> [part.nbytes for part in packed(torch.tensor([0.0] * 99 + [1.0]))]
    [4, 4]
    """
    flat = vector.numpy().reshape(-1)  # NumPy finds and gathers entries in a third of torch's time
    kept = flat != 0
    count = int(np.count_nonzero(kept))
    bits, places = -(-len(flat) // 8), count * _PLACE
    if vector.nbytes <= count * flat.itemsize + min(bits, places):
        return (vector,)
    where = np.packbits(kept) if bits < places else np.flatnonzero(kept).astype(np.int32)
    return torch.from_numpy(where), torch.from_numpy(flat[kept])


def unpacked(parts: tuple[Tensor, ...], like: Tensor) -> Tensor:
    """The vector that was packed, in the shape of another."""
    if len(parts) == 1:
        return parts[0]
    where, values = parts
    flat = torch.zeros(like.numel(), dtype=values.dtype)
    if where.dtype == torch.uint8:
        bits = np.unpackbits(where.numpy(), count=like.numel())
        flat[torch.from_numpy(bits).bool()] = values
    else:
        flat[where.long()] = values
    return flat.view(like.shape)


def largest(vector: Tensor, share: float) -> Tensor:
    """Which entries are the largest `share` of a vector, by magnitude; at least one.

    >>> largest(torch.tensor([0.1, -3.0, 2.0, 0.0]), 0.5)
    tensor([False,  True,  True, False])
    """
    count = max(1, round(share * vector.numel()))
    if count >= vector.numel():
        return torch.ones_like(vector, dtype=torch.bool)
    chosen = torch.zeros_like(vector, dtype=torch.bool)
    chosen[vector.abs().topk(count, sorted=False).indices] = True
    return chosen
