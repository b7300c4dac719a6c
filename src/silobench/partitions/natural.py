"""Natural skew: parties are the real silos that the data come from."""

import functools
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Split
from silobench.errors import PartitionError, suggest
from silobench.partitions.skew import PARTITIONS, Partition, Skew, rows_of, sorted_rows

_MOST_NAMES = 10  # listed in a note


@PARTITIONS.register(added_later=("min_size", "order"))
def by_group(level: str = "", min_size: Annotated[int, Ge(0)] = 0, order: Literal["names", "rows"] = "names") -> Skew:
    """The groups of the dataset (writers, hospitals, speakers, regions), assigned to parties at random and equally.

    With as many parties as groups, each party is one group and takes its name. `level` selects a group column; the
    default is the first. Groups with fewer than `min_size` training rows are left out: their rows are unused, and the
    partition has a note about it. All test rows stay. Parties that are one group each are in the `order` of the groups'
    names, or of their first rows.
    """

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        groups, first, codes, sizes = np.unique(
            group_ids(split, level), return_index=True, return_inverse=True, return_counts=True
        )
        large = _large(sizes, min_size)
        if len(large) < parties:
            of_size = f" of at least {min_size} rows" if min_size else ""
            raise PartitionError(
                f"by-group found {len(large)} groups{of_size} for {parties} parties: take at most {len(large)} parties."
            )
        one_each = len(large) == parties
        if order == "rows":
            large = large[np.argsort(first[large])]
        dealt = large if one_each else large[rng.permutation(len(large))]
        owner = np.full(len(groups), -1)
        for party, members in enumerate(np.array_split(dealt, parties)):
            owner[members] = party
        party_of_row = owner[codes.reshape(-1)]
        held = np.flatnonzero(party_of_row >= 0)
        rows = tuple(held[part] for part in rows_of(party_of_row[held], parties))
        names = tuple(str(name) for name in groups[large].tolist()) if one_each else ()
        notes = _notes(groups[sizes < min_size].tolist(), min_size, len(split) - len(held), len(split))
        column = level or next(iter(split.groups))
        owners = functools.partial(_owners, column, groups, owner)
        return sorted_rows(Partition(rows, names=names, notes=notes, owners=owners), "by-group")

    return Skew(
        cut, natural=lambda split: len(_large(np.unique(group_ids(split, level), return_counts=True)[1], min_size))
    )


def _owners(level: str, groups: NDArray[Any], owner: NDArray[np.int64], test: Split) -> NDArray[np.int64] | None:
    """Return the party that has the group of every test row, -1 for another group; None if test rows have no groups."""
    if level not in test.groups:
        return None
    places: dict[Any, int] = dict(zip(groups.tolist(), owner.tolist(), strict=True))
    ids, codes = np.unique(test.groups[level], return_inverse=True)
    return np.array([places.get(group, -1) for group in ids.tolist()], dtype=np.int64)[codes.reshape(-1)]


def _large(sizes: NDArray[np.int64], min_size: int) -> NDArray[np.int64]:
    """Return the indices of groups with at least `min_size` rows; raise `PartitionError` if there are none."""
    large = np.flatnonzero(sizes >= min_size)
    if not len(large):
        raise PartitionError(
            f"by-group(min_size={min_size}) leaves out every group, because the largest has {sizes.max()} rows: "
            "take a smaller min_size."
        )
    return large


def _notes(small_groups: list[Any], min_size: int, unused: int, rows: int) -> tuple[str, ...]:
    if not small_groups:
        return ()
    names = ", ".join(map(str, small_groups[:_MOST_NAMES])) + (", ..." if len(small_groups) > _MOST_NAMES else "")
    return (f"{unused} of {rows} training rows are unused: groups with fewer than {min_size} were left out ({names})",)


def group_ids(split: Split, level: str = "") -> NDArray[Any]:
    """Return the group of every row; `level` selects a group column, the first by default."""
    if not split.groups:
        raise PartitionError(
            "by-group needs a dataset with groups, but this one has none: choose another partition, or name the "
            "column, as in csv(path=..., label=..., group=hospital)."
        )
    if level and level not in split.groups:
        raise PartitionError(f"the dataset has no group level '{level}': {suggest(level, split.groups)}")
    return split.groups[level or next(iter(split.groups))]
