"""`Partition`, a division of rows among parties; `Skew`, a way to make one; and the steps that all skews share."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.bins import as_codes
from silobench.data.dataset import Dataset, Split
from silobench.errors import PartitionError, value_shown
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described, expects

Rows: TypeAlias = NDArray[np.int64]
Counts: TypeAlias = NDArray[np.int64]  # [parties, classes]


@dataclass(frozen=True)
class Partition:
    """The training rows that each party holds, and the noise that is added to them."""

    rows: tuple[Rows, ...]
    noise: tuple[float, ...] = ()  # standard deviation of each party's noise; empty without noise
    noisy_test: bool = False
    names: tuple[str, ...] = ()  # of the parties, if they have names
    shared: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rows that several parties get
    warmup: int = 0  # epochs of training on the shared rows before the first round
    notes: tuple[str, ...] = ()  # for the user, such as which rows are unused
    owners: Callable[[Split], NDArray[np.int64] | None] | None = field(default=None, repr=False, compare=False)
    """Returns the party of every row of a test set, -1 for a row that belongs to no party. If it is None or returns
    None, test rows are dealt by class: see `Federation.own_test_rows`."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """A digest of the rows of each party and their noise; equal for equal partitions from different specs."""
        digest = hashlib.sha256(repr((self.noise, self.noisy_test)).encode())
        for rows in self.rows:
            digest.update(f"|{len(rows)}|".encode())
            digest.update(np.sort(rows).astype("<i8").tobytes())
        if len(self.shared):
            digest.update(b"|shared|" + np.sort(self.shared).astype("<i8").tobytes())
        return digest.hexdigest()[:16]


Absent: TypeAlias = Literal["zeros", "drop", "embedding"]


@dataclass(frozen=True)
class Deal:
    """The columns that each party holds, and the rows that it has; one party also has the labels."""

    names: tuple[str, ...]
    columns: tuple[NDArray[np.int64], ...]  # numbers of the features of each party; no feature twice
    train: NDArray[np.bool_]  # [parties, training rows]: whether a party has a row
    test: NDArray[np.bool_]  # [parties, test rows]
    label: int = 0  # the party with the labels
    absent: Absent = "zeros"
    """What replaces the columns of a row that a party does not have: zeros, or a learnt embedding of absence. With
    drop, only rows that every party has are used."""
    notes: tuple[str, ...] = ()  # for the user

    def __post_init__(self) -> None:
        problem = _deal_problem(self)
        if problem:
            raise PartitionError(problem)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fingerprint(self) -> str:
        """A digest of the columns and rows of each party. Names do not matter."""
        shapes = self.train.shape, self.test.shape
        digest = hashlib.sha256(repr((self.label, self.absent, shapes)).encode())
        for columns in self.columns:
            digest.update(f"|{len(columns)}|".encode() + columns.astype("<i8").tobytes())
        for rows in (self.train, self.test):
            digest.update(np.packbits(rows, axis=1).tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Skew:
    """A way to divide rows among parties.

    `cut` divides rows. The optional `refine` changes the partition of a skew on its left in a sum. The optional `after`
    takes that skew and returns a new one; nothing may follow it. The optional `natural` returns the number of parties
    that the data suggest. `moves_rows` is true if `refine` moves rows between parties, which natural parties forbid.
    """

    cut: Callable[[Split, int, np.random.Generator], Partition]
    refine: Callable[[Split, Partition, np.random.Generator], Partition] | None = None
    after: Callable[["Skew"], "Skew"] | None = None
    natural: Callable[[Split], int] | None = None
    moves_rows: bool = False
    deal: Callable[[Dataset, int | None, np.random.Generator], Deal] | None = None
    """(dataset, number of parties or None, generator) -> columns and rows of each party: parties then hold columns, and
    `cut` refuses."""


def _deal_problem(deal: Deal) -> str | None:
    """Return what is wrong with a deal of columns, as a sentence; None if it is right."""
    names, parties = deal.names, len(deal.names)
    if not parties or not all(isinstance(name, str) and name for name in names):
        return (
            f"a deal of columns has the parties {value_shown(tuple(names))}: give every party a name that is not empty."
        )
    if len(set(names)) < parties:
        return f"a deal of columns has the parties {value_shown(tuple(names))}: give each party another name."
    if len(deal.columns) != parties:
        return f"a deal has columns of {len(deal.columns)} parties for {parties} names: give one array per party."
    if not 0 <= deal.label < parties:
        return f"party {deal.label} has the labels, but there are the parties 0 to {parties - 1}: choose one of them."
    party_of: dict[int, str] = {}
    for name, columns in zip(names, deal.columns, strict=True):
        if not len(columns):
            return f"party {name} has no columns: give it one, or leave the party out."
        for column in columns.tolist():
            if column in party_of:
                return f"column {column} is at the parties {party_of[column]} and {name}: give it to one of them."
            party_of[column] = name
    for part, rows in (("training", deal.train), ("test", deal.test)):
        if rows.ndim != 2 or len(rows) != parties or rows.dtype != np.bool_:
            return f"{described(rows)} states the {part} rows of {parties} parties: give booleans [parties, rows]."
    for name, has_row in zip(names, deal.train, strict=True):
        if not has_row.any():
            return f"party {name} has none of the {len(has_row)} training rows: give it some, or leave the party out."
    return None


def _is_dealt(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the deal that a hook `deal` returns."""
    dataset, parties, _ = arguments
    if not isinstance(value, Deal):
        return f"{described(value)}, but an sb.Deal(names, columns, train, test) is expected"
    if parties is not None and len(value) != parties:
        return f"columns of {len(value)} parties, but {parties} parties are expected"
    features = int(np.prod(dataset.shape))
    if min(map(np.min, value.columns)) < 0 or max(map(np.max, value.columns)) >= features:
        return f"columns that are not numbers of features from 0 to {features - 1}: correct them"
    if (value.train.shape[1], value.test.shape[1]) != (len(dataset.train), len(dataset.test)):
        return f"rows of another number than the {len(dataset.train)} training and {len(dataset.test)} test rows"
    return None


def _is_cut(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the partition that a hook `cut` returns."""
    split, parties, _ = arguments
    return _is_partition(value, len(split), parties)


def _is_refined(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the partition that a hook `refine` returns."""
    split, before, _ = arguments
    return _is_partition(value, len(split), len(before))


def _is_partition(value: Any, rows: int, parties: int) -> str | None:
    if not isinstance(value, Partition):
        return f"{described(value)}, but an sb.Partition(rows) is expected"
    if not isinstance(value.rows, tuple) or len(value.rows) != parties:
        return f"{described(value.rows)} as rows, but a tuple with an array of each of {parties} parties is expected"
    for party, own in enumerate(value.rows):
        if not isinstance(own, np.ndarray) or own.ndim != 1 or own.dtype.kind not in "iu":
            return f"{described(own)} as rows of party {party}, but an array of row numbers (int64) is expected"
        if not len(own):
            return f"no rows for party {party}, but every party needs some: divide them in another way"
        if own.min() < 0 or own.max() >= rows or len(np.unique(own)) < len(own):
            return (
                f"rows of party {party} that are not row numbers from 0 to {rows - 1}, each at most once: correct them"
            )
    if value.names and (len(value.names) != parties or len(set(value.names)) < parties):
        return f"{described(value.names)} as names, but another name for each of {parties} parties is expected"
    return None


def _is_count(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if type(value) is int and value >= 1 else f"{described(value)}, but a number of parties is expected"


PARTITIONS: Registry[Skew] = Registry(
    "partition",
    Contract(
        Skew,
        "an sb.Skew(cut, ...)",
        {
            "cut": Form("split, parties, rng", _is_cut),
            "refine": Form("split, partition, rng", _is_refined),
            "after": Form("skew", expects(Skew, "an sb.Skew")),
            "natural": Form("split", _is_count),
            "deal": Form("dataset, parties, rng", _is_dealt),
        },
    ),
)


def sorted_rows(partition: Partition, spec: str) -> Partition:
    """Return the partition with rows in ascending order; raise `PartitionError` if a party is empty."""
    for party, rows in enumerate(partition.rows):
        if len(rows) == 0:
            raise PartitionError(
                f"{spec} leaves party {party} without rows: take fewer parties, more data or a milder skew."
            )
    return replace(partition, rows=tuple(np.sort(rows) for rows in partition.rows))


def class_rows(labels: NDArray[Any], rng: np.random.Generator) -> list[Rows]:
    """Return the rows of each class, or of each quantile bin if labels are numbers, shuffled."""
    codes = as_codes(labels)
    return [rng.permutation(np.flatnonzero(codes == code)) for code in range(int(codes.max()) + 1)]


def rows_of(owner: NDArray[np.int64], parties: int) -> tuple[Rows, ...]:
    """Return the rows of each party, where ``owner[row]`` is the party that holds a row.

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
    """Split `total` into integers in these proportions, by the largest remainder method.

    >>> apportion(10, np.array([1.0, 1.0, 1.0])).tolist()
    [4, 3, 3]
    """
    if total == 0:
        return np.zeros(len(shares), dtype=np.int64)
    if shares.sum() <= 0:
        raise PartitionError(
            "a class has rows but no party holds it: choose a partition that gives every class a party."
        )
    exact: NDArray[np.float64] = total * shares / shares.sum()
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    extra = np.argsort(counts - exact, kind="stable")[: total - counts.sum()]
    counts[extra] += 1
    return counts


def dirichlet(beta: float, parties: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw shares ~ Dir(beta); above 1e15, where they are equal to the last bit, numpy's sum would overflow."""
    return rng.dirichlet(np.full(parties, min(beta, 1e15)))


def redraw(draw: Callable[[], Counts], min_size: int, spec: str, rows: int, parties: int) -> Counts:
    """Draw party x class counts until every party has at least `min_size` rows; at most 1,000 times."""
    if rows < parties * min_size:
        raise PartitionError(
            f"{spec} needs at least {min_size} rows in each of {parties} parties, but there are only {rows} rows: "
            "take fewer parties or a smaller min_size."
        )
    for _ in range(1000):
        counts = draw()
        if counts.sum(1).min() >= min_size:
            return counts
    raise PartitionError(
        f"{spec} gave some party fewer than {min_size} rows in each of 1000 draws: "
        "take a milder skew, fewer parties or a smaller min_size."
    )
