"""Clipping: a bound on what one party can contribute."""

import torch

from silobench.method.types import TRANSFORMS, Context, Memory, Positive, Transform, Update


@TRANSFORMS.register
def clip(norm: Positive = 1.0) -> Transform:
    """Scale an update down so that its 2-norm, over all its vectors, is at most `norm`; shorter ones pass unchanged.

    All vectors are scaled by the same factor, and scalars are not changed. FedNova sends its displacement divided by
    the reach, so there the bound applies to the quotient.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        length = float(torch.linalg.vector_norm(torch.cat([part.flatten() for part in update.vectors().values()])))
        return (update.map(lambda part: part * (norm / length)) if length > norm else update), memory

    return Transform(encode)
