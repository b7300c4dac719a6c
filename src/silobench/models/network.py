"""A torch module whose parameters and gradients are views of two flat vectors."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from silobench.types import Layout, Vector


class Network:
    """A module laid out flat: write `params` and the module has new weights; `grad` fills as it trains.

    >>> network = Network(nn.Linear(2, 1))
    >>> _ = network.params.copy_(torch.tensor([1.0, 2.0, 3.0]))
    >>> network.module(torch.tensor([[1.0, 1.0]])).item()
    6.0
    """

    def __init__(self, module: nn.Module):
        self.module = module
        tensors = dict(_tensors(module))
        trainable = sum(p.numel() for p in module.parameters())
        self.layout = Layout(tuple(tensors), tuple(t.shape for t in tensors.values()), trainable)
        flat = torch.cat([t.detach().flatten() for t in tensors.values()])
        self.params: Vector = flat[:trainable]
        self.buffers: Vector = flat[trainable:]  # no algorithm's business: a gradient step on a variance is no variance
        self.grad: Vector = torch.zeros_like(self.params)
        for name, view in self.layout.views(flat).items():
            tensors[name].data = view
        for name, view in self.layout.views(self.grad).items():
            tensors[name].grad = view  # autograd adds into an existing gradient in place

    def __reduce__(self) -> tuple[type["Network"], tuple[nn.Module]]:
        # Views do not survive a pickle: send the module with tensors of its own, and lay it out anew.
        return Network, (copy.deepcopy(self.module),)


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then the buffers that carry information (not counters)."""
    yield from module.named_parameters()
    yield from ((name, b) for name, b in module.named_buffers() if b.is_floating_point())
