"""Cuts: how the label holder joins the activations of parties."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from silobench.errors import ConfigError
from silobench.vertical.networks.network import Cut

CutName: TypeAlias = Literal["concatenate", "sum"]


class Concatenation(Cut):
    """Activations side by side; they may have different widths."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.width = sum(widths)

    def forward(self, activations: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(activations), dim=1)


class Sum(Cut):
    """The sum of activations, which all have the same width."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        if len(set(widths)) > 1:
            raise ConfigError(f"cut=sum needs activations of one width, but parties have {list(widths)}: concatenate.")
        self.width = widths[0]

    def forward(self, activations: Sequence[Tensor]) -> Tensor:
        total = activations[0]
        for each in activations[1:]:
            total = total + each
        return total


CUTS: dict[str, Callable[[Sequence[int]], Cut]] = {"concatenate": Concatenation, "sum": Sum}
