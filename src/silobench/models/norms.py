"""Normalisation layers for images, by name.

`batch` is BatchNorm. `group` and `layer` normalise each image by itself, in groups of channels or all together.
`batch-renorm` is batch renormalisation: it starts as BatchNorm and gradually relies on the running statistics.
`batch-stats` is BatchNorm without running statistics: a test uses those of its own batch.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from annotated_types import Ge
from pydantic import BeforeValidator
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.spec.ranges import Count


def _hyphened(name: Any) -> Any:
    return name.replace("_", "-") if isinstance(name, str) else name


# Types of the arguments that models take: `norm`, `group_size` for groups, `renorm_from` for batch renormalisation.
NormName: TypeAlias = Annotated[
    Literal["batch", "group", "layer", "batch-renorm", "batch-stats"] | None, BeforeValidator(_hyphened)
]
GroupSize: TypeAlias = Annotated[int, Ge(2)]
RenormFrom: TypeAlias = Count
NORM_ARGUMENTS = ("norm", "group_size", "renorm_from")

_RATE = 0.1  # weight of a batch in the running statistics

Norm: TypeAlias = Callable[[int], nn.Module]  # (channels) -> the layer


def norm_of(name: NormName, group_size: int, renorm_from: int) -> Norm | None:
    """Return the layer of this name, as a function of the number of channels; None for no normalisation."""
    if name is None:
        return None
    layers: dict[str, Norm] = {
        "batch": BatchNorm,
        "group": lambda channels: _group(channels, group_size),
        "layer": lambda channels: nn.GroupNorm(1, channels),
        "batch-renorm": lambda channels: BatchRenorm(channels, renorm_from),
        "batch-stats": BatchStats,
    }
    return layers[name]


class _SingleValues(nn.Module):
    """A BatchNorm of torch, except that a batch with one value per channel is normalised by the running statistics."""

    running_mean: Tensor | None
    running_var: Tensor | None
    weight: nn.Parameter
    bias: nn.Parameter
    eps: float

    def forward(self, x: Tensor) -> Tensor:
        is_tracked = self.running_mean is not None
        if self.training and is_tracked and x.numel() == x.shape[1]:  # torch raises: a value minus its mean is always 0
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)  # type: ignore[no-any-return]  # torch types module calls as Any


class BatchNorm(_SingleValues, nn.BatchNorm2d):
    """Torch's BatchNorm of images, for batches of any size."""


class BatchNorm1d(_SingleValues, nn.BatchNorm1d):
    """Torch's BatchNorm of vectors, for batches of any size."""


class BatchNorm3d(_SingleValues, nn.BatchNorm3d):
    """Torch's BatchNorm of volumes, for batches of any size."""


def accept_single_rows(module: nn.Module) -> None:
    """Let the BatchNorm layers of a module take batches of one row, as a party's last batch may be."""
    kinds: dict[type[nn.Module], type[nn.Module]] = {
        nn.BatchNorm1d: BatchNorm1d,
        nn.BatchNorm2d: BatchNorm,
        nn.BatchNorm3d: BatchNorm3d,
    }
    for layer in module.modules():
        if kind := kinds.get(type(layer)):
            layer.__class__ = kind


class BatchStats(nn.BatchNorm2d):
    """BatchNorm with the statistics of the batch, in a test too: OARF's "batch normalisation disabled".

    It has no running statistics, so parties send scales and shifts only. The answer for a row depends on the other rows
    of its batch. If a batch has one value per channel, that value is its own mean, and the output is the shift.
    """

    def __init__(self, channels: int):
        super().__init__(channels, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        # F.batch_norm refuses a batch with one value per channel.
        return torch.batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.eps, False)


class BatchRenorm(BatchNorm):
    """Batch renormalisation (Ioffe, NeurIPS 2017), which moves a batch's statistics towards the running ones.

        y = γ ((x - μ_B) / σ_B · r + d) + β,   r = σ_B / σ within [1/r_max, r_max],   d = (μ_B - μ) / σ within ± d_max

    Neither r nor d has a gradient. For the first `begin` steps r_max = 1 and d_max = 0, which is BatchNorm. Then they
    grow linearly, d_max to 5 at 5 `begin` steps and r_max to 3 at 8 `begin` steps. These are the paper's proportions,
    with its `begin` of 5,000.

    The step counter is a float buffer, so it is sent and averaged together with the statistics.

    Departures from the paper: the running statistics are BatchNorm's (variance instead of deviation), and a batch has a
    weight of 0.1 in them instead of 0.01. With 0.01 they lag behind weights that change fast: with a `begin` of 300 the
    loss of `lenet` on CIFAR-10 then rises from step 300.
    """

    steps: Tensor

    def __init__(self, channels: int, begin: int):
        super().__init__(channels, momentum=_RATE)
        self.begin = begin
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.numel() == x.shape[1]:
            return super().forward(x)
        largest_r, largest_d = self.limits()
        self.steps.add_(1)
        if largest_r == 1 and largest_d == 0:
            return super().forward(x)
        r, d = self._correction(x, largest_r, largest_d)
        return F.batch_norm(x, None, None, self.weight * r, self.weight * d + self.bias, True, 0.0, self.eps)

    def limits(self) -> tuple[float, float]:
        """Return r_max and d_max of the next step."""
        beyond = max(self.steps.item() / self.begin - 1, 0.0)
        return 1 + 2 * min(beyond / 7, 1.0), 5 * min(beyond / 4, 1.0)

    @torch.no_grad()
    def _correction(self, x: Tensor, largest_r: float, largest_d: float) -> tuple[Tensor, Tensor]:
        """Return r and d from the running statistics before this batch, and update these statistics."""
        assert self.running_mean is not None
        assert self.running_var is not None
        mean, scale = self.running_mean.clone(), (self.running_var + self.eps).rsqrt()
        batch_mean, batch_variance = torch.batch_norm_update_stats(x, self.running_mean, self.running_var, _RATE)
        r = ((batch_variance + self.eps).sqrt() * scale).clamp(1 / largest_r, largest_r)
        return r, ((batch_mean - mean) * scale).clamp(-largest_d, largest_d)


def _group(channels: int, size: int) -> nn.Module:
    if channels % size:
        raise ConfigError(
            f"{channels} channels cannot be divided into groups of {size}: take a group_size that divides them."
        )
    return nn.GroupNorm(channels // size, channels)
