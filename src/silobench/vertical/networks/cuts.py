"""Cuts: how the label holder joins the activations of parties."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.vertical.networks.network import Cut

CutName: TypeAlias = Literal["concatenate", "sum", "attention"]


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
        self.width = _one_width("sum", widths)

    def forward(self, activations: Sequence[Tensor]) -> Tensor:
        total = activations[0]
        for each in activations[1:]:
            total = total + each
        return total


class Attention(Cut):
    """A mean of activations with weights that depend on the row: scaled dot-product attention with a learnt query.

    The activations of parties are its keys and values. A party without the row takes part with what replaces its
    activations: those of zeros, or the learnt embedding of absence.
    """

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.width = _one_width("attention", widths)
        self.query = nn.Parameter(torch.randn(self.width))

    def forward(self, activations: Sequence[Tensor]) -> Tensor:
        tokens = torch.stack(list(activations), dim=1)
        weights = torch.softmax(tokens @ self.query / self.width**0.5, dim=1)
        return (weights.unsqueeze(2) * tokens).sum(1)


def _one_width(cut: str, widths: Sequence[int]) -> int:
    if len(set(widths)) > 1:
        raise ConfigError(
            f"cut={cut} needs activations of one width, but those of parties have {list(widths)}: use cut=concatenate."
        )
    return widths[0]


CUTS: dict[str, Callable[[Sequence[int]], Cut]] = {
    "concatenate": Concatenation,
    "sum": Sum,
    "attention": Attention,
}
