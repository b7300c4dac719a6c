"""Parties hold different columns of the same rows."""

import numpy as np

from silobench.data.dataset import Dataset, Split
from silobench.errors import PartitionError
from silobench.partitions.skew import PARTITIONS, Absent, Deal, Partition, Skew


@PARTITIONS.register
def columns(absent: Absent = "zeros") -> Skew:
    """Give every owner of the dataset its columns; the first owner has the labels."""

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        raise PartitionError("columns deals columns, not rows: use it in an experiment, without other partitions.")

    def deal(dataset: Dataset, parties: int | None, rng: np.random.Generator) -> Deal:
        owners = _owners(dataset)
        places = {name: place for place, name in enumerate(dataset.columns)}
        numbers = tuple(np.array([places[column] for column in owned], dtype=np.int64) for owned in owners.values())
        return Deal(tuple(owners), numbers, _has(dataset.train, owners), _has(dataset.test, owners), absent=absent)

    return Skew(cut, deal=deal)


def _owners(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    if dataset.owners:
        return dict(dataset.owners)
    owners: dict[str, list[str]] = {}
    for column in dataset.columns:
        owners.setdefault(column.partition(".")[0], []).append(column)
    return {owner: tuple(owned) for owner, owned in owners.items()}


def _has(split: Split, owners: dict[str, tuple[str, ...]]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    if "sources" not in split.groups:
        return np.ones((len(owners), len(split)), dtype=bool)
    values, inverse = np.unique(split.groups["sources"], return_inverse=True)
    known = np.array([[owner in str(value).split("+") for value in values] for owner in owners])
    return known[:, inverse.reshape(-1)]
