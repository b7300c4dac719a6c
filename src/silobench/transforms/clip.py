"""Clipping: bound what one party can contribute."""

import torch

from silobench.types import Context, Memory, Positive, Transform, Update


def clip(norm: Positive = 1.0) -> Transform:
    """Scale an update down so that the 2-norm of its mean is at most `norm`; shorter ones pass unchanged.

    All named parts are scaled by one factor, so their directions agree afterwards as before. A part that is summed
    without weights (SCAFFOLD's control variates) counts in the norm at its share of the weight.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        parts = [part.flatten() for part in update.mean().values()]
        length = float(torch.linalg.vector_norm(torch.cat(parts)))
        factor = min(1.0, norm / length) if length > 0 else 1.0
        return Update({name: part * factor for name, part in update.total.items()}, update.weight), memory

    return Transform(encode)
