"""Real-world skew: the silos that the data come from."""

from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import PartitionError, suggest
from silobench.partitions.partition import Partition, Skew, checked, rows_of

_MOST_NAMES = 10  # that a note gives


def by_group(level: str = "", min_size: Annotated[int, Ge(0)] = 0) -> Skew:
    """The dataset's own groups (writers, hospitals, speakers, regions), dealt to parties at random and equally.

    With as many parties as groups each party is one group and bears its name. `level` chooses among several
    group columns; the first is the default. Groups with fewer than `min_size` training rows are left out: nobody holds
    their rows, and the partition says so. Test rows stay, whatever group they are of.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        found, codes, sizes = np.unique(group_ids(split, level), return_inverse=True, return_counts=True)
        large = _large(sizes, min_size)
        if len(large) < parties:
            of_size = f" of at least {min_size} rows" if min_size else ""
            raise PartitionError(
                f"by-group has {len(large)} groups{of_size} for {parties} parties: take at most {len(large)} parties."
            )
        one_each = len(large) == parties
        order = large if one_each else large[rng.permutation(len(large))]
        owner = np.full(len(found), -1)
        for party, hand in enumerate(np.array_split(order, parties)):
            owner[hand] = party
        owners = owner[codes.reshape(-1)]
        held = np.flatnonzero(owners >= 0)
        rows = tuple(held[part] for part in rows_of(owners[held], parties))
        named = tuple(str(name) for name in found[large].tolist()) if one_each else ()
        notes = _left_out(found[sizes < min_size].tolist(), min_size, len(split) - len(held), len(split))
        return checked(Partition(rows, names=named, notes=notes), "by-group")

    return Skew(
        cut, natural=lambda split: len(_large(np.unique(group_ids(split, level), return_counts=True)[1], min_size))
    )


def _large(sizes: NDArray[np.int64], min_size: int) -> NDArray[np.int64]:
    """The places of groups that are large enough; refused where there are none."""
    large = np.flatnonzero(sizes >= min_size)
    if not len(large):
        raise PartitionError(
            f"by-group(min_size={min_size}) leaves no group, for the largest has {sizes.max()} rows: "
            "take a smaller min_size."
        )
    return large


def _left_out(groups: list[Any], min_size: int, rows: int, of: int) -> tuple[str, ...]:
    if not groups:
        return ()
    names = ", ".join(map(str, groups[:_MOST_NAMES])) + (", ..." if len(groups) > _MOST_NAMES else "")
    return (f"nobody holds {rows} of {of} training rows, those of groups with fewer than {min_size} ({names})",)


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
