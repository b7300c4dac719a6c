"""Clipping: bound what one party can contribute."""

import torch

from silobench.method.types import Context, Memory, Positive, Transform, Update


def clip(norm: Positive = 1.0) -> Transform:
    """Scale an update down so that its 2-norm, over all its vectors, is at most `norm`; shorter ones pass unchanged.

    All vectors are scaled by one factor, so their directions agree afterwards as before; scalars are left alone. What
    FedNova sends is its displacement per unit of reach, so there the bound is on that.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        length = float(torch.linalg.vector_norm(torch.cat([part.flatten() for part in update.vectors().values()])))
        return (update.map(lambda part: part * (norm / length)) if length > norm else update), memory

    return Transform(encode)
