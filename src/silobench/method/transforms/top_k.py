"""Sparsification: send the largest entries only, and the rest later."""

from collections.abc import Mapping
from dataclasses import replace

from silobench.method.types import Context, Dial, Fraction, Memory, Transform, Update, Vector, largest


def top_k(fraction: Fraction = 0.01, feedback: bool = True) -> Transform:
    """Send the largest `fraction` of each vector's entries, by magnitude, with their places.

    What is not sent is kept and added to the next update (error feedback), unless `feedback` is False: then it is lost.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        share, kept = context.knobs.get("fraction", fraction), {}

        def chosen(parts: Mapping[str, Vector], weight: float) -> dict[str, Vector]:
            found = dict(parts)
            for name, part in parts.items():
                if part.dim() > 0:
                    whole = part / weight + memory[name] if name in memory else part / weight
                    sent = whole * largest(whole, share)
                    kept[name], found[name] = whole - sent, sent * weight
            return found

        sparse = replace(update, total=chosen(update.total, update.weight), sums=chosen(update.sums, 1.0), sparse=True)
        return sparse, kept if feedback else {}

    dial = Dial("fraction", (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001))
    return Transform(encode, unsent=lambda memory: memory.get("delta"), dials=(dial,))
