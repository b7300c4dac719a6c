"""Data sharing (Zhao et al., section 4): a few rows of every class, held out, that parties get beside their own."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Dataset, Features, Split
from silobench.errors import PartitionError
from silobench.partitions import iid
from silobench.partitions.measures import count, emd_weighted
from silobench.partitions.partition import Partition, Rows, Skew, apportion, class_rows
from silobench.spec.ranges import BelowOne, Fraction, NonNegative


def share(
    beta: NonNegative, alpha: Fraction = 1.0, warmup: Annotated[int, Ge(0)] = 0, holdout: BelowOne | None = None
) -> Skew:
    """Rows G, as many of each class, are set aside, and every party gets a random `alpha` of them (Zhao et al.).

    It stands last: ``shards(per_party=1) + share(beta=0.1)``. beta = |G| / |D|, where D is what the parties hold of
    their own. G is drawn from a `holdout` of the rows (0.2 in the paper: D and it stay the same for any beta), or all
    that is set aside is G. The model is first trained on G for `warmup` epochs. ``share(beta=0)`` changes nothing.
    """

    def after(first: Skew) -> Skew:
        def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
            (draw,) = rng.spawn(1)  # which leaves the other skew's numbers as they are
            aside, public = _drawn(split, beta, holdout, draw)
            if not len(aside):
                return first.cut(split, parties, rng)
            private = np.setdiff1d(np.arange(len(split)), aside, assume_unique=True)
            if len(private) < parties:
                raise PartitionError(
                    f"share(beta={beta:g}) leaves {len(private)} rows to {parties} parties: take a smaller beta."
                )
            own = first.cut(split.take(private), parties, rng)
            if own.noise:
                raise PartitionError("share cannot stand with noise: a shared row would need a noise for every party.")
            each = round(alpha * len(public))
            rows = tuple(np.sort(np.append(private[held], draw.permutation(public)[:each])) for held in own.rows)
            return replace(own, rows=rows, shared=public, warmup=warmup if len(public) else 0)

        return Skew(cut, after=after, natural=first.natural)  # which says that nothing may stand behind it

    return Skew(after(iid.iid()).cut, after=after)


def _drawn(split: Split, beta: float, holdout: float | None, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """The rows that are set aside, and those of them that are shared: as many of each class, as near as can be."""
    piles = class_rows(split.y, rng)
    if holdout is None:
        size = round(len(split) * beta / (1 + beta))
        aside = piles
    else:
        parts = apportion(round(holdout * len(split)), np.array([len(pile) for pile in piles]))
        aside = [pile[:part] for pile, part in zip(piles, parts, strict=True)]
        size = round(beta * (len(split) - int(parts.sum())))
    if beta > 0 and size == 0:
        raise PartitionError(f"share(beta={beta:g}) is less than one of {len(split)} rows: take a larger beta, or 0.")
    wanted = apportion(size, np.array([len(pile) > 0 for pile in piles]))
    for label, (pile, some) in enumerate(zip(aside, wanted, strict=True)):
        if some > len(pile):
            raise PartitionError(
                f"share(beta={beta:g}) wants {some} rows of each class, but {len(pile)} of class {label} can be set "
                f"aside: take a smaller beta{'' if holdout is None else ' or a larger holdout'}."
            )
    public = np.sort(np.concatenate([pile[:some] for pile, some in zip(aside, wanted, strict=True)]))
    return (public if holdout is None else np.concatenate(aside)), public


@dataclass(frozen=True)
class Sharing:
    """What was shared among parties, in numbers."""

    rows: int  # of G
    each: int  # of these that a party gets
    bytes: int  # that all parties get, features and labels
    largest: int  # bytes that one party gets
    emd_weighted_before: float  # of what parties hold of their own
    warmup: int

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "largest"}


def sharing(partition: Partition, dataset: Dataset) -> Sharing | None:
    """None where nothing is shared."""
    if not len(partition.shared):
        return None
    split = dataset.train
    given = [np.intersect1d(rows, partition.shared, assume_unique=True) for rows in partition.rows]
    own = tuple(np.setdiff1d(rows, partition.shared, assume_unique=True) for rows in partition.rows)
    sizes = [_nbytes(split, rows) for rows in given]
    before = emd_weighted(count(Partition(own), split.y, len(dataset.classes)))
    return Sharing(len(partition.shared), len(given[0]), sum(sizes), max(sizes), before, partition.warmup)


def _nbytes(split: Split, rows: NDArray[np.int64]) -> int:
    return _feature_bytes(split.x, rows) + int(split.y[:1].nbytes) * len(rows)


def _feature_bytes(x: Features, rows: NDArray[np.int64]) -> int:
    if not sparse.issparse(x):
        return int(x[:1].nbytes) * len(rows)
    entries = int((x.indptr[rows + 1] - x.indptr[rows]).sum())
    return entries * int(x.data.itemsize + x.indices.itemsize) + len(rows) * int(x.indptr.itemsize)
