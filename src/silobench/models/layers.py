"""Layers that several networks share."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from silobench.models.norms import Norm

_BITS = 16  # per number of a dropout


def convolution(before: int, after: int, side: int, stride: int, norm: Norm | None) -> nn.Sequential:
    """Return a padded convolution from `before` to `after` channels and its normalisation, which replaces its bias."""
    layer = nn.Conv2d(before, after, side, stride, padding=side // 2, bias=norm is None)
    return nn.Sequential(layer, *([] if norm is None else [norm(after)]))


def overlapping_pool(x: Tensor) -> Tensor:
    """Return the maximum over 3x3 windows with stride two, cut off at the edge; a side of one pixel stays."""
    return F.max_pool2d(x, 3, 2, padding=[int(side == 1) for side in x.shape[2:]], ceil_mode=True)


def initialise_convolutions(network: nn.Module, mode: Literal["fan_in", "fan_out"] = "fan_in") -> None:
    """Draw the weights of convolutions by He et al.'s normal initialisation, and set their biases to 0."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode=mode, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Return `F.dropout(x, share, training)` from fewer random bits: 16 per number, ten times as fast on a CPU.

    So `share`, which is below 1, is rounded to a multiple of 1/65536, at most 65535/65536.
    """
    count = min(round(share * (1 << _BITS)), (1 << _BITS) - 1)
    if not training or not count:
        return x
    words = torch.empty(-(-x.numel() * _BITS // 64), dtype=torch.int64, device=x.device).random_(-(1 << 63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)
    return x * (bits >= count - (1 << _BITS - 1)) * (1 / (1 - count / (1 << _BITS)))


def scaled(channels: int, width: float) -> int:
    """Return `width` times as many channels, rounded to an even number so that groups of two can be normalised."""
    return max(2 * round(channels * width / 2), 2)
