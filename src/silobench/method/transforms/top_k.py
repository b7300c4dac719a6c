"""Sparsification: send only the largest entries now, and the rest later."""

from collections.abc import Mapping
from dataclasses import replace

from silobench.method.types import (
    TRANSFORMS,
    Context,
    Dial,
    Fraction,
    Index,
    Memory,
    Transform,
    Update,
    Vector,
    largest,
    sparse,
)


@TRANSFORMS.register(added_later=("index",))
def top_k(fraction: Fraction = 0.01, feedback: bool = True, index: Index = "auto") -> Transform:
    """Send the largest `fraction` of the entries of each vector, by magnitude, with their positions.

    At least one entry is sent, also with `fraction=0`. The rest is added to the party's next update (error feedback);
    with `feedback=False` it is lost. Positions are sent as a bitmap or as indices of 4 or 8 bytes (`int32`, `int64`);
    `auto` takes the shorter of bitmap and `int32`.
    """
    codec = sparse(index)

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        share, rest = context.knobs.get("fraction", fraction), {}

        def sparsify(parts: Mapping[str, Vector], weight: float) -> dict[str, Vector]:
            chosen = dict(parts)
            for name, part in parts.items():
                if part.dim() > 0:
                    whole = part / weight
                    whole = whole.add_(memory[name]) if name in memory else whole
                    sent = whole * largest(whole, share)
                    # In place: most of the time goes into pages of memory that are touched for the first time.
                    rest[name], chosen[name] = whole.sub_(sent), sent.mul_(weight)
            return chosen

        total, sums = sparsify(update.total, update.weight), sparsify(update.sums, 1.0)
        return replace(update, total=total, sums=sums).coded(codec), rest if feedback else {}

    dial = Dial("fraction", (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001))
    plain = Transform(encode, dials=(dial,), mostly_zeros=True, packs="entries")
    if not feedback:
        return plain
    return replace(plain, unsent=lambda memory: memory.get("delta"), bound=lambda context: None)
