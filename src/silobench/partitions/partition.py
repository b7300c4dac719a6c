"""`Partition`, the value; `Skew`, a way to make one; and the few moves that all kinds of skew share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import PartitionError

Rows: TypeAlias = NDArray[np.int64]
Counts: TypeAlias = NDArray[np.int64]  # [parties, classes]


@dataclass(frozen=True)
class Partition:
    """Which training rows each party holds, and how much noise it sees them through."""

    rows: tuple[Rows, ...]
    noise: tuple[float, ...] = ()  # standard deviation per party; empty for none
    noisy_test: bool = False
    names: tuple[str, ...] = ()  # of the parties, where they have any
    shared: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rows that were set aside to be shared
    warmup: int = 0  # epochs of training on these before the first round
    notes: tuple[str, ...] = ()  # what a person should know, such as which rows nobody holds

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """The same for the same rows in the same parties, whatever spec made them."""
        digest = hashlib.sha256(repr((self.noise, self.noisy_test)).encode())
        for rows in self.rows:
            digest.update(f"|{len(rows)}|".encode())
            digest.update(np.sort(rows).astype("<i8").tobytes())
        if len(self.shared):
            digest.update(b"|shared|" + np.sort(self.shared).astype("<i8").tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Skew:
    """`cut` splits rows among parties; `refine`, where there is one, acts inside another skew's parties.

    `after` goes further: it makes a skew of the whole one that it stands behind.

    `natural` is the number of parties that the data themselves suggest; `moves_rows` says that `refine` gives rows to
    other parties, which must not happen to natural ones.
    """

    cut: Callable[[Split, int, np.random.Generator], Partition]
    refine: Callable[[Split, Partition, np.random.Generator], Partition] | None = None
    after: Callable[["Skew"], "Skew"] | None = None
    natural: Callable[[Split], int] | None = None
    moves_rows: bool = False


def checked(partition: Partition, given: str) -> Partition:
    """Refuse a partition with an empty party; rows in ascending order."""
    for party, rows in enumerate(partition.rows):
        if len(rows) == 0:
            raise PartitionError(
                f"{given} leaves party {party} without a row: take fewer parties, more data or a milder skew."
            )
    return replace(partition, rows=tuple(np.sort(rows) for rows in partition.rows))


def class_rows(labels: NDArray[np.int64], rng: np.random.Generator) -> list[Rows]:
    """The rows of each class, shuffled."""
    need_classes(labels)
    return [rng.permutation(np.flatnonzero(labels == label)) for label in range(int(labels.max()) + 1)]


def need_classes(labels: NDArray[Any]) -> None:
    """Refuse a label skew where labels are numbers."""
    if labels.dtype.kind != "i":
        raise PartitionError(
            "a label skew needs classes, and this dataset's labels are numbers (its task is regression): "
            "take iid, quantity-dirichlet, noise or by-group."
        )


def rows_of(owner: NDArray[np.int64], parties: int) -> tuple[Rows, ...]:
    """The rows of each party, where ``owner[row]`` is the party that holds a row.

    >>> [rows.tolist() for rows in rows_of(np.array([1, 0, 1]), 3)]
    [[1], [0, 2], []]
    """
    order = np.argsort(owner, kind="stable")
    return tuple(np.split(order, np.cumsum(np.bincount(owner, minlength=parties))[:-1]))


def deal(piles: Sequence[Rows], counts: Counts) -> tuple[Rows, ...]:
    """Give party i the next ``counts[i, k]`` rows of pile k."""
    parts: list[list[Rows]] = [[] for _ in counts]
    for k, pile in enumerate(piles):
        for party, rows in enumerate(np.split(pile, np.cumsum(counts[:, k])[:-1])):
            parts[party].append(rows)
    return tuple(np.concatenate(rows) for rows in parts)


def apportion(total: int, shares: NDArray[Any]) -> NDArray[np.int64]:
    """`total` as whole numbers in these proportions, by largest remainder.

    >>> apportion(10, np.array([1.0, 1.0, 1.0])).tolist()
    [4, 3, 3]
    """
    if total == 0:
        return np.zeros(len(shares), dtype=np.int64)
    if shares.sum() <= 0:
        raise PartitionError("a class has rows but no party takes any of it: give every class a holder.")
    exact: NDArray[np.float64] = total * shares / shares.sum()
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    extra = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[extra] += 1
    return counts


def dirichlet(beta: float, parties: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Shares ~ Dir(beta); beyond 1e15 they are equal to the last bit, and numpy's sum would overflow."""
    return rng.dirichlet(np.full(parties, min(beta, 1e15)))


def redraw(draw: Callable[[], Counts], min_size: int, given: str, rows: int, parties: int) -> Counts:
    """Draw party x class counts until the smallest party has `min_size` rows; 1,000 times at most."""
    if rows < parties * min_size:
        raise PartitionError(
            f"{given} wants at least {min_size} rows in each of {parties} parties, but there are only {rows} rows: "
            "take fewer parties or a smaller min_size."
        )
    for _ in range(1000):
        counts = draw()
        if counts.sum(1).min() >= min_size:
            return counts
    raise PartitionError(
        f"{given} gave some party fewer than {min_size} rows in each of 1000 draws: "
        "take a milder skew, fewer parties or a smaller min_size."
    )
