"""Normalisation of the channels of pictures: every kind that a network can be asked for, by one name.

`batch` is BatchNorm; `group` and `layer` normalise each picture by itself, in groups of channels or all together;
`batch-renorm` is between: it begins as BatchNorm and comes to rely on the running statistics.
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


# What models take as arguments: `norm`, `group_size` for groups, `renorm_from` for batch renormalisation.
NormName: TypeAlias = Annotated[Literal["batch", "group", "layer", "batch-renorm"] | None, BeforeValidator(_hyphened)]
GroupSize: TypeAlias = Annotated[int, Ge(2)]
RenormFrom: TypeAlias = Count
NORM_ARGUMENTS = ("norm", "group_size", "renorm_from")

_RATE = 0.1  # at which running statistics follow

Norm: TypeAlias = Callable[[int], nn.Module]  # channels -> the layer


def norm_of(name: NormName, group_size: int, renorm_from: int) -> Norm | None:
    """The layer of this name, as a function of the number of channels; None for none."""
    if name is None:
        return None
    layers: dict[str, Norm] = {
        "batch": BatchNorm,
        "group": lambda channels: _group(channels, group_size),
        "layer": lambda channels: nn.GroupNorm(1, channels),
        "batch-renorm": lambda channels: BatchRenorm(channels, renorm_from),
    }
    return layers[name]


class BatchNorm(nn.BatchNorm2d):
    """Torch's, but that a batch with one value per channel is normalised by the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:  # torch would refuse: a value less its own mean is 0
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)


class BatchRenorm(BatchNorm):
    """Batch renormalisation (Ioffe, NeurIPS 2017), which draws a batch's statistics towards the running ones:

        y = γ ((x - μ_B) / σ_B · r + d) + β,   r = σ_B / σ within [1/r_max, r_max],   d = (μ_B - μ) / σ within ± d_max

    Neither r nor d has a gradient. For the first `begin` steps r_max = 1 and d_max = 0, which is BatchNorm; then they
    grow evenly, d_max to 5 at five times as many steps and r_max to 3 at eight times: the paper's proportions, whose
    `begin` is 5,000.

    The counter of steps is a buffer of floats, so that it travels with the statistics and is averaged as they are.

    Departures from the paper: the running statistics are BatchNorm's, of the variance and not of the deviation, and a
    batch has a tenth in them, not a hundredth. Weights that move fast leave slower ones behind: with a hundredth and a
    `begin` of 300 the loss of `lenet` on CIFAR-10 rises from there on.
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
        """r_max and d_max of the next step."""
        beyond = max(self.steps.item() / self.begin - 1, 0.0)
        return 1 + 2 * min(beyond / 7, 1.0), 5 * min(beyond / 4, 1.0)

    @torch.no_grad()
    def _correction(self, x: Tensor, largest_r: float, largest_d: float) -> tuple[Tensor, Tensor]:
        """r and d by the running statistics as they were before this batch, which are then updated."""
        assert self.running_mean is not None
        assert self.running_var is not None
        mean, scale = self.running_mean.clone(), (self.running_var + self.eps).rsqrt()
        its_mean, its_variance = torch.batch_norm_update_stats(x, self.running_mean, self.running_var, _RATE)
        r = ((its_variance + self.eps).sqrt() * scale).clamp(1 / largest_r, largest_r)
        return r, ((its_mean - mean) * scale).clamp(-largest_d, largest_d)


def _group(channels: int, size: int) -> nn.Module:
    if channels % size:
        raise ConfigError(f"{channels} channels make no groups of {size}: take a group_size that divides them.")
    return nn.GroupNorm(channels // size, channels)
