"""`Adversary`: what malicious parties do to their labels or to their messages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from silobench.method.checks import parts
from silobench.method.types import Context, Update, Vector
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described

Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
Labels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Adversary:
    """What malicious parties do. They follow the protocol otherwise: their transforms run, and they answer in time."""

    share: float = 0.0
    """Malicious parties among all parties, from 0 to 1."""
    message: Callable[[Update, Context], Update] | None = None
    """(message of a malicious party before its transforms, context) -> message that it sends instead. Statistics of
    normalisation layers are not part of it."""
    labels: Callable[[Labels, int, np.random.Generator], Labels] | None = None
    """(labels of a malicious party's training rows, number of classes, random numbers) -> labels that it trains on."""

    def parties(self, count: int, seed: int) -> tuple[int, ...]:
        """Return the malicious parties of `count`: `share` of them, rounded, and at least one unless it is 0.

        They are drawn by the seed. With a larger share the same ones are malicious, and others too.

        >>> Adversary(share=0.2).parties(10, seed=0), Adversary(share=0.3).parties(10, seed=0)
        ((7, 9), (2, 7, 9))
        """
        size = max(1, int(self.share * count + 0.5)) if self.share else 0
        return tuple(sorted(stream(seed, "adversary").permutation(count)[:size].tolist()))


def changed(update: Update, change: Callable[[Vector], Vector]) -> Update:
    """Return a message with `change` applied to its vectors of floats; a weight, a count or an index stays."""
    return update.map(lambda part: change(part) if part.is_floating_point() else part)


def _is_share(value: Any, arguments: Sequence[Any]) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and 0 <= value <= 1 else f"{described(value)}, but a number from 0 to 1 is needed"


def _is_message(value: Any, arguments: Sequence[Any]) -> str | None:
    return parts(value, "the message of a malicious party")


def _are_labels(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the labels that a hook returns."""
    labels, classes = arguments[:2]
    is_array = isinstance(value, np.ndarray) and (value.shape, value.dtype) == (labels.shape, labels.dtype)
    if is_array and (not len(value) or (value.min() >= 0 and value.max() < classes)):
        return None
    return f"{described(value)}, but as many labels are expected, from 0 to {classes - 1} and of type {labels.dtype}"


ADVERSARIES: Registry[Adversary] = Registry(
    "adversary",
    Contract(
        Adversary,
        "an sb.Adversary(share, ...)",
        {
            "message": Form("update, context", _is_message),
            "labels": Form("labels, classes, rng", _are_labels),
        },
        {"share": _is_share},
    ),
)


@ADVERSARIES.register
def none() -> Adversary:
    """Every party is honest."""
    return _NONE


_NONE = Adversary()
