"""Noise along each gradient, so that all gradients are as long as the longest (Li et al., ICLR 2022)."""

import numpy as np
import torch
from torch import Tensor

from silobench.vertical.defences.defence import DEFENCES, Defence, normal


@DEFENCES.register
def max_norm() -> Defence:
    """Stretch each gradient by a random factor, so that all have the mean squared norm of the longest in the batch.

    The factor of a row is 1 + normal noise, with mean 1, so gradients stay right on average. This is the heuristic
    max_norm of Li et al., ICLR 2022. The noise is along the gradient, so its direction stays, up to the sign.
    """

    def gradients(values: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
        ratio = _ratio(values)
        numbers = normal(ratio, rng)
        sent = _stretched(values, ratio, numbers)
        beyond = ~ratio.isfinite()  # beyond float32, because one gradient is some 1e19 times as long as another
        if beyond.any():
            exact = values.double()
            sent = torch.where(beyond, _stretched(exact, _ratio(exact), numbers).to(values.dtype), sent)
        return sent

    return Defence(gradients=gradients)


def _ratio(values: Tensor) -> Tensor:
    """Return by how much the squared norm of the longest gradient exceeds that of each, [n, 1]; 1 for one of zeros."""
    squares = values.square().sum(1, keepdim=True)
    return torch.where(squares > 0, squares.max() / squares, torch.ones_like(squares))


def _stretched(values: Tensor, ratio: Tensor, numbers: Tensor) -> Tensor:
    return values * (1 + numbers * (ratio - 1).clamp_min(0).sqrt())
