"""Names of features: which column of the source table a feature comes from, and which owner has it."""

import re
from collections.abc import Mapping, Sequence

from silobench.data.dataset import Dataset

# sex=Male, age<26, 26<=age<33, age>=50, day (month) and note#7 are features of the columns sex, age, day and note.
_FEATURE = re.compile(
    r"(?:[\d.]+<=)?(?P<column>.+?)(?:=.*|(?:<|>=)[\d.]+| \((?:days|month|weekday)\)|#\d+)?", re.DOTALL
)


def column_of(feature: str) -> str:
    """Return the column of the source table that a feature comes from, by the feature's name.

    >>> [column_of(name) for name in ("sex=Male", "26<=age<33", "born (month)", "income")]
    ['sex', 'age', 'born', 'income']
    """
    match = _FEATURE.fullmatch(feature)
    return match["column"] if match else feature


def columns_of(dataset: Dataset) -> tuple[str, ...]:
    """Return the column of the source table of every feature; empty if features have no names."""
    if dataset.encoder is not None and dataset.encoder.features == dataset.columns:  # exact, also for odd names
        return tuple(part.name for part in dataset.encoder.parts for _ in getattr(part, "features", ()))
    return tuple(map(column_of, dataset.columns))


def owned(features: Sequence[str], owners: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the features of each owner, where `owners` has the columns of the source table that each owner has."""
    return {owner: tuple(name for name in features if column_of(name) in columns) for owner, columns in owners.items()}


def owners_of(dataset: Dataset) -> dict[str, tuple[str, ...]]:
    """Return the features of each owner: those that the dataset states, else the prefixes of names OWNER.COLUMN.

    The result is empty if there are no owners.
    """
    if dataset.owners:
        return {owner: tuple(features) for owner, features in dataset.owners.items()}
    owners: dict[str, list[str]] = {}
    for feature in dataset.columns:
        owner, dot, column = column_of(feature).partition(".")
        if not (owner and dot and column):
            return {}
        owners.setdefault(owner, []).append(feature)
    return {owner: tuple(features) for owner, features in owners.items()} if len(owners) > 1 else {}
