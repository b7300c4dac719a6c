"""Quantisation: send each entry in a few bits."""

from typing import Literal, cast

from silobench.method.types import TRANSFORMS, Bits, Context, Count, Dial, Memory, Transform, Update, quantized

_GRID = (32, 16, 8, 4, 2)


@TRANSFORMS.register
def quantize(bits: Literal[2, 4, 8, 16, 32] = 8, bucket: Count = 512) -> Transform:
    """Round every entry at random to one of 2^bits - 1 levels, so that its expectation is its value.

    Each `bucket` of entries has a scale of its own, its largest magnitude. With 32 bits entries are sent as they are.
    After `top_k`, `rand_k` or `low_rank` it rounds the values that these send. QSGD, Alistarh et al., NeurIPS 2017,
    with the largest magnitude in place of the 2-norm.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        width = cast(Bits, int(context.knobs.get("bits", bits)))
        if width > 16:
            return update, memory
        for name in update.changes:
            seed = int(context.stream(f"rounding {name}").integers(1 << 62))
            update = update.coded(quantized(width, bucket, seed), [name])
        return update, memory

    dial = Dial("bits", _GRID, is_valid=lambda width: width > 16 or width in _GRID)  # more than 16: as they are
    return Transform(encode, dials=(dial,), packs="values", bound=lambda context: None)  # it may round up
