"""Signs: send one bit per entry."""

from silobench.method.types import TRANSFORMS, Context, Memory, Transform, Update, signs


@TRANSFORMS.register
def sign() -> Transform:
    """Send the sign of every entry, times the mean magnitude of its vector.

    It is biased: put `error_feedback` before it, which adds what was lost to the party's next update. Error Feedback
    Fixes SignSGD, Karimireddy et al., ICML 2019.
    """

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.coded(signs(), update.changes), memory

    return Transform(encode, packs="values")
