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
        squares = values.square().sum(1, keepdim=True)
        ratio = torch.where(squares > 0, squares.max() / squares, torch.ones_like(squares))
        return values * (1 + normal(squares, rng) * (ratio - 1).clamp_min(0).sqrt())

    return Defence(gradients=gradients)
