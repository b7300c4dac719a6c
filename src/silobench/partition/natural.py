"""Real-world skew: the silos that the data come from."""

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import PartitionError, suggest
from silobench.partition.partition import Partition, Rows, Skew, checked, rows_of

MinSize = Annotated[int, Ge(0)]


def by_group(level: str = "", min_size: MinSize = 0) -> Skew:
    """The dataset's own groups (writers, hospitals, speakers, regions), dealt to parties at random and equally.

    With as many parties as groups each party is one group and bears its name. `level` chooses among several
    group columns; the first is the default. The rows of groups smaller than `min_size` go to nobody (the quagmire
    study leaves out regions of fewer than 1,000 pictures).
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        rows, found, codes = _large_groups(split, level, min_size)
        if len(found) < parties:
            of_size = f" of at least {min_size} rows" if min_size else ""
            raise PartitionError(
                f"by-group has {len(found)} groups{of_size} for {parties} parties: take at most {len(found)} parties."
            )
        one_each = len(found) == parties
        order = np.arange(len(found)) if one_each else rng.permutation(len(found))
        hands = np.array_split(order, parties)
        owner = np.empty(len(found), dtype=np.int64)
        owner[np.concatenate(hands)] = np.repeat(np.arange(parties), [len(hand) for hand in hands])
        named = tuple(str(name) for name in found.tolist()) if one_each else ()
        dealt = tuple(rows[places] for places in rows_of(owner[codes], parties))
        return checked(Partition(dealt, names=named), "by-group")

    return Skew(cut, natural=lambda split: len(_large_groups(split, level, min_size)[1]))


def _large_groups(split: Split, level: str, min_size: int) -> tuple[Rows, NDArray[Any], Rows]:
    """The rows whose group is large enough, these groups, and the number of each of these rows' group."""
    groups, codes, sizes = np.unique(group_ids(split, level), return_inverse=True, return_counts=True)
    codes, large = codes.reshape(-1), sizes >= min_size
    if not large.any():
        raise PartitionError(
            f"by-group: no group has {min_size} rows, the largest has {sizes.max()}: take a smaller min_size."
        )
    rows, renumbered = np.flatnonzero(large[codes]), np.cumsum(large) - 1
    return rows, groups[large], renumbered[codes[rows]]


def group_ids(split: Split, level: str = "") -> NDArray[Any]:
    """The group of every row; `level` chooses among several kinds, the first is the default."""
    if not split.groups:
        raise PartitionError(
            "by-group needs a dataset with groups, and this one has none: choose another partition, or name the "
            "column, as in csv(path=..., label=..., group=hospital)."
        )
    if level and level not in split.groups:
        raise PartitionError(f"the dataset has no group level '{level}': {suggest(level, split.groups)}")
    return split.groups[level or next(iter(split.groups))]
