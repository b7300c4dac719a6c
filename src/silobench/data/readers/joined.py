"""Tables of several owners about the same things (games, flights, films), joined by a key to one table of features.

A feature is named OWNER.COLUMN, so that the columns of an owner can be selected. Where an owner does not have a row,
its numbers are 0 after scaling (the mean), and its categories are "missing". The group level `sources` names the owners
that have a row.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.delimited import hold_out_part
from silobench.data.store.directory import Files
from silobench.data.table.build import build
from silobench.data.table.cells import Factor, RawColumn
from silobench.data.table.choices import Choices
from silobench.data.table.files import read_csv
from silobench.data.table.plan import plan_columns
from silobench.errors import DataError, listed

Rows: TypeAlias = Literal["all", "aligned"]
Places: TypeAlias = NDArray[np.int64]
_FILLED = "missing numbers are filled with the training mean of their column, and missing texts are a category"


@dataclass(frozen=True)
class Owner:
    """Columns of one owner. `places` has its row for each row of the joined table, and -1 where it has none."""

    name: str
    columns: Mapping[str, RawColumn]
    places: Places


@dataclass(frozen=True)
class Target:
    """What is predicted: a number with a unit, or a class."""

    name: str
    y: NDArray[Any]
    unit: str = ""
    classes: tuple[str, ...] = ()


def join(
    files: Files, owners: Sequence[Owner], target: Target, groups: Mapping[str, NDArray[Any]], rows: Rows = "all"
) -> Dataset:
    """Return the dataset of owners' columns. With aligned `rows`, only those that every owner has.

    A twelfth of the rows is held out; of classes, a fifth of each class.
    """
    name, total = files.entry.name, len(target.y)
    known = np.array([owner.places >= 0 for owner in owners])
    kept = np.flatnonzero(known.all(0)) if rows == "aligned" else np.arange(total)
    levels = dict(groups) if known.all() else {**groups, "sources": _sources(owners, known)}
    whole = Split(np.arange(len(kept)), target.y[kept], {level: ids[kept] for level, ids in levels.items()})
    train, test = hold_out(whole, 0.2) if target.classes else hold_out_part(files.root, whole, 12)
    choices = Choices(detects_dates="none")
    columns = {
        f"{owner.name}.{key}": _take(column, owner.places[kept])
        for owner in owners
        for key, column in owner.columns.items()
    }
    plan = plan_columns(name, {key: column for key, column in columns.items() if not _is_empty(column)}, choices, str)
    if plan.problems:
        problems = listed([problem.what for problem in plan.problems])
        raise DataError(f"{name} has {problems}: use the published files.")
    built = build(plan, train.x, test.x, choices, None, name)
    return Dataset(
        name, replace(train, x=built.train), replace(test, x=built.test), target.classes, files.entry.licence,
        notes=(*_coverage(owners, known, total, len(kept)), _FILLED, *built.notes[len(plan.notes) :]),
        task="classification" if target.classes else "regression",
        columns=built.encoder.features, target=target.name, unit=target.unit,
    )  # fmt: skip


def _sources(owners: Sequence[Owner], known: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return the owners of each row, such as ign+steam."""
    names = [owner.name for owner in owners]
    codes, inverse = np.unique(known, axis=1, return_inverse=True)
    labels = ["+".join(itertools.compress(names, column)) for column in codes.T]
    return np.array(labels, dtype=np.str_)[inverse.reshape(-1)]


def _coverage(owners: Sequence[Owner], known: NDArray[np.bool_], total: int, kept: int) -> list[str]:
    """Return notes about the rows that owners have."""
    counts = listed([f"{owner.name} {int(row.sum())}" for owner, row in zip(owners, known, strict=True)])
    notes = [f"rows of {total} by owner: {counts}"] if len(owners) > 1 else []
    return notes if kept == total else [*notes, f"{kept} of {total} rows used, which every owner has"]


def _is_empty(column: RawColumn) -> bool:
    return bool(np.isnan(column.values).all()) if column.kind == "number" else column.factor.texts == [""]


def _take(column: RawColumn, places: Places) -> RawColumn:
    """Return the cells of a column at `places`; a missing cell at -1."""
    absent = places < 0
    if column.kind == "number":  # a place of -1 reads the last row, and its value is replaced
        return replace(column, values=np.where(absent, np.nan, column.values[places]))
    factor = column.factor
    has_missing = bool(factor.texts) and not factor.texts[0]
    texts = factor.texts if has_missing else ["", *factor.texts]
    codes = np.where(absent, 0, (factor.codes if has_missing else factor.codes + 1)[places])
    used, codes = np.unique(codes, return_inverse=True)  # a category that no row has would be a constant feature
    kept = Factor([texts[code] for code in used], codes.reshape(-1).astype(np.int32))
    return RawColumn("factor", kept, column.is_category)


# --- reading and matching ----------------------------------------------------------------------------


def read_owner(path: Path, columns: Sequence[str], categories: Sequence[str] = ()) -> dict[str, RawColumn]:
    """Return columns of a CSV file: those in `categories` as texts, the others as numbers; empty cells are missing."""
    table = read_csv(path, [*columns, *categories], only=[*columns, *categories], sep=",")
    absent = [name for name in (*columns, *categories) if name not in table.columns]
    if absent:
        raise DataError(f"{path} has no column {listed(absent)}: use the published file.")
    return {
        **{name: RawColumn("number", numbers_of(path, name, table.columns[name])) for name in columns},
        **{name: replace(table.columns[name], is_category=True) for name in categories},
    }


def numbers_of(path: Path, name: str, column: RawColumn) -> NDArray[np.float64]:
    """Return a column as numbers, with NaN for missing cells; refuse other cells."""
    numbers = column.numbers()
    if isinstance(numbers, np.ndarray):
        return numbers
    raise DataError(f"{path} has a cell in column '{name}' that is not a finite number: use the published file.")


def texts_of(column: RawColumn) -> list[str]:
    """Return the cells of a column as texts; a missing cell is empty."""
    factor = column.factor
    return [factor.texts[code] for code in factor.codes.tolist()]


def title_key(title: str) -> str:
    """Return a title as lower-case letters and digits, for comparisons.

    >>> title_key("Half-Life 2: Episode One")
    'halflife2episodeone'
    """
    return re.sub(r"[^a-z0-9]", "", title.lower())


def places_of(keys: Sequence[Any], known: Sequence[Any]) -> Places:
    """Return the first position of each key among the known keys, or -1."""
    first = {key: place for place, key in reversed(list(enumerate(known)))}
    return np.array([first.get(key, -1) for key in keys], dtype=np.int64)
