"""Real-world skew: the silos that the data come from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import PartitionError, suggest
from silobench.partition.partition import Partition, Skew, checked, rows_of


def by_group(level: str = "") -> Skew:
    """The dataset's own groups (writers, hospitals, speakers, regions), dealt to parties at random and equally.

    With as many parties as groups each party is one group and bears its name. `level` chooses among several
    group columns; the first is the default.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        found, codes = np.unique(group_ids(split, level), return_inverse=True)
        if len(found) < parties:
            raise PartitionError(
                f"by-group has {len(found)} groups for {parties} parties: take at most {len(found)} parties."
            )
        one_each = len(found) == parties
        order = np.arange(len(found)) if one_each else rng.permutation(len(found))
        hands = np.array_split(order, parties)
        owner = np.empty(len(found), dtype=np.int64)
        owner[np.concatenate(hands)] = np.repeat(np.arange(parties), [len(hand) for hand in hands])
        named = tuple(str(name) for name in found.tolist()) if one_each else ()
        return checked(Partition(rows_of(owner[codes.reshape(-1)], parties), names=named), "by-group")

    return Skew(cut, natural=lambda split: len(np.unique(group_ids(split, level))))


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
