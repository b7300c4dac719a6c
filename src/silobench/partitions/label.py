"""Label skew: parties differ in the classes they hold and in their proportions.

If labels are numbers, their quantile bins take the place of classes.
"""

import csv
import hashlib
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from silobench.data import load
from silobench.data.bins import as_codes
from silobench.data.dataset import Split
from silobench.errors import PartitionError
from silobench.partitions.measures import emd_weighted
from silobench.partitions.natural import group_ids
from silobench.partitions.skew import (
    PARTITIONS,
    Counts,
    Partition,
    Skew,
    apportion,
    class_rows,
    deal,
    dirichlet,
    redraw,
    rows_of,
    sorted_rows,
)
from silobench.spec.ranges import Count, Positive

MinSize = Annotated[int, Ge(0)]


@PARTITIONS.register
def label_count(k: Count) -> Skew:
    """#C = k (NIID-Bench): every party holds k classes; each class is split equally among its holders.

    Of K classes, party i holds class i mod K and k - 1 further classes at random. With fewer parties than classes, the
    further ones are first taken from the classes that no party holds yet, so that no row is lost.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        spec = f"label-count(k={k}) over {parties} parties"
        piles = class_rows(split.y, rng)
        holds = _holders(k, parties, len(piles), spec, rng)
        counts = np.zeros((parties, len(piles)), dtype=np.int64)
        for label, pile in enumerate(piles):
            holders = np.flatnonzero(holds[:, label])
            if len(pile) < len(holders):
                raise PartitionError(
                    f"{spec} gives class {label} to {len(holders)} parties, but it has only {len(pile)} rows: "
                    "take fewer parties or a smaller k."
                )
            counts[holders, label] = [len(part) for part in np.array_split(pile, len(holders))]
        return sorted_rows(Partition(deal(piles, counts)), spec)

    return Skew(cut)


def _holders(k: int, parties: int, classes: int, spec: str, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which party holds which class, [parties, classes]."""
    if k > classes:
        raise PartitionError(f"{spec} needs {k} classes per party, but the dataset has {classes}: take k <= {classes}.")
    if k * parties < classes:
        raise PartitionError(
            f"{spec} can place only {k * parties} of {classes} classes, so rows would be lost: "
            "take more parties or a larger k."
        )
    holds = np.zeros((parties, classes), dtype=bool)
    holds[np.arange(parties), np.arange(parties) % classes] = True
    held: NDArray[np.bool_] = np.asarray(holds.any(0))
    for party in range(parties):
        unheld = rng.permutation(np.flatnonzero(~held))
        others = rng.permutation(np.flatnonzero(held & ~holds[party]))
        chosen = np.concatenate([unheld, others])[: k - 1]
        holds[party, chosen] = held[chosen] = True
    return holds


@PARTITIONS.register
def label_dirichlet(beta: Positive, balance: bool = True, min_size: MinSize = 10) -> Skew:
    """Dir(beta) (NIID-Bench): each class is divided among the parties in proportions p ~ Dir(beta).

    With `balance=True`, as in the public code, a party that already holds its equal share of all rows gets nothing of
    the next class; `balance=False` follows the paper's text. It is redrawn until every party has `min_size` rows.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        spec = f"label-dirichlet(beta={beta:g})"
        piles = class_rows(split.y, rng)
        sizes = [len(pile) for pile in piles]

        def draw() -> Counts:
            return _dirichlet_counts(sizes, parties, beta, balance, rng)

        return sorted_rows(Partition(deal(piles, redraw(draw, min_size, spec, len(split), parties))), spec)

    return Skew(cut)


def _dirichlet_counts(sizes: list[int], parties: int, beta: float, balance: bool, rng: np.random.Generator) -> Counts:
    counts = np.zeros((parties, len(sizes)), dtype=np.int64)
    for label, size in enumerate(sizes):
        shares = dirichlet(beta, parties, rng)
        if balance:
            shares = shares * (counts.sum(1) < sum(sizes) / parties)
        total = shares.sum()
        if not total > 0:  # a tiny beta can underflow to 0, or only parties that are full drew a share
            shares, total = np.eye(parties)[int(counts.sum(1).argmin())], 1.0
        cuts = np.floor(np.cumsum(shares / total) * size).astype(np.int64)
        cuts[-1] = size
        counts[:, label] = np.diff(np.minimum(cuts, size), prepend=0)
    return counts


@PARTITIONS.register
def shards(per_party: Count = 2) -> Skew:
    """Sort the rows by label, cut them into equal shards, give each party `per_party` of them (Zhao et al., 2018)."""

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        spec = f"shards(per_party={per_party}) over {parties} parties"
        if parties * per_party > len(split):
            raise PartitionError(
                f"{spec} needs {parties * per_party} shards, but there are only {len(split)} rows: take fewer."
            )
        by_label = np.concatenate(class_rows(split.y, rng))
        pieces = np.array_split(by_label, parties * per_party)
        order = rng.permutation(len(pieces)).reshape(parties, per_party)
        rows = tuple(np.concatenate([pieces[piece] for piece in hand]) for hand in order)
        return sorted_rows(Partition(rows), spec)

    return Skew(cut)


@PARTITIONS.register
def label_percent(percent: Annotated[float, Ge(0), Le(100)]) -> Skew:
    """A percentage of the rows is assigned by label (class mod parties), the rest at random (Hsieh et al., 2020).

    0 is iid; 100 gives all rows of a class to one party.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        order = rng.permutation(len(split))
        skewed, uniform = np.split(order, [round(len(split) * percent / 100)])
        owner = np.empty(len(split), dtype=np.int64)
        owner[skewed] = as_codes(split.y)[skewed] % parties
        owner[uniform] = np.arange(len(uniform)) * parties // max(len(uniform), 1)
        spec = f"label-percent(percent={percent:g}) over {parties} parties"
        return sorted_rows(Partition(rows_of(owner, parties)), spec)

    return Skew(cut)


@PARTITIONS.register
def label_pair(major: Annotated[float, Ge(0.5), Le(1)] = 0.8) -> Skew:
    """Each party holds two classes: the fraction `major` of one and the rest of the next (Hsieh et al., 2020, app. F).

    The paper's ten parties on CIFAR-10 hold 80 % of one class and 20 % of another. Here party i holds `major` of class
    i mod K, of K classes, and 1 - `major` of the class after it; parties with the same class share it equally.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        spec = f"label-pair(major={major:g}) over {parties} parties"
        piles = class_rows(split.y, rng)
        if parties < len(piles):
            raise PartitionError(
                f"{spec} has a main party for only {parties} of {len(piles)} classes, so rows would be lost: "
                f"take at least {len(piles)} parties, preferably a multiple of it."
            )
        wanted, party = np.zeros((parties, len(piles))), np.arange(parties)
        wanted[party, party % len(piles)] += major
        wanted[party, (party + 1) % len(piles)] += 1 - major
        counts = np.stack([apportion(len(pile), wanted[:, label]) for label, pile in enumerate(piles)], axis=1)
        return sorted_rows(Partition(deal(piles, counts)), spec)

    return Skew(cut)


@PARTITIONS.register
def target_emd(emd: Annotated[float, Ge(0), Le(2)]) -> Skew:
    """The mean earth mover's distance between the labels of parties and all labels is `emd` (Zhao et al., 2018).

    A distribution P over classes is drawn with this EMD, and party j uses P shifted by j. Each class is divided in
    these proportions, so every row is used once. P mixes the uniform distribution with a random one, in proportions
    that are tuned until the measured EMD is right. An EMD that the data do not allow is an error.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        piles = class_rows(split.y, rng)
        counts = _counts_of_emd(emd, [len(pile) for pile in piles], parties, rng)
        return sorted_rows(Partition(deal(piles, counts)), f"target-emd(emd={emd:g}) over {parties} parties")

    return Skew(cut)


def _counts_of_emd(target: float, sizes: list[int], parties: int, rng: np.random.Generator) -> Counts:
    classes = len(sizes)
    shift = (np.arange(classes)[None, :] - np.arange(parties)[:, None]) % classes

    def counts(extreme: NDArray[np.float64], mix: float) -> Counts:
        wanted = (mix * extreme + (1 - mix) / classes)[shift]
        return np.stack([apportion(n, wanted[:, k]) for k, n in enumerate(sizes)], axis=1)

    if parties >= classes:
        purest = counts(np.eye(classes)[0], 1.0)  # exactly one class per party, if the target is near that
        if abs(emd_weighted(purest) - target) < 0.005 and (purest.sum(1) > 0).all():
            return purest
    best, best_gap = None, np.inf
    for concentration in np.geomspace(2.0, 0.02, 30):  # more and more concentrated, down to one class
        extreme = rng.dirichlet(np.full(classes, concentration)) if concentration > 0.03 else np.eye(classes)[0]
        low, high = 0.0, 1.0
        for _ in range(30):
            trial = counts(extreme, (low + high) / 2)
            measured = emd_weighted(trial)
            gap = abs(measured - target)
            if gap < best_gap and (trial.sum(1) > 0).all():
                best, best_gap = trial, gap
            low, high = ((low + high) / 2, high) if measured < target else (low, (low + high) / 2)
        if best is not None and best_gap < 0.005:
            return best
    whole_rows = parties * classes / (2 * sum(sizes))  # the largest error from counting whole rows
    if best is None or best_gap > max(0.02, whole_rows):
        nearest = "none" if best is None else f"{emd_weighted(best):.3f}"
        raise PartitionError(
            f"target-emd(emd={target:g}) cannot be reached by {parties} parties with {classes} classes "
            f"(nearest {nearest}): take at most 2 (1 - 1/classes), and a multiple of classes as parties."
        )
    return best


@PARTITIONS.register
def like(reference: str, level: str = "") -> Skew:
    """The label proportions of a real federation: a dataset with groups, or a CSV file of party x class counts.

    In a dataset, such as femnist, mnist-writers or geo-species, each group is a party (`level` selects a group column)
    and its most frequent classes stand for the classes of this dataset. A CSV file has one line per party and one
    column per class, with an optional header and first column of names; `silobench partition --export` writes one.
    Parties take lines at random. Class k is divided in proportion to column k, so no row is lost.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        piles = class_rows(split.y, rng)
        table = _reference_counts(reference, level)
        if table.shape[0] < parties or table.shape[1] < len(piles):
            raise PartitionError(
                f"{reference} has {table.shape[0]} parties and {table.shape[1]} classes, but {parties} parties and "
                f"{len(piles)} classes are needed: take fewer parties or a larger table."
            )
        for _ in range(100):  # try other lines if no party holds some class
            chosen = table[rng.permutation(len(table))[:parties], : len(piles)]
            if chosen.sum(0).all():
                break
        counts = np.stack([apportion(len(p), chosen[:, k]) for k, p in enumerate(piles)], axis=1)
        return sorted_rows(Partition(deal(piles, counts)), f"like(reference={reference})")

    return Skew(cut, natural=lambda split: min(len(_reference_counts(reference, level)), 10))


def counts_digest(reference: str, level: str = "") -> str:
    """Return a digest of a reference's counts, which is part of the run id."""
    counts = _reference_counts(reference, level)
    return hashlib.sha256(f"{counts.shape}".encode() + counts.tobytes()).hexdigest()[:16]


def _reference_counts(reference: str, level: str) -> NDArray[np.float64]:
    path = Path(reference)
    if "(" not in reference and (path.suffix or len(path.parts) > 1 or path.is_file()):
        return _read_counts(path)
    dataset = load(reference)
    try:
        owner = np.unique(group_ids(dataset.train, level), return_inverse=True)[1].reshape(-1)
    except PartitionError as error:
        raise PartitionError(f"the reference {reference} has no party x class counts: {error}") from error
    counts = np.zeros((int(owner.max()) + 1, len(dataset.label_names)))
    np.add.at(counts, (owner, dataset.codes), 1)
    return counts[:, np.argsort(-counts.sum(0), kind="stable")]


def _read_counts(path: Path) -> NDArray[np.float64]:
    try:
        lines = [line for line in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if line]
    except OSError as error:
        raise PartitionError(f"the reference {path} cannot be read ({error.strerror}): check the path.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise PartitionError(f"the reference {path} is not a CSV file of counts ({error}): check the file.") from error
    named = bool(lines) and not all(map(_is_number, lines[0]))
    body = lines[1:] if named else lines
    titled = named and lines[0][0].strip().lower() in ("party", "")
    first = 1 if titled or not all(_is_number(line[0]) for line in body) else 0
    try:
        table = np.array([[float(cell) for cell in line[first:]] for line in body])
    except ValueError as error:
        raise PartitionError(f"the reference {path} must contain counts, one line per party: {error}.") from error
    if table.ndim != 2 or table.size == 0 or not np.isfinite(table).all() or (table < 0).any():
        raise PartitionError(f"the reference {path} must contain counts >= 0, one line per party, all equally long.")
    return table


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
