"""Split networks of dense layers: a linear model, and multilayer perceptrons."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import torch
from annotated_types import Ge
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from torch import Tensor, nn

from silobench.vertical.networks.cuts import CUTS, CutName, Sum
from silobench.vertical.networks.network import VERTICAL_MODELS, Halves, VerticalModel, VerticalSizes


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _need_layer(value: Any) -> Any:
    if value in ((), []):
        raise PydanticCustomError("widths", "at least one width, such as [32, 16] or 32")
    return _as_tuple(value)


_Width: TypeAlias = Annotated[int, Ge(1)]
Widths: TypeAlias = Annotated[tuple[_Width, ...], BeforeValidator(_as_tuple)]
SomeWidths: TypeAlias = Annotated[tuple[_Width, ...], BeforeValidator(_need_layer)]  # at least one


def dense(widths: Sequence[int], ends_active: bool = False) -> nn.Sequential:
    """Return linear layers of these widths with ReLU between them and, if `ends_active`, after them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*(layers if ends_active else layers[:-1]))


class _Bias(nn.Module):
    """The intercept of a linear model."""

    def __init__(self, outputs: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


@VERTICAL_MODELS.register
def linear() -> VerticalModel:
    """A linear model over the columns of all parties: each sends its part of the sum, and the label holder adds them.

    For classes it is vertical logistic regression, for numbers linear regression.
    """

    def halves(sizes: VerticalSizes) -> Halves:
        bottoms = [nn.Linear(inputs, sizes.outputs, bias=False) for inputs in sizes.inputs]
        widths = [sizes.outputs] * len(bottoms)
        return Halves(bottoms, widths, Sum(widths), _Bias(sizes.outputs))

    return VerticalModel(halves)


@VERTICAL_MODELS.register
def mlp(hidden: SomeWidths = (32, 16), top: Widths = (16,), cut: CutName = "concatenate") -> VerticalModel:
    """A perceptron with the layers `hidden` at each party, and one with the layers `top` over their activations."""

    def halves(sizes: VerticalSizes) -> Halves:
        bottoms = [dense((inputs, *hidden), ends_active=True) for inputs in sizes.inputs]
        widths = [hidden[-1]] * len(bottoms)
        joint = CUTS[cut](widths)
        return Halves(bottoms, widths, joint, dense((joint.width, *top, sizes.outputs)))

    return VerticalModel(halves)


@VERTICAL_MODELS.register
def oarf_mlp() -> VerticalModel:
    """OARF's network for year prediction: layers of 2d and d/2 at a party with d features, and one layer over all.

    The label holder concatenates the second layers. A party by itself, and all columns in one place, have a perceptron
    d, 2d, d/2 and the outputs.
    """

    def halves(sizes: VerticalSizes) -> Halves:
        widths = [max(1, inputs // 2) for inputs in sizes.inputs]
        bottoms = [
            dense((inputs, 2 * inputs, width), ends_active=True)
            for inputs, width in zip(sizes.inputs, widths, strict=True)
        ]
        return Halves(bottoms, widths, CUTS["concatenate"](widths), dense((sum(widths), sizes.outputs)))

    return VerticalModel(halves)
