"""`Network`, a torch module whose parameters and gradients are views of flat vectors; `Classifier`, its base class."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from silobench.errors import ConfigError
from silobench.vectors import Layout, Vector

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.GroupNorm, nn.LayerNorm)


class Classifier(nn.Module, ABC):
    """A network in two parts: `features` computes the representation of rows, and `last` its logits.

    `last` applies the linear layer `out`; a subclass without such a layer overrides it. `notes` are sentences to show
    before the first round.
    """

    out: nn.Linear
    notes: tuple[str, ...] = ()

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Return the representation of rows: the input of the last layer."""

    def last(self, features: Tensor) -> Tensor:
        """Return the logits of a representation."""
        return self.out(features)  # type: ignore[no-any-return]  # torch types module calls as Any

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.features(x))

    def similarity(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the similarity of two batches of representations, row by row, at most 1; verification compares it."""
        return F.cosine_similarity(first, second)


class CustomLoss(Classifier):
    """A network with its own training loss instead of cross-entropy."""

    @abstractmethod
    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of a batch."""


class Network:
    """A module with its parameters in one flat vector: writing to `params` changes the weights, backward fills `grad`.

    Frozen parameters (`requires_grad` is False), buffers of integers and buffers that are not persistent are constants
    of the module: they are in no vector, so they are neither trained, sent nor stored.

    >>> network = Network(nn.Linear(2, 1))
    >>> _ = network.params.copy_(torch.tensor([1.0, 2.0, 3.0]))
    >>> network.module(torch.tensor([[1.0, 1.0]])).item()
    6.0
    """

    def __init__(self, module: nn.Module):
        self.module = module
        tensors = dict(_tensors(module))
        trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
        self.layout = Layout(tuple(tensors), tuple(t.shape for t in tensors.values()), trainable, _norms(module))
        flat = torch.cat([t.detach().flatten() for t in tensors.values()]) if tensors else torch.zeros(0)
        self.params: Vector = flat[:trainable]
        self.buffers: Vector = flat[trainable:]  # separate from params: a gradient step on a variance makes no sense
        self.grad: Vector = torch.zeros_like(self.params)
        for name, view in self.layout.views(flat).items():
            tensors[name].data = view
        for name, view in self.layout.views(self.grad).items():
            tensors[name].grad = view  # autograd adds into an existing gradient in place

    def copy(self) -> "Network":
        """Return a copy that shares no memory with the network."""
        return Network(copy.deepcopy(self.module))

    def to(self, device: str) -> "Network":
        """Return a copy of the network on a device; the network itself if it is there already."""
        if self.params.device.type == torch.device(device).type:
            return self
        return Network(copy.deepcopy(self.module).to(device))

    def answer(self, x: Tensor, params: Vector | None = None) -> tuple[Tensor, Tensor]:
        """Return the representation and logits of rows at the current parameters, or at others without a gradient.

        Other parameters are used in training mode, with the statistics of the batch, because the running statistics
        belong to the current parameters; they do not update the running statistics either.
        """
        both = _Both(self.module)
        if params is None:
            return both(x)  # type: ignore[no-any-return]  # torch types module calls as Any
        spare = {name: buffer.clone() for name, buffer in self.module.named_buffers()}
        tensors = {f"module.{name}": tensor for name, tensor in (self.layout.views(params) | spare).items()}
        with torch.no_grad():
            return functional_call(both, tensors, (x,))  # type: ignore[no-any-return]

    def __reduce__(self) -> "tuple[Callable[..., Network], tuple[Any, ...]]":
        # Views do not survive pickling: send a copy of the module, and flatten it again.
        module, device = copy.deepcopy(self.module), self.params.device.type
        return (Network, (module,)) if device == "cpu" else (_on_device, (module.to("cpu"), device))


def _on_device(module: nn.Module, device: str) -> Network:
    """Return a network on the receiver's device of this type, which may be another GPU than the sender's."""
    return Network(module).to(device)


class _Both(nn.Module):
    """A module that returns both the representation and the logits of rows."""

    def __init__(self, module: nn.Module):
        super().__init__()
        if not isinstance(module, Classifier):
            raise ConfigError(
                f"the network {type(module).__name__} has no separate `features`, which this algorithm's loss needs: "
                "make it a silobench.models.Classifier."
            )
        self.module = module

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.module.features(x)
        logits = self.module.last(features)
        return features.to_dense() if features.is_sparse_csr else features, logits


def _norms(module: nn.Module) -> frozenset[str]:
    """Return the names of all tensors of normalisation layers."""
    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, _NORMS)]
    return frozenset(
        tensor
        for name, layer in layers
        for tensor, _ in (*layer.named_parameters(name), *layer.named_buffers(name))
        if not tensor.endswith("num_batches_tracked")
    )


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the trained parameters, then the floating-point buffers that are part of the module's state."""
    yield from ((name, p) for name, p in module.named_parameters() if p.requires_grad)
    persistent = module.state_dict(keep_vars=True).keys()
    yield from ((name, b) for name, b in module.named_buffers() if b.is_floating_point() and name in persistent)
