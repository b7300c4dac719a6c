"""The sum of the clipped gradients of single rows, in a network's gradient."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from silobench.models import Network

_NUMBERS = 1 << 24  # of gradients of single rows in memory at a time

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]  # (module, x, y) -> mean loss over rows


def mixes_rows(module: nn.Module) -> bool:
    """Whether the module has BatchNorm, so that the gradient of a row depends on the other rows of its batch."""
    return any(isinstance(layer, _BatchNorm) for layer in module.modules())


def clipped_sum(network: Network, loss: Loss, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Write the sum over rows of their gradients, each scaled down to a norm of at most `clip`, to ``network.grad``.

    Return the mean loss.
    """
    network.grad.zero_()
    wrapped, total = _Losses(network.module, loss), torch.zeros((), device=x.device)
    size = max(1, _NUMBERS // max(1, network.params.numel()))
    for rows, labels in zip(x.split(size), y.split(size), strict=True):
        grads, losses = _by_row(wrapped, rows, labels)
        network.grad.addmv_(grads.t(), scales(grads.norm(dim=1), clip))
        total += losses.sum()
    return total / len(x)


def scales(norms: Tensor, clip: float) -> Tensor:
    """Return the factors that clip rows of these norms."""
    return (clip / norms).clamp_(max=1.0)


class _Losses(nn.Module):
    """The loss of a module as a module, whose parameters `functional_call` can replace."""

    def __init__(self, module: nn.Module, loss: Loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.module, x, y)


def _by_row(wrapped: _Losses, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient of each row, [rows, parameters], and its loss."""
    try:
        return _vectorised(wrapped, x, y)
    except RuntimeError:  # an operation that vmap does not know
        return _one_by_one(wrapped, x, y)


def _vectorised(wrapped: _Losses, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    params = {name: each.detach() for name, each in wrapped.named_parameters() if each.requires_grad}

    def loss_of(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional_call(wrapped, params, (x[None], y[None]))  # type: ignore[no-any-return]

    grads, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0), randomness="different")(params, x, y)
    return torch.cat([grads[name].flatten(1) for name in params], 1), losses


def _one_by_one(wrapped: _Losses, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    params = [each for each in wrapped.parameters() if each.requires_grad]
    grads, losses = [], []
    for row in range(len(x)):
        loss = wrapped(x[row : row + 1], y[row : row + 1])
        parts = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
        grads.append(torch.cat([part.flatten() for part in parts]))
        losses.append(loss.detach())
    return torch.stack(grads), torch.stack(losses)
