"""Data sharing (Zhao et al., 2018, section 4): a few rows of every class that all parties get besides their own."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Dataset, Features, Split
from silobench.errors import PartitionError
from silobench.partitions.homogeneous import iid
from silobench.partitions.measures import count, emd_weighted
from silobench.partitions.skew import PARTITIONS, Partition, Rows, Skew, apportion, class_rows
from silobench.spec.ranges import BelowOne, Fraction, NonNegative


@PARTITIONS.register
def share(
    beta: NonNegative, alpha: Fraction = 1.0, warmup: Annotated[int, Ge(0)] = 0, holdout: BelowOne | None = None
) -> Skew:
    """Rows G with equal classes are held out, and every party gets a random fraction `alpha` of G (Zhao et al., 2018).

    It is the last term of a sum: ``shards(per_party=1) + share(beta=0.1)``. beta = |G| / |D|, where D are the private
    rows of all parties. G is drawn from the fraction `holdout` of the rows (0.2 in the paper, where D is the same for
    every beta); without `holdout`, exactly G is held out. The model is first trained on G for `warmup` epochs.
    ``share(beta=0)`` changes nothing.
    """

    def after(first: Skew) -> Skew:
        def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
            (draw,) = rng.spawn(1)  # a separate stream, so that the first skew draws the same numbers as without share
            held_out, public = _draw_shared(split, beta, holdout, draw)
            if not len(held_out):
                return first.cut(split, parties, rng)
            private = np.setdiff1d(np.arange(len(split)), held_out, assume_unique=True)
            if len(private) < parties:
                raise PartitionError(
                    f"share(beta={beta:g}) leaves {len(private)} rows to {parties} parties: take a smaller beta."
                )
            partition = first.cut(split.take(private), parties, rng)
            if partition.noise:
                raise PartitionError(
                    "share cannot be combined with noise, because a shared row would need the noise of every party: "
                    "leave one of them out."
                )
            each = round(alpha * len(public))
            rows = tuple(np.sort(np.append(private[held], draw.permutation(public)[:each])) for held in partition.rows)
            return replace(partition, rows=rows, shared=public, warmup=warmup if len(public) else 0)

        return Skew(cut, after=after, natural=first.natural)  # with `after`, because nothing may follow a share

    return Skew(after(iid()).cut, after=after)


def _draw_shared(split: Split, beta: float, holdout: float | None, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Return the rows that are held out and, among them, the shared ones: equally many of each class, up to one."""
    piles = class_rows(split.y, rng)
    if holdout is None:
        size = round(len(split) * beta / (1 + beta))
        held_out = piles
    else:
        parts = apportion(round(holdout * len(split)), np.array([len(pile) for pile in piles]))
        held_out = [pile[:part] for pile, part in zip(piles, parts, strict=True)]
        size = round(beta * (len(split) - int(parts.sum())))
    if beta > 0 and size == 0:
        raise PartitionError(
            f"share(beta={beta:g}) shares less than one of {len(split)} rows: take a larger beta, or 0."
        )
    wanted = apportion(size, np.array([len(pile) > 0 for pile in piles]))
    for label, (pile, n) in enumerate(zip(held_out, wanted, strict=True)):
        if n > len(pile):
            raise PartitionError(
                f"share(beta={beta:g}) needs {n} rows of each class, but only {len(pile)} rows of class {label} can be "
                f"held out: take a smaller beta{'' if holdout is None else ' or a larger holdout'}."
            )
    public = np.sort(np.concatenate([pile[:n] for pile, n in zip(held_out, wanted, strict=True)]))
    return (public if holdout is None else np.concatenate(held_out)), public


@dataclass(frozen=True)
class Sharing:
    """The size and cost of the shared rows."""

    rows: int  # how many rows are shared
    each: int  # how many of them a party gets
    bytes: int  # of features and labels, sent to all parties
    largest: int  # bytes sent to the party that gets most
    emd_weighted_before: float  # of the private rows only
    warmup: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are written to run.json."""
        return {key: value for key, value in vars(self).items() if key != "largest"}


def sharing(partition: Partition, dataset: Dataset) -> Sharing | None:
    """Measure what a partition shares; None if it shares nothing."""
    if not len(partition.shared):
        return None
    split = dataset.train
    received = [np.intersect1d(rows, partition.shared, assume_unique=True) for rows in partition.rows]
    private = tuple(np.setdiff1d(rows, partition.shared, assume_unique=True) for rows in partition.rows)
    sizes = [_nbytes(split, rows) for rows in received]
    before = emd_weighted(count(Partition(private), dataset.codes, len(dataset.label_names)))
    return Sharing(len(partition.shared), len(received[0]), sum(sizes), max(sizes), before, partition.warmup)


def _nbytes(split: Split, rows: NDArray[np.int64]) -> int:
    return _feature_bytes(split.x, rows) + int(split.y[:1].nbytes) * len(rows)


def _feature_bytes(x: Features, rows: NDArray[np.int64]) -> int:
    if not sparse.issparse(x):
        return int(x[:1].nbytes) * len(rows)
    entries = int((x.indptr[rows + 1] - x.indptr[rows]).sum())
    return entries * int(x.data.itemsize + x.indices.itemsize) + len(rows) * int(x.indptr.itemsize)
