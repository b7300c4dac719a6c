"""`Defence`: what parties do to activations and gradients before they cross the cut."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from silobench.method.checks import like, sentence
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described


def _accepts(classes: int) -> str | None:
    """Refuse nothing."""
    return None


@dataclass(frozen=True)
class Defence:
    """A defence against what the other side can infer. Hooks that are None leave their part as it is."""

    activations: Callable[[Tensor, np.random.Generator], Tensor] | None = None
    """(activations of a batch [B, k], random numbers) -> activations that a party sends to the label holder"""
    gradients: Callable[[Tensor, Tensor, np.random.Generator], Tensor] | None = None
    """(gradients of a batch [B, k], labels [B], random numbers) -> gradients that the label holder sends to a party"""
    penalty: Callable[[Tensor, Tensor], Tensor] | None = None
    """(columns of a party for a batch [B, d], its activations [B, k]) -> number to add to the party's loss"""
    refuses: Callable[[int], str | None] = _accepts
    """(number of classes, 0 for a numeric target) -> why the defence is not defined for such labels, or None"""


def normal(like: Tensor, rng: np.random.Generator) -> Tensor:
    """Return standard normal numbers of the shape and type of a tensor."""
    return torch.from_numpy(rng.standard_normal(tuple(like.shape))).to(like.dtype)


def _is_like_first(value: Any, arguments: Sequence[Any]) -> str | None:
    return like(value, arguments[0], "a batch of the same shape")


def _is_number(value: Any, arguments: Sequence[Any]) -> str | None:
    is_number = isinstance(value, Tensor) and value.dim() == 0
    return None if is_number else f"{described(value)}, but a tensor with one number is expected"


DEFENCES: Registry[Defence] = Registry(
    "defence",
    Contract(
        Defence,
        "an sb.Defence(...)",
        {
            "activations": Form("activations, rng", _is_like_first),
            "gradients": Form("gradients, labels, rng", _is_like_first),
            "penalty": Form("columns, activations", _is_number),
            "refuses": Form("classes", sentence),
        },
    ),
)
