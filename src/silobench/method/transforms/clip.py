"""Clipping: a bound on what one party can contribute."""

import math
from dataclasses import replace
from typing import Annotated, Any

import torch
from annotated_types import Gt

from silobench.method.types import (
    TRANSFORMS,
    ConfigError,
    Context,
    Encoded,
    Fraction,
    Memory,
    Positive,
    Transform,
    Update,
)


@TRANSFORMS.register(added_later=("adaptive", "quantile", "speed", "count_noise"))
def clip(
    norm: Positive = 1.0,
    adaptive: bool = False,
    quantile: Fraction = 0.5,
    speed: Positive = 0.2,
    count_noise: Annotated[float, Gt(0.5)] | None = None,
) -> Transform:
    """Scale an update down so that its 2-norm, over all its vectors, is at most `norm`; shorter ones pass unchanged.

    All vectors are scaled by the same factor, and scalars are not changed. FedNova sends its displacement divided by
    the reach, so there the bound applies to the quotient. It reports the norm before and the share of parties clipped.

    With `adaptive`, the norm follows a quantile of the norms of updates, and `norm` is where it starts:
    Differentially Private Learning with Adaptive Clipping, Andrew et al., NeurIPS 2021. Each party also sends whether
    its update was within the norm, and the server multiplies the norm by exp(-speed (share within - quantile)). Noise
    that follows in the chain hides this answer too, and one guarantee covers both, as in the paper: the deviation of
    the noise on the count of answers is `count_noise` times the multiplier of that noise, by default a twentieth of
    the parties of a round and at least 1. The smaller it is, the more noise the update gets.
    """
    if adaptive:
        return _adaptive(norm, quantile, speed, count_noise)
    if (quantile, speed, count_noise) != (0.5, 0.2, None):
        raise ConfigError("clip has quantile, speed or count_noise, which need adaptive=true: set it too.")

    def encode(update: Update, memory: Memory, context: Context) -> Encoded:
        sent, report = _clipped(update, norm)
        return sent, memory, report

    return Transform(encode, bound=lambda context: norm)


def _clipped(update: Update, norm: float) -> tuple[Update, dict[str, float]]:
    length = float(torch.linalg.vector_norm(torch.cat([part.flatten() for part in update.vectors().values()])))
    report = {"clip rate": float(length > norm), "update norm": length}
    return (update.map(lambda part: part * (norm / length)) if length > norm else update), report


def _adaptive(norm: float, quantile: float, speed: float, count_noise: float | None) -> Transform:
    def current(context: Context) -> float:
        return float(context.server.get("norm", norm))

    def answer_size(context: Context) -> float:
        """Return how far the two answers of a party are from each other, in norms."""
        ratio = max(1.0, context.expected / 20) if count_noise is None else count_noise
        return 1 / math.sqrt(ratio**2 - 0.25)

    def encode(update: Update, memory: Memory, context: Context) -> Encoded:
        now = current(context)
        sent, report = _clipped(update, now)
        half = now * answer_size(context) / 2  # the answer is one more entry of the message
        answer = torch.tensor([half if report["update norm"] <= now else -half], dtype=_kind(update))
        return sent.with_sums(**{_answer(context): answer}), memory, {**report, "clip norm": now}

    def adapt(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        now, name = current(context), _answer(context)
        if name not in update.sums:  # nobody had anything to send
            return update, memory
        answers = float(update.sums[name]) / (now * answer_size(context))
        share = answers / context.expected + 0.5
        rest = {part: value for part, value in update.sums.items() if part != name}
        after = now * math.exp(-speed * (share - quantile))
        return replace(update, sums=rest), {"norm": torch.tensor(after, dtype=torch.float64)}

    def bound(context: Context) -> float:
        return current(context) * math.hypot(1, answer_size(context) / 2)

    def refuses(method: Any) -> str | None:
        if method.aggregate.adds:
            return None
        return "clip(adaptive=true) counts the answers of all parties, so it needs their sum: use aggregate = mean."

    return Transform(encode, bound=bound, adapt=adapt, refuses=refuses)


def _answer(context: Context) -> str:
    """Return the name of the part of a message that says whether the update was within the norm."""
    return f"within clip {context.place}"


def _kind(update: Update) -> torch.dtype:
    return next((part.dtype for part in update.vectors().values() if part.is_floating_point()), torch.float32)
