"""Normalisation of the channels of pictures: every kind a network can be asked for, by one name."""

from collections.abc import Callable
from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn

from silobench.errors import ConfigError

Norm = Callable[[int], nn.Module]  # channels -> the layer
NormName = Literal["batch", "group", "layer"]
GroupSize = Annotated[int, Ge(2)]


def norm_of(name: NormName | None, group_size: int = 2) -> Norm | None:
    """The layer of this name as a function of the number of channels; none of none.

    `group` normalises groups of `group_size` adjacent channels of a picture, `layer` all of them together.
    """
    if name is None:
        return None
    return {"batch": BatchNorm, "group": _group(group_size), "layer": lambda channels: nn.GroupNorm(1, channels)}[name]


class BatchNorm(nn.BatchNorm2d):
    """Torch's, but that a batch with one value per channel is normalised by the running statistics."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel() == x.shape[1]:  # torch would refuse: a value less its own mean is 0
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)


def _group(size: int) -> Norm:
    def layer(channels: int) -> nn.Module:
        if channels % size:
            raise ConfigError(f"{channels} channels make no groups of {size}: take a group_size that divides them.")
        return nn.GroupNorm(channels // size, channels)

    return layer
