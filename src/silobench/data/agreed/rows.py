"""The rows of one silo, read by what all silos agreed on: their summary, and their features."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.agreed.columns import Columns, Label
from silobench.data.agreed.sources import PictureSource, SiloSource, TableSource, source_of
from silobench.data.agreed.summary import LEAST_ROWS, Moments, Summary, agreed_encoder, moments_of
from silobench.data.dataset import Dataset, Labels, Split, hold_out
from silobench.data.encoder import BadColumnError, CategoryColumn, FeatureColumn, NumericColumn
from silobench.data.readers.image_files import picture_targets, read_pictures, scaling_note
from silobench.data.table.cells import RawColumn
from silobench.data.table.matching import places_of
from silobench.errors import DataError, listed

Rows: TypeAlias = NDArray[np.int64]
LEVEL = "silo"  # the group level that names the silo of a row
_SHOWN = 3  # columns that a message lists


@dataclass(frozen=True)
class SiloRows:
    """The labels of a silo's rows, which of them are for training and testing, and their raw columns or pixels."""

    title: str  # how messages call the source
    name: str
    y: Labels
    train: Rows
    test: Rows
    cells: Mapping[str, RawColumn]
    parts: tuple[FeatureColumn, ...]  # with the marks of this silo's numbers
    pixels: NDArray[np.uint8] | None = None


def read_rows(source: str, columns: Columns) -> SiloRows:
    """Return the rows of a silo's file or folder; refuse rows that do not fit the agreement.

    The held-out rows are drawn by a fixed seed from this silo's rows alone, stratified by class.
    """
    place = source_of(source)
    _need_form(place, columns)
    rows = _picture_rows(place, columns) if isinstance(place, PictureSource) else _table_rows(place, columns)
    if len(rows.train) < LEAST_ROWS:
        raise DataError(
            f"{rows.title} has {len(rows.train)} training rows, but a silo needs at least {LEAST_ROWS}, because sums "
            "over fewer rows would show single cells: add rows."
        )
    return rows


def _need_form(place: SiloSource, columns: Columns) -> None:
    if isinstance(place, PictureSource) != (columns.pictures is not None):
        given, needed = ("a folder", "tables") if columns.pictures is None else ("a table", "folders of pictures")
        raise DataError(f"{place.path} is {given}, but the silos agreed on {needed}: give the path of one.")


def _split(title: str, name: str, y: Labels, columns: Columns, **content: Any) -> SiloRows:
    try:
        train, test = hold_out(Split(np.arange(len(y)), y), columns.test)
    except DataError as error:
        raise DataError(f"{title} is too small: {error}") from error
    return SiloRows(title, name, y, train.x, test.x, **content)


# --- tables ------------------------------------------------------------------------------------------


def _table_rows(place: TableSource, columns: Columns) -> SiloRows:
    title = str(place.path)
    cells = place.read(columns.names, columns.names).columns
    absent = [name for name in columns.names if name not in cells]
    if absent:
        raise DataError(
            f"{title} has no column {listed(absent)}, which the silos agreed on: add "
            f"{'it' if len(absent) == 1 else 'them'}, or rename a column."
        )
    y = _labels(title, columns.label, cells.pop(columns.label.name), place)
    for part in columns.parts:
        if isinstance(part, CategoryColumn):
            _need_categories(title, part, cells[part.name])
    parts = tuple(place.marked(part) for part in columns.parts)
    return _split(title, place.path.stem, y, columns, cells=cells, parts=parts)


def _need_categories(title: str, part: CategoryColumn, column: RawColumn) -> None:
    """Refuse a column in which no cell has an agreed category: it is another column, or has another spelling."""
    texts = column.factor.texts
    if any(texts) and not any(place >= 0 for place in places_of(column, part.categories)):
        raise DataError(
            f"{title} has none of the {len(part.categories)} agreed categories in column '{part.name}': correct the "
            "cells, or agree on further categories."
        )


def _labels(title: str, label: Label, column: RawColumn, place: TableSource) -> Labels:
    if column.factor.missing:
        raise DataError(
            f"{title} has {_count(column.factor.missing)} without a value of the label '{label.name}': fill in or "
            "remove them."
        )
    if not label.classes:
        return _label_numbers(title, label, column, place)
    return _known(title, label, np.array(places_of(column, label.classes), np.int64)[column.factor.codes])


def _known(title: str, label: Label, codes: NDArray[np.int64]) -> Labels:
    """Return class codes if all classes are known. The message has a number of rows, and no class."""
    unknown = int((codes < 0).sum())
    if unknown:
        raise DataError(
            f"{title} has {_count(unknown)} with a value of the label '{label.name}' that is none of the "
            f"{len(label.classes)} agreed classes: correct them, or agree on further classes."
        )
    return codes


def _label_numbers(title: str, label: Label, column: RawColumn, place: TableSource) -> Labels:
    has_marks = place.decimal != "auto" or place.thousands
    decimal, thousands = label.decimal, label.thousands
    if has_marks:
        decimal, thousands = place.decimal.replace("auto", "."), place.thousands
    numbers = column.numbers(decimal, thousands)
    if not isinstance(numbers, np.ndarray) or not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise DataError(
            f"{title} has a value of the label '{label.name}' that is not a finite number: the silos agreed on numbers "
            "for it, so correct the values."
        )
    return numbers.astype(np.float32)


def _count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows} rows"


# --- pictures ----------------------------------------------------------------------------------------


def _picture_rows(place: PictureSource, columns: Columns) -> SiloRows:
    form, label, root = columns.pictures, columns.label, place.path
    assert form is not None
    names, cells = place.labels(label.name)
    if label.classes:
        places = {name: place for place, name in enumerate(label.classes)}
        y = _known(str(root), label, np.array([places.get(cell, -1) for cell in cells], np.int64))
    else:
        y = picture_targets(root, names, cells, "regression")[0]
    pixels = read_pictures([root / name for name in names], form.size, form.colour)
    return _split(str(root), root.resolve().name, y, columns, cells={}, parts=(), pixels=pixels)


# --- what becomes of rows ----------------------------------------------------------------------------


def summary_of(source: str, columns: Columns) -> Summary:
    """Return the sums over the training rows of a silo that it sends before training."""
    return summary_of_rows(read_rows(source, columns), columns)


def summary_of_rows(rows: SiloRows, columns: Columns) -> Summary:
    """Return the sums over the training rows among rows that were read."""
    values: dict[str, NDArray[np.float64]] = {}
    problems = []
    for part in rows.parts:
        if isinstance(part, NumericColumn):
            try:
                values |= dict(zip(part.features, part.numbers(rows.cells[part.name]), strict=True))
            except BadColumnError as error:
                problems.append(str(error))
    if problems:
        raise DataError(
            f"{rows.title} has {listed(problems, _SHOWN)}: the silos agreed on numbers or dates there, so correct them."
        )
    features = {name: _moments(rows, name, values[name][rows.train], columns) for name in columns.summed_features}
    target = None if columns.label.classes else _moments(rows, columns.label.name, rows.y[rows.train], columns)
    return Summary(len(rows.train), features, target)


def _moments(rows: SiloRows, name: str, values: NDArray[Any], columns: Columns) -> Moments:
    moments = moments_of(rows.title, name, values)
    return replace(moments, squares=0.0) if columns.scale == "none" and name != columns.label.name else moments


def silo_dataset(source: str, columns: Columns, summary: Summary) -> Dataset:
    """Return the training and test rows of a silo, with the scales of the joint summary of all silos."""
    return dataset_of_rows(read_rows(source, columns), columns, summary)


def dataset_of_rows(rows: SiloRows, columns: Columns, summary: Summary) -> Dataset:
    """Return the dataset of rows that were read, with the scales of the joint summary of all silos."""
    encoder = agreed_encoder(columns, summary) if columns.parts else None
    if encoder:
        x: NDArray[Any] = replace(encoder, parts=rows.parts).encode(rows.cells, rows.title)
    else:
        assert rows.pixels is not None
        x = rows.pixels
    whole = Split(x, rows.y, {LEVEL: np.full(len(rows.y), rows.name)})
    return Dataset(
        rows.name,
        whole.take(rows.train),
        whole.take(rows.test),
        columns.label.classes,
        notes=notes_of(columns),
        task=columns.label.task,
        columns=encoder.features if encoder else (),
        target=columns.label.name,
        unit=columns.label.unit,
        encoder=encoder,
    )


def notes_of(columns: Columns) -> tuple[str, ...]:
    """Return how rows became features, for people."""
    if columns.pictures:
        return (scaling_note(columns.pictures.size),)
    if not columns.numeric_features or columns.scale == "none":
        return ()
    if columns.scale == "stated":
        return ("numeric columns scaled by the means and deviations that the silos agreed on",)
    return ("numeric columns standardised by sums over the training rows of all silos, so every silo learns the sums",)
