"""Tables of several owners about the same things (games, flights, films), joined by a key to one table of features.

A feature is named OWNER.COLUMN, so that the columns of an owner can be selected. Where an owner does not have a row,
its numbers are 0 after scaling (the mean), and its categories are "missing". The group level `sources` names the owners
that have a row.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.alignment.keys import Places
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
    files: Files,
    owners: Sequence[Owner],
    target: Target,
    groups: Mapping[str, NDArray[Any]],
    rows: Rows = "all",
    match: str = "exact",
) -> Dataset:
    """Return the dataset of owners' columns. With aligned `rows`, only those that every owner has.

    A twelfth of the rows is held out; of classes, a fifth of each class. `match` says how rows were matched.
    """
    name = files.entry.name
    whole = joined_rows(owners, target.y, groups, rows)
    train, test = hold_out(whole, 0.2) if target.classes else hold_out_part(files.root, whole, 12)
    choices = Choices(detects_dates="none")
    columns = joined_columns(owners, rows)
    plan = plan_columns(name, {key: column for key, column in columns.items() if not _is_empty(column)}, choices, str)
    if plan.problems:
        problems = listed([problem.what for problem in plan.problems])
        raise DataError(f"{name} has {problems}: use the published files.")
    built = build(plan, train.x, test.x, choices, None, name)
    features = built.encoder.features
    return Dataset(
        name, replace(train, x=built.train), replace(test, x=built.test), target.classes, files.entry.licence,
        notes=(*coverage(owners, rows), _FILLED, *built.notes[len(plan.notes) :]),
        task="classification" if target.classes else "regression",
        columns=features, target=target.name, unit=target.unit,
        owners=features_of(owners, features) if len(owners) > 1 else {},
        alignment=alignment_facts(owners, match) if len(owners) > 1 else {},
    )  # fmt: skip


def joined_rows(owners: Sequence[Owner], y: NDArray[Any], groups: Mapping[str, NDArray[Any]], rows: Rows) -> Split:
    """Return the rows of the joined table, whose features are their numbers among its columns."""
    known, places = _presence(owners), _used(owners, rows)
    if "sources" in groups and not known.all():
        raise DataError(
            "the group 'sources' has the name of the group that says which parties have a row: rename the column."
        )
    levels = dict(groups) if known.all() else {**groups, "sources": _sources(owners, known)}
    return Split(np.arange(len(places)), y[places], {level: ids[places] for level, ids in levels.items()})


def joined_columns(owners: Sequence[Owner], rows: Rows) -> dict[str, RawColumn]:
    """Return the columns of the joined table, named OWNER.COLUMN."""
    places = _used(owners, rows)
    return {
        f"{owner.name}.{key}": _take(column, owner.places[places])
        for owner in owners
        for key, column in owner.columns.items()
    }


def features_of(owners: Sequence[Owner], features: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the features of each owner."""
    return {
        owner.name: tuple(feature for feature in features if feature.startswith(f"{owner.name}.")) for owner in owners
    }


def alignment_facts(owners: Sequence[Owner], match: str) -> dict[str, Any]:
    """Return facts about the rows of the first owner that others have, and about the rows without a counterpart."""
    known = _presence(owners)
    sizes = [len(next(iter(owner.columns.values()))) for owner in owners]
    unmatched = [
        size - len(np.unique(owner.places[owner.places >= 0])) for owner, size in zip(owners, sizes, strict=True)
    ]
    unmatched[0] = int((~known[1:].any(0)).sum())
    names = [owner.name for owner in owners]
    return {
        "match": match,
        "rows": dict(zip(names, sizes, strict=True)),
        "matched": dict(zip(names, known.sum(1).tolist(), strict=True)),
        "unmatched": dict(zip(names, unmatched, strict=True)),
    }


def _presence(owners: Sequence[Owner]) -> NDArray[np.bool_]:
    """Return whether each owner has each row."""
    return np.array([owner.places >= 0 for owner in owners])


def _used(owners: Sequence[Owner], rows: Rows) -> Places:
    """Return the numbers of the rows that are used."""
    known = _presence(owners)
    return np.flatnonzero(known.all(0)) if rows == "aligned" else np.arange(known.shape[1])


def _sources(owners: Sequence[Owner], known: NDArray[np.bool_]) -> NDArray[np.str_]:
    """Return the owners of each row, such as ign+steam."""
    names = [owner.name for owner in owners]
    codes, inverse = np.unique(known, axis=1, return_inverse=True)
    labels = ["+".join(itertools.compress(names, column)) for column in codes.T]
    return np.array(labels, dtype=np.str_)[inverse.reshape(-1)]


def coverage(owners: Sequence[Owner], rows: Rows) -> list[str]:
    """Return notes about the rows that owners have."""
    known, used = _presence(owners), len(_used(owners, rows))
    total = known.shape[1]
    counts = listed([f"{owner.name} {int(row.sum())}" for owner, row in zip(owners, known, strict=True)])
    notes = [f"rows of {total} by owner: {counts}"] if len(owners) > 1 else []
    return notes if used == total else [*notes, f"{used} of {total} rows used, which every owner has"]


def _is_empty(column: RawColumn) -> bool:
    return bool(np.isnan(column.values).all()) if column.kind == "number" else column.factor.texts == [""]


def _take(column: RawColumn, places: Places) -> RawColumn:
    """Return the cells of a column at `places`; a missing cell at -1."""
    absent = places < 0
    if column.kind in ("number", "date"):  # a place of -1 reads the last row, and its value is replaced
        missing = np.nan if column.kind == "number" else np.datetime64("NaT", "s")
        return replace(column, values=np.where(absent, missing, column.values[places]))
    factor = column.factor
    has_missing = bool(factor.texts) and not factor.texts[0]
    texts = factor.texts if has_missing else ["", *factor.texts]
    codes = np.where(absent, 0, (factor.codes if has_missing else factor.codes + 1)[places])
    used, codes = np.unique(codes, return_inverse=True)  # a category that no row has would be a constant feature
    kept = Factor([texts[code] for code in used], codes.reshape(-1).astype(np.int32))
    return RawColumn("factor", kept, column.is_category)


# --- reading -----------------------------------------------------------------------------------------


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
