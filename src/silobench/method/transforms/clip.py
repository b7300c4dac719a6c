"""Clipping: a bound on what one party can contribute."""

import torch

from silobench.method.types import TRANSFORMS, Context, Encoded, Memory, Positive, Transform, Update


@TRANSFORMS.register
def clip(norm: Positive = 1.0) -> Transform:
    """Scale an update down so that its 2-norm, over all its vectors, is at most `norm`; shorter ones pass unchanged.

    All vectors are scaled by the same factor, and scalars are not changed. FedNova sends its displacement divided by
    the reach, so there the bound applies to the quotient. It reports the norm before and the share of parties clipped.
    """

    def encode(update: Update, memory: Memory, context: Context) -> Encoded:
        length = float(torch.linalg.vector_norm(torch.cat([part.flatten() for part in update.vectors().values()])))
        report = {"clip rate": float(length > norm), "update norm": length}
        return (update.map(lambda part: part * (norm / length)) if length > norm else update), memory, report

    return Transform(encode)
