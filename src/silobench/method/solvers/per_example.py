"""The sum of the clipped gradients of single rows, in the fastest way that suits a network."""

from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from silobench.method.solvers.bookkeeping import Loss, UnsupportedError, book_keeping
from silobench.models import Network
from silobench.models.devices import random_state, set_random_state

_NUMBERS = 1 << 24  # of gradients of single rows in memory at a time
_TRIAL_ROWS = (2, 3)  # two counts, so that no other dimension of the network can be taken for the rows
_TOLERANCE = 1e-3  # of a trial in single precision: an error of the method would be of the order of 1

ClippedSum: TypeAlias = Callable[[Network, Loss, Tensor, Tensor, float], Tensor]
"""(network, loss, x, y, clip) -> mean loss; ``network.grad`` has the sum of the clipped gradients of single rows."""

_ways: WeakKeyDictionary[nn.Module, ClippedSum] = WeakKeyDictionary()


def mixes_rows(module: nn.Module) -> bool:
    """Whether the module has BatchNorm, so that the gradient of a row depends on the other rows of its batch."""
    return any(isinstance(layer, _BatchNorm) for layer in module.modules())


def clipped_sum_of(network: Network, loss: Loss, rows: Callable[[int], tuple[Tensor, Tensor]]) -> ClippedSum:
    """Return the fastest function that suits a network; it is tried once, on the first rows of the data.

    `rows` returns the features and labels of the first rows of the data, by their number.
    """
    if network.module not in _ways:
        _ways[network.module] = _fastest(network, loss, [rows(count) for count in _TRIAL_ROWS])
    return _ways[network.module]


def _fastest(network: Network, loss: Loss, trials: list[tuple[Tensor, Tensor]]) -> ClippedSum:
    ways: tuple[ClippedSum, ...] = (by_layers, vectorised)
    params, buffers, random = network.params.clone(), network.buffers.clone(), random_state(network.params.device)
    generator = torch.Generator().manual_seed(0)
    # Weights that are zero would hide what is wrong in the layers before them.
    network.params.add_(torch.randn(len(params), generator=generator).to(params.device), alpha=0.1)
    try:
        return next((way for way in ways if _suits(way, network, loss, trials)), one_by_one)
    finally:
        network.params.copy_(params)
        network.buffers.copy_(buffers)
        set_random_state(random, params.device)


def _suits(way: ClippedSum, network: Network, loss: Loss, trials: list[tuple[Tensor, Tensor]]) -> bool:
    """Whether a way works in training, and agrees with one row after another where there is no dropout."""
    try:
        for x, y in trials:
            way(network, loss, x, y, 1.0)
        network.module.eval()
        return all(_agrees(way, network, loss, x, y, clip) for x, y in trials for clip in (1e-6, 1e6))
    except (UnsupportedError, RuntimeError):  # torch raises the second for an operation that vmap does not know
        return False
    finally:
        network.module.train()


def _agrees(way: ClippedSum, network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> bool:
    one_by_one(network, loss, x, y, clip)
    expected = network.grad.clone()
    way(network, loss, x, y, clip)
    return bool((network.grad - expected).norm() <= _TOLERANCE * expected.norm())


def scales(norms: Tensor, clip: float) -> Tensor:
    """Return the factors that clip gradients of these norms."""
    return (clip / norms).clamp_(max=1.0)


def by_layers(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Compute a `ClippedSum` by book-keeping."""
    network.grad.zero_()
    return book_keeping(network.module, loss, x, y, clip)


def vectorised(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Compute a `ClippedSum` by torch.func, which has the gradients of many rows in memory."""
    wrapped = _Losses(network.module, loss)
    params = {name: each.detach() for name, each in wrapped.named_parameters() if each.requires_grad}

    def loss_of(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional_call(wrapped, params, (x[None], y[None]))  # type: ignore[no-any-return]

    by_row = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0), randomness="different")
    network.grad.zero_()
    total, size = torch.zeros((), device=x.device), max(1, _NUMBERS // network.params.numel())
    for rows, labels in zip(x.split(size), y.split(size), strict=True):
        grads, losses = by_row(params, rows, labels)
        flat = torch.cat([grads[name].flatten(1) for name in params], 1)
        network.grad.addmv_(flat.t(), scales(flat.norm(dim=1), clip))
        total += losses.sum()
    return total / len(x)


def one_by_one(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Compute a `ClippedSum` by one backward pass per row."""
    sums, total = torch.zeros_like(network.grad), torch.zeros((), device=x.device)
    for row in range(len(x)):
        network.grad.zero_()
        value = loss(network.module, x[row : row + 1], y[row : row + 1])
        value.backward()
        sums.addcmul_(network.grad, scales(network.grad.norm(), clip))
        total += value.detach()
    network.grad.copy_(sums)
    return total / len(x)


class _Losses(nn.Module):
    """The loss of a module as a module, whose parameters `functional_call` can replace."""

    def __init__(self, module: nn.Module, loss: Loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.module, x, y)
