"""A torch module whose parameters and gradients are views of two flat vectors, and the shape that modules have."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from silobench.errors import ConfigError
from silobench.vectors import Layout, Vector

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm)


class Classifier(nn.Module, ABC):
    """A network in two parts: `features` gives the representation of rows, `last`, a linear layer, reads it."""

    @abstractmethod
    def features(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def last(self, features: Tensor) -> Tensor: ...

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.features(x))

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """How alike the representations of two rows are, at most 1: what verification goes by."""
        return F.cosine_similarity(first, second)


class OwnLoss(Classifier):
    """A network that says itself what its training minimises, where others minimise cross-entropy."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor: ...


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
        self.layout = Layout(tuple(tensors), tuple(t.shape for t in tensors.values()), trainable, _norms(module))
        flat = torch.cat([t.detach().flatten() for t in tensors.values()])
        self.params: Vector = flat[:trainable]
        self.buffers: Vector = flat[trainable:]  # no algorithm's business: a gradient step on a variance is no variance
        self.grad: Vector = torch.zeros_like(self.params)
        for name, view in self.layout.views(flat).items():
            tensors[name].data = view
        for name, view in self.layout.views(self.grad).items():
            tensors[name].grad = view  # autograd adds into an existing gradient in place

    def answer(self, x: Tensor, params: Vector | None = None) -> tuple[Tensor, Tensor]:
        """Representation and logits of rows: at the present parameters, or at others, which get no gradient.

        Others are used as in training, with a batch's own statistics: running ones belong to the present parameters.
        They move only these.
        """
        both = _Both(self.module)
        if params is None:
            return both(x)  # type: ignore[no-any-return]  # torch types module calls as Any
        spare = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        tensors = {f"module.{name}": tensor for name, tensor in (self.layout.views(params) | spare).items()}
        with torch.no_grad():
            return functional_call(both, tensors, (x,))  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type["Network"], tuple[nn.Module]]:
        # Views do not survive a pickle: send the module with tensors of its own, and lay it out anew.
        return Network, (copy.deepcopy(self.module),)


class _Both(nn.Module):
    """The representation of rows and what the last layer makes of it."""

    def __init__(self, module: nn.Module):
        super().__init__()
        if not isinstance(module, Classifier):
            raise ConfigError(
                f"the network {type(module).__name__} does not tell what its last layer reads, which this algorithm's "
                "loss asks for: make it a silobench.models.Classifier."
            )
        self.module = module

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.module.features(x)
        logits = self.module.last(features)
        return features.to_dense() if features.is_sparse_csr else features, logits


def _norms(module: nn.Module) -> frozenset[str]:
    """The names of all tensors of normalisation layers."""
    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, _NORMS)]
    return frozenset(
        tensor
        for name, layer in layers
        for tensor, _ in (*layer.named_parameters(name), *layer.named_buffers(name))
        if not tensor.endswith("num_batches_tracked")
    )


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, then the buffers that carry information (not counters)."""
    yield from module.named_parameters()
    yield from ((name, b) for name, b in module.named_buffers() if b.is_floating_point())
