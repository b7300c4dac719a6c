"""`Encoder`: how the raw columns of a table become features, as learnt from the training rows.

A run stores it as JSON, so that the rows of a new file become the features that its model knows.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from silobench.data.table.cells import BadCells, RawColumn, raw_column
from silobench.data.table.dates import AmbiguousDatesError, DateOrder, date_features, parse_dates
from silobench.data.table.matching import places_of, truth_values
from silobench.data.table.progress import Progress
from silobench.data.table.scaling import Scale, apply_scales
from silobench.data.table.words import PADDING, hashed_words, place_and_sign, tokens, word_row
from silobench.errors import DataError, listed

MISSING_CATEGORY = "(missing)"
_LOG = logging.getLogger("silobench")
_BLOCK = 8192  # rows of hashed texts that are written at a time
_SHOWN = 3  # groups or categories that a message lists


class BadColumnError(Exception):
    """A column of a new table cannot be read as it was in training; the message says what it has."""


# --- columns -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: one feature, which is scaled."""

    kind: ClassVar[str] = "number"
    name: str
    decimal: str = "."
    thousands: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        return (self.name,)

    def numbers(self, column: RawColumn) -> list[NDArray[np.float64]]:
        values = column.numbers(self.decimal, self.thousands)
        if values is None:
            values = _truths(column)
        if values is None:
            raise BadColumnError(f"'{_first_text(column, self.decimal, self.thousands)}' in column '{self.name}'")
        if isinstance(values, BadCells):
            raise BadColumnError(f"'{values.cells[0][1]}' in column '{self.name}'")
        return [values]


@dataclass(frozen=True)
class DateColumn:
    """A column of dates: days since `origin`, month and weekday, which are scaled like numbers."""

    kind: ClassVar[str] = "date"
    name: str
    origin: str
    order: DateOrder = "auto"

    @property
    def features(self) -> tuple[str, ...]:
        return (f"{self.name} (days)", f"{self.name} (month)", f"{self.name} (weekday)")

    def numbers(self, column: RawColumn) -> list[NDArray[np.float64]]:
        dates = column.values if column.kind == "date" else self._parse(column)
        return date_features(dates, np.datetime64(self.origin, "s"))

    def _parse(self, column: RawColumn) -> NDArray[np.datetime64]:
        try:
            dates = parse_dates(column.factor.texts, self.order)
        except AmbiguousDatesError:
            dates = None
        if dates is None:
            raise BadColumnError(f"a text that is not a date in column '{self.name}'")
        return dates[column.factor.codes]


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: one feature of 0 and 1 per category. An unknown category is all zeros."""

    kind: ClassVar[str] = "category"
    name: str
    categories: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={category}" for category in self.categories)

    def write(self, column: RawColumn, rows: NDArray[np.int64] | slice, out: NDArray[np.float32]) -> None:
        codes = self._places(column)[column.factor.codes[rows]]
        out[:] = 0
        known = np.flatnonzero(codes >= 0)
        out[known, codes[known]] = 1

    def _places(self, column: RawColumn) -> NDArray[np.int64]:
        """Return the place of the category of each distinct text of a column, -1 for an unknown category."""
        places = places_of(column, self.categories)
        if "" in column.factor.texts and MISSING_CATEGORY in self.categories:
            places[column.factor.texts.index("")] = self.categories.index(MISSING_CATEGORY)
        return np.array(places, np.int64)

    def report_unknown(self, column: RawColumn) -> None:
        """Log how many cells have an unknown category."""
        unknown = np.flatnonzero(self._places(column) < 0)
        count = int(np.isin(column.factor.codes, unknown).sum())
        if count:
            shown = listed([column.factor.texts[code] or MISSING_CATEGORY for code in unknown], _SHOWN)
            cells = "1 cell has" if count == 1 else f"{count} cells have"
            _LOG.warning(
                "%s an unknown category in column '%s', so all of its features are 0: %s", cells, self.name, shown
            )


@dataclass(frozen=True)
class _Hashed:
    """A column of texts that are hashed into `width` features."""

    name: str
    width: int

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(f"{self.name}#{place}" for place in range(self.width))


@dataclass(frozen=True)
class HashColumn(_Hashed):
    """A column of many categories: each adds 1 or -1 to one of `width` features; a missing cell is all zeros."""

    kind: ClassVar[str] = "hash"

    def write(self, column: RawColumn, rows: NDArray[np.int64] | slice, out: NDArray[np.float32]) -> None:
        texts, codes = column.factor.texts, column.factor.codes[rows]
        pairs = [place_and_sign(text, self.width) if text else (0, 0) for text in texts]
        places, signs = np.array(pairs, np.int64).reshape(-1, 2).T
        out[:] = 0
        out[np.arange(len(codes)), places[codes]] = signs[codes]


@dataclass(frozen=True)
class TextColumn(_Hashed):
    """A column of texts: its words are hashed into `width` features."""

    kind: ClassVar[str] = "text"

    def write(self, column: RawColumn, rows: NDArray[np.int64] | slice, out: NDArray[np.float32]) -> None:
        texts, codes = column.factor.texts, column.factor.codes[rows]
        progress = Progress(f"hashing the words of {self.name}", len(codes), "rows")
        for begin in range(0, len(codes), _BLOCK):
            progress.step(len(codes[begin : begin + _BLOCK]))
            wanted, places = np.unique(codes[begin : begin + _BLOCK], return_inverse=True)
            hashed = np.stack([hashed_words(texts[code], self.width) for code in wanted])
            out[begin : begin + _BLOCK] = hashed[places.reshape(-1)]


@dataclass(frozen=True)
class WordsColumn:
    """The only column of a table of texts: rows of `length` word numbers, padded at the end."""

    kind: ClassVar[str] = "words"
    name: str
    vocabulary: tuple[str, ...]
    length: int

    def rows(self, column: RawColumn) -> NDArray[np.int32]:
        index = {word: code for code, word in enumerate(self.vocabulary)}
        texts, codes = column.factor.texts, column.factor.codes
        table = np.full((len(texts), self.length), PADDING, np.int32)
        for row, text in zip(table, texts, strict=True):
            numbers = word_row(tokens(text), index, self.length)
            row[: len(numbers)] = numbers
        return table[codes]


NumericColumn = NumberColumn | DateColumn
PlainColumn = CategoryColumn | HashColumn | TextColumn
FeatureColumn = NumericColumn | PlainColumn
_KINDS: Mapping[str, Callable[..., Any]] = {
    c.kind: c for c in (NumberColumn, DateColumn, CategoryColumn, HashColumn, TextColumn, WordsColumn)
}


def _truths(column: RawColumn) -> NDArray[np.float64] | None:
    """Return the texts true and false as 1 and 0, as they are in a typed column; None if there are other texts."""
    values = None if column.kind == "date" else truth_values(column.factor.texts)
    return None if values is None else np.array(values)[column.factor.codes]


def _first_text(column: RawColumn, decimal: str, thousands: str) -> str:
    """Return the first cell that is not a number; a cell that is not a truth value either comes first."""
    for text in sorted(column.factor.texts, key=lambda text: truth_values([text]) is not None):
        if text and not isinstance(RawColumn("text", _one(text)).numbers(decimal, thousands), np.ndarray):
            return text
    return "a date"


def _one(text: str) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array([text], pa.large_string())])


# --- the whole table ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoder:
    """How raw columns become features. `encode` of the training columns returns the training features, bit for bit.

    `scales` has the scale of every numeric feature. With a `group` column, `group_scales` has those of each group, and
    rows of an unknown group are scaled by the pooled `scales`.
    """

    parts: tuple[FeatureColumn | WordsColumn, ...]
    scales: Mapping[str, Scale] = field(default_factory=dict)
    group: str = ""
    group_scales: Mapping[str, Mapping[str, Scale]] = field(default_factory=dict)
    sep: str = "auto"
    encoding: str = "auto"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns that are needed."""
        names = [part.name for part in self.parts]
        return (*names, self.group) if self.group and self.group not in names else tuple(names)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Names of the features; empty for rows of words."""
        return tuple(name for part in self.parts if not isinstance(part, WordsColumn) for name in part.features)

    def encode(self, columns: Mapping[Any, Any], source: str = "the table") -> NDArray[Any]:
        """Return the features of raw columns: arrays, lists or Series of texts, numbers or dates, by name.

        `columns` may be a DataFrame of any library; names that are not texts, such as 3, count as texts. `source` names
        the table in messages.
        """
        keys = {str(key): key for key in getattr(columns, "columns", columns)}
        self.check(keys, source)
        return self._encode({name: raw_column(name, columns[keys[name]]) for name in self.columns}, source)

    def read(self, path: Path) -> NDArray[Any]:
        """Return the features of the rows of a CSV or Parquet file."""
        from silobench.data.table.files import read_columns  # imported here because pyarrow takes a moment

        columns = read_columns(Path(path), self.columns, sep=self.sep, encoding=self.encoding)
        self.check(columns, str(path))
        return self._encode(columns, str(path))

    def check(self, columns: Mapping[str, Any], source: str) -> None:
        """Refuse a table that lacks columns; `source` names it in the message."""
        absent = [name for name in self.columns if name not in columns]
        if absent:
            raise DataError(
                f"{source} has no column {listed(absent)}, which the features are made of: add "
                f"{'it' if len(absent) == 1 else 'them'}."
            )

    def _encode(self, columns: Mapping[str, RawColumn], source: str) -> NDArray[Any]:
        sizes = {len(columns[name]) for name in self.columns}
        if len(sizes) > 1:
            raise DataError(f"{source} has columns of {listed(sorted(map(str, sizes)))} rows: give equally many.")
        if isinstance(self.parts[0], WordsColumn):
            return self.parts[0].rows(columns[self.parts[0].name])
        out = np.empty((sizes.pop(), len(self.features)), np.float32)
        groups = self._groups(columns[self.group]) if self.group else None
        problems = self._write_parts(columns, out, groups)
        if problems:
            raise DataError(
                f"{source} has {listed(problems)}: numbers and dates are needed there, as in the training rows, so "
                "correct them."
            )
        return out

    def _write_parts(
        self, columns: Mapping[str, RawColumn], out: NDArray[np.float32], groups: NDArray[Any] | None
    ) -> list[str]:
        begin, problems = 0, []
        for part in self.parts:
            assert not isinstance(part, WordsColumn)
            target = out[:, begin : begin + len(part.features)]
            begin += len(part.features)
            try:
                if isinstance(part, NumericColumn):
                    for place, values in enumerate(part.numbers(columns[part.name])):
                        feature = part.features[place]
                        by_group = {group: scales[feature] for group, scales in self.group_scales.items()}
                        target[:, place] = apply_scales(values, self.scales[feature], by_group, groups)
                else:
                    part.write(columns[part.name], slice(None), target)
                if isinstance(part, CategoryColumn):
                    part.report_unknown(columns[part.name])
            except BadColumnError as error:
                problems.append(str(error))
        if groups is not None:
            self._report_unknown(groups)
        return problems

    def _groups(self, column: RawColumn) -> NDArray[Any]:
        """Return the group of each row, as the training rows write it."""
        known, factor = list(self.group_scales), column.factor
        places = zip(factor.texts, places_of(column, known), strict=True)
        return np.array([text if place < 0 else known[place] for text, place in places])[factor.codes]

    def _report_unknown(self, groups: NDArray[Any]) -> None:
        unknown = sorted(set(np.unique(groups).tolist()) - set(self.group_scales))
        if unknown:
            _LOG.warning("rows of unknown groups are scaled by the pooled training rows: %s", listed(unknown, _SHOWN))

    # --- JSON ----------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Return the encoder as JSON values; `from_json` returns an equal encoder."""
        return {
            "version": 1,
            "columns": [part_facts(part) for part in self.parts],
            "scales": {name: dataclasses.asdict(scale) for name, scale in self.scales.items()},
            "group": self.group,
            "group_scales": {
                group: {name: dataclasses.asdict(scale) for name, scale in scales.items()}
                for group, scales in self.group_scales.items()
            },
            "sep": self.sep,
            "encoding": self.encoding,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Encoder":
        """Return the encoder of `as_json`; refuse facts that have another form."""
        try:
            if facts["version"] != 1:
                raise ValueError(f"version {facts['version']}")
            return cls(
                tuple(part_of(one) for one in facts["columns"]),
                _scales(facts["scales"]),
                facts["group"],
                {group: _scales(scales) for group, scales in facts["group_scales"].items()},
                facts["sep"],
                facts["encoding"],
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the stored encoder cannot be read ({type(error).__name__}: {error}): use the file that the run wrote."
            ) from error


def part_facts(part: FeatureColumn | WordsColumn) -> dict[str, Any]:
    """Return a column as JSON values, with `thousands` only if numbers have them."""
    facts = {"kind": part.kind, **dataclasses.asdict(part)}
    return {key: value for key, value in facts.items() if key != "thousands" or value}


def part_of(facts: Mapping[str, Any]) -> Any:
    """Return the column of `part_facts`."""
    arguments: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in facts.items()
    }
    return _KINDS[arguments.pop("kind")](**arguments)


def _scales(facts: Mapping[str, Any]) -> dict[str, Scale]:
    return {name: Scale(**scale) for name, scale in facts.items()}


def row_texts(column: RawColumn) -> NDArray[Any]:
    """Return the texts of a column, one per row."""
    return np.array(column.factor.texts)[column.factor.codes]
