"""Messages between the label holder and the other parties, with the bytes of their contents."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

INTEGER = 4  # bytes of a node number, a bin number or a split number


@dataclass(frozen=True)
class Message:
    """A message; `phase` names the step of training that it belongs to."""

    phase: ClassVar[str]

    @property
    def nbytes(self) -> int:
        """Bytes of the contents, without a header."""
        return sum(_nbytes(getattr(self, part.name)) for part in fields(self))

    @property
    def dense(self) -> int:
        """Bytes of the contents if nothing were encrypted."""
        return self.nbytes


def _nbytes(value: Any) -> int:
    if value is None:
        return 0
    return INTEGER if isinstance(value, int) else int(value.nbytes)


@dataclass(frozen=True)
class Layout(Message):
    """Party to label holder, once: the shape of its histograms. Features have numbers and no names.

    `bins` is the number of bins of each feature. `omitted` is the bin of a feature that histograms leave out, because
    the label holder finds it from the sum over the party's rows, or -1.
    """

    phase: ClassVar[str] = "layout"

    bins: NDArray[np.int16]
    omitted: NDArray[np.int16]


@dataclass(frozen=True)
class Key(Message):
    """Label holder to party, once: the public key of an encryption."""

    phase: ClassVar[str] = "key"

    size: int  # bytes

    @property
    def nbytes(self) -> int:
        return self.size


@dataclass(frozen=True)
class Gradients(Message):
    """Label holder to party, once per tree: gradients of the party's rows. The answer is the histogram of the root.

    In the clear: float32 [rows, 2] with the first and second derivatives, or [rows, 1] if the second is always 1.
    """

    phase: ClassVar[str] = "gradients"

    pairs: Any

    @property
    def dense(self) -> int:
        return int(4 * np.prod(self.pairs.shape, dtype=np.int64))


@dataclass(frozen=True)
class Histogram(Message):
    """Party to label holder: sums of gradients and row counts per bin of one node.

    Bins are in the order of features, without the omitted ones. Encrypted sums leave out bins without rows.
    """

    phase: ClassVar[str] = "histograms"

    sums: Any  # of pairs: float64 [bins, 2 or 1], or ciphertexts
    counts: NDArray[np.uint32]

    @property
    def dense(self) -> int:
        return int(self.counts.nbytes + 8 * len(self.counts) * self.sums.shape[-1])


@dataclass(frozen=True)
class SplitOrder(Message):
    """Label holder to the owner of a split: divide the rows of a node at the upper limit of a bin."""

    phase: ClassVar[str] = "splits"

    node: int
    feature: int  # the party's number of it
    bin: int


@dataclass(frozen=True)
class Sides(Message):
    """Owner of a split to label holder: the rows of the node that go left, as bits, and the number of the split.

    The owner keeps the feature and the threshold of this number to itself.
    """

    phase: ClassVar[str] = "splits"

    split: int
    bits: NDArray[np.uint8]


@dataclass(frozen=True)
class NodeRows(Message):
    """Label holder to party: the rows of a node that go left, and the child whose histogram is the answer.

    `bits` is for the rows of the node that the party has; None at the owner of the split, which knows them. If both
    children are leaves, the message is not needed and not sent.
    """

    phase: ClassVar[str] = "rows"

    node: int
    left: int
    right: int
    child: int
    bits: NDArray[np.uint8] | None


def packed(sides: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Return booleans as bits."""
    return np.packbits(sides)


def unpacked(bits: NDArray[np.uint8], count: int) -> NDArray[np.bool_]:
    """Return the first `count` bits as booleans."""
    return np.unpackbits(bits, count=count).view(np.bool_)
