"""The sum of the clipped gradients of single rows, in the fastest way that suits a network."""

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from silobench.method.solvers.bookkeeping import add_clipped
from silobench.method.solvers.layer_rules import UnsupportedError, row_norms
from silobench.models import CustomLoss, Network
from silobench.models.devices import random_state, set_random_state

_NUMBERS = 1 << 24  # of gradients of single rows in memory at a time
_TRIAL_ROWS = (2, 3)  # two counts, so that no other dimension of the network can be taken for the rows
_TOLERANCE = 1e-3  # of a trial in single precision: an error of the method would be of the order of 1
_TRIAL_CLIPS = (1e-6, 1e6)  # all rows are clipped, or none

Loss: TypeAlias = Callable[[Any, Tensor, Tensor], Tensor]  # (module, x, y) -> mean loss over rows
ClippedSum: TypeAlias = Callable[[Network, Loss, Tensor, Tensor, float], Tensor]
"""(network, loss, x, y, clip) -> mean loss; ``network.grad`` has the sum of the clipped gradients of single rows.

A row whose loss or gradient is not finite counts as zero. The mean loss leaves it out, and is NaN without other rows.
"""

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
    """Whether a way works in training and is right."""
    is_right = _has_right_parts if way is by_layers else _is_right_without_dropout
    try:
        for x, y in trials:
            way(network, loss, x, y, 1.0)
        return all(is_right(network, loss, x, y) for x, y in trials)
    except (UnsupportedError, RuntimeError):  # torch raises the second for an operation that vmap does not know
        return False


def _is_right_without_dropout(network: Network, loss: Loss, x: Tensor, y: Tensor) -> bool:
    """Whether torch.func computes the gradients of one row after another."""
    network.module.eval()
    try:
        return all(
            _are_close(_vector(network, vectorised, loss, x, y, clip), _vector(network, one_by_one, loss, x, y, clip))
            for clip in _TRIAL_CLIPS
        )
    finally:
        network.module.train()


def _vector(network: Network, way: ClippedSum, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    way(network, loss, x, y, clip)
    return network.grad.clone()


def _has_right_parts(network: Network, loss: Loss, x: Tensor, y: Tensor) -> bool:
    """Whether book-keeping finds the gradient of each row in the graph of a batch, and rows do not affect each other.

    Both are computed from the same graph, in which dropout and all rounding are the same.
    """
    outputs: list[Tensor] = []

    def answer(x: Tensor) -> Tensor:
        outputs.append(network.module(x))
        return outputs[-1]

    if isinstance(network.module, CustomLoss):
        return False
    mean = loss(answer, x, y)
    (by_output,) = torch.autograd.grad(mean, outputs, retain_graph=True)
    if not _is_mean(loss, outputs[0].detach(), y, by_output) or not _are_separate(network.module, x):
        return False
    grads = _grads_of_rows(network.module, outputs[0], by_output * len(x))
    for clip in _TRIAL_CLIPS:
        network.grad.zero_()
        add_clipped(mean, len(x), clip, keep_graph=True)
        if not _are_close(network.grad, grads.t() @ scales(row_norms(grads), clip)):
            return False
    return True


def _grads_of_rows(module: nn.Module, outputs: Tensor, by_output: Tensor) -> Tensor:
    """Return the gradient of each row, [rows, parameters], by one backward pass per row through the same graph."""
    params = [each for each in module.parameters() if each.requires_grad]
    grads = []
    for row in range(len(outputs)):
        only = torch.zeros_like(by_output)
        only[row] = by_output[row]
        parts = torch.autograd.grad(outputs, params, only, retain_graph=True, materialize_grads=True)
        grads.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(grads)


def _is_mean(loss: Loss, outputs: Tensor, y: Tensor, grad: Tensor) -> bool:
    """Whether the loss is the mean of the losses of single rows, by its gradient at these outputs."""
    leaf = outputs.requires_grad_()
    losses = [loss(lambda rows: rows, leaf[row : row + 1], y[row : row + 1]) for row in range(len(y))]
    return _are_close(grad, torch.autograd.grad(torch.stack(losses).mean(), leaf)[0])


@torch.no_grad()
def _are_separate(module: nn.Module, x: Tensor) -> bool:
    """Whether the answer to a row does not depend on the other rows of its batch.

    Double precision, because a network may turn the rounding of batches of different sizes into other answers.
    """
    precise, x = copy.deepcopy(module).double().eval(), x.double() if x.is_floating_point() else x
    return _are_close(precise(x), torch.cat([precise(row) for row in x.split(1)]))


def _are_close(values: Tensor, expected: Tensor) -> bool:
    return bool((values - expected).norm() <= _TOLERANCE * expected.norm())


def scales(norms: Tensor, clip: float) -> Tensor:
    """Return the factors that clip gradients of these norms."""
    return (clip / norms).clamp_(max=1.0)


def by_layers(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Compute a `ClippedSum` by book-keeping.

    It is computed row by row where the network takes another path for a batch, or where a row is not finite.
    """
    network.grad.zero_()
    mean = loss(network.module, x, y)
    try:
        add_clipped(mean, len(x), clip)
    except UnsupportedError:
        return one_by_one(network, loss, x, y, clip)
    return mean.detach() if _is_finite(mean, network.grad) else one_by_one(network, loss, x, y, clip)


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
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")  # it is still the fastest way
            grads, losses = by_row(params, rows, labels)
        flat = torch.cat([grads[name].flatten(1) for name in params], 1)
        network.grad.addmv_(flat.t(), scales(row_norms(flat), clip))
        total += losses.sum()
    return total / len(x) if _is_finite(total, network.grad) else one_by_one(network, loss, x, y, clip)


def one_by_one(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Compute a `ClippedSum` by one backward pass per row."""
    sums, total, count = torch.zeros_like(network.grad), torch.zeros((), device=x.device), 0
    for row in range(len(x)):
        network.grad.zero_()
        value = loss(network.module, x[row : row + 1], y[row : row + 1])
        value.backward()
        norm = row_norms(network.grad[None])
        if _is_finite(value, norm):
            sums.addcmul_(network.grad, scales(norm, clip))
            total += value.detach()
            count += 1
    network.grad.copy_(sums)
    return total / count


@torch.no_grad()
def _is_finite(loss: Tensor, values: Tensor) -> bool:
    """Whether a loss and other values are finite; a sum shows it in the shortest time."""
    return math.isfinite(loss + values.sum())


class _Losses(nn.Module):
    """The loss of a module as a module, whose parameters `functional_call` can replace."""

    def __init__(self, module: nn.Module, loss: Loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.module, x, y)
