"""Gaussian noise at the cut."""

from typing import Literal

import numpy as np
from torch import Tensor

from silobench.method.types import Positive
from silobench.vertical.defences.defence import DEFENCES, Defence, normal


@DEFENCES.register
def noise(deviation: Positive = 0.1, at: Literal["activations", "gradients", "both"] = "activations") -> Defence:
    """Add Gaussian noise to activations, to gradients or to both.

    `deviation` is relative to the standard deviation of all numbers of the batch, so that the noise keeps its strength
    while activations grow and gradients shrink. Such noise states no epsilon: differential privacy needs a bound on the
    length of each row and noise relative to that bound, and here neither depends on a bound.
    """

    def add(values: Tensor, rng: np.random.Generator) -> Tensor:
        return values + normal(values, rng) * (deviation * values.detach().std(correction=0))

    def gradients(values: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
        return add(values, rng)

    return Defence(add if at != "gradients" else None, gradients if at != "activations" else None)
