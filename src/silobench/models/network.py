"""A torch module whose parameters and gradients are views of two flat vectors."""

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
        self.params: Vector = torch.cat([t.detach().flatten() for t in tensors.values()])
        self.grad: Vector = torch.zeros_like(self.params)
        params, grads = self.layout.views(self.params), self.layout.views(self.grad)
        for name, tensor in tensors.items():
            tensor.data = params[name]
            if isinstance(tensor, nn.Parameter):
                tensor.grad = grads[name]  # autograd adds into an existing gradient in place


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then the buffers that carry information (not counters)."""
    yield from module.named_parameters()
    yield from ((name, b) for name, b in module.named_buffers() if b.is_floating_point())
