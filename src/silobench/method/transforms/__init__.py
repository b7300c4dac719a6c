"""What happens to an update on the wire. Each mechanism has both its ends in one file; a chain is `a | b`."""

from silobench.method.transforms import clip as _clip
from silobench.method.transforms import top_k as _top_k
from silobench.method.types import Transform
from silobench.spec import Bound, Registry, parse_terms

TRANSFORMS: Registry[Transform] = Registry("transform")

clip = TRANSFORMS.register(_clip.clip)
top_k = TRANSFORMS.register(_top_k.top_k)


def bind_chain(text: str) -> list[Bound[Transform]]:
    """The transforms of ``a | b``, in order; an empty text is the empty chain."""
    return [TRANSFORMS.bind(term) for term in parse_terms(text, "|")] if text.strip() else []
