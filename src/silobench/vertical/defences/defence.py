"""`Defence`: a change to what crosses the cut, against what it tells about labels or columns."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from silobench.spec import Registry
from silobench.spec.contract import Contract


@dataclass(frozen=True)
class Defence:
    """A defence at the cut. A hook that is None changes nothing."""

    activations: Callable[[Tensor, np.random.Generator], Tensor] | None = None
    """(activations of a batch [rows, width], generator) -> what a party sends."""
    gradients: Callable[[Tensor, Tensor, np.random.Generator], Tensor] | None = None
    """(gradients of a batch [rows, width], labels, generator) -> what the label holder sends."""
    penalty: Callable[[Tensor, Tensor], Tensor] | None = None
    """(inputs, activations of a batch) -> a scalar that a party adds to the loss that it reduces."""
    refuses: Callable[[int], str | None] = lambda classes: None
    """(number of classes, 0 for numbers) -> why the defence cannot be used, or None."""


DEFENCES: Registry[Defence] = Registry("defence", Contract(Defence, "an sb.Defence(...)"))
