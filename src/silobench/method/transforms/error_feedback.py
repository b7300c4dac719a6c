"""Error feedback around any transforms: what they lose is sent later."""

from typing import Any

from silobench.method.types import TRANSFORMS, Context, Fraction, Memory, Transform, Update


@TRANSFORMS.register
def error_feedback(decay: Fraction = 0.0) -> Transform:
    """Add what the transforms after this one and the packing have lost to the party's next update.

    A share `decay` of it is forgotten. Transforms after this one keep nothing themselves: write `feedback=false` there.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.plus(memory, 1 - decay), {}

    def settle(produced: Update, arrived: Update, memory: Memory, context: Context) -> Memory:
        return produced.lost(arrived)

    def refuses(method: Any) -> str | None:
        if method.transforms[-1].settle is not settle:
            return None
        return (
            "error_feedback is the last transform, so nothing is lost after it: put it before the transforms whose "
            "errors it feeds back, as in error_feedback | sign."
        )

    return Transform(
        encode,
        unsent=lambda memory: memory.get("delta"),
        settle=settle,
        refuses=refuses,
        bound=lambda context: None,  # the error may be longer than an update
    )
