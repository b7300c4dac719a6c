"""Transforms of updates on their way to the server, one file each with both ends; a chain is ``a | b``.

A new transform is a file here with a function decorated with `TRANSFORMS.register`, and a line below.
"""

from silobench.method.transforms.clip import clip as clip
from silobench.method.transforms.error_feedback import error_feedback as error_feedback
from silobench.method.transforms.gaussian_noise import gaussian_noise as gaussian_noise
from silobench.method.transforms.low_rank import low_rank as low_rank
from silobench.method.transforms.quantize import quantize as quantize
from silobench.method.transforms.rand_k import rand_k as rand_k
from silobench.method.transforms.secure_sum import secure_sum as secure_sum
from silobench.method.transforms.sign import sign as sign
from silobench.method.transforms.skellam_noise import skellam_noise as skellam_noise
from silobench.method.transforms.top_k import top_k as top_k
from silobench.method.types import TRANSFORMS as TRANSFORMS
from silobench.method.types import Transform
from silobench.spec import Bound, parse_terms


def bind_chain(text: str) -> list[Bound[Transform]]:
    """Bind the transforms of ``a | b``, in order; an empty text is the empty chain."""
    return [TRANSFORMS.bind(term) for term in parse_terms(text, "|")] if text.strip() else []
