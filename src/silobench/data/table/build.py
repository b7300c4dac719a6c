"""Features from the raw columns of a table, as planned, with scales that are learnt from the training rows."""

from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.encoder import DateColumn, Encoder, NumberColumn, TextColumn, WordsColumn, row_texts
from silobench.data.table.cells import RawColumn
from silobench.data.table.choices import Choices, Plan
from silobench.data.table.progress import Progress
from silobench.data.table.scaling import (
    NoBoundsError,
    Scale,
    apply_scales,
    group_scales,
    pooled_scale,
    private_rows,
    private_scale,
)
from silobench.data.table.words import most_frequent
from silobench.errors import DataError, listed
from silobench.rng import stream

Rows: TypeAlias = NDArray[np.int64]

POOLED_NOTE = (
    "numeric columns standardised by the pooled training rows, so every party learns the mean and deviation of all"
)
PRIVATE_NOTE = (
    "the noise would protect one row of one party if it were secret, but it comes from a public seed, so that runs "
    "repeat; the mean of a numeric target and the counts of missing cells have no noise"
)
_VOCABULARY, _LENGTH = 10_000, 200  # of rows of word numbers


@dataclass(frozen=True)
class Built:
    """Features of the training and of the test rows, and how they were made."""

    train: NDArray[Any]
    test: NDArray[Any]
    encoder: Encoder
    notes: tuple[str, ...]
    vocabulary: tuple[str, ...] = ()


def build(
    plan: Plan, train: Rows, test: Rows, choices: Choices, group: tuple[str, RawColumn] | None, source: str
) -> Built:
    """Return the features of training and test rows by a plan, which is emptied.

    Everything is learnt from the training rows, but the categories of a column are those of all rows.
    """
    if len(plan.parts) == 1 and isinstance(plan.parts[0], TextColumn):
        return _build_words(plan, train, test)
    width = sum(len(part.features) for part in plan.parts)
    scaled = sum(len(part.features) for part in plan.parts if isinstance(part, NumberColumn | DateColumn))
    sides = [(rows, _room(source, len(rows), width)) for rows in (train, test)]
    groups = row_texts(group[1]) if group and choices.scale == "group" else None
    scaler = _Scaler(choices, train, groups, width == 1, scaled)
    parts, begin, progress = [], 0, Progress(f"encoding {source}", len(plan.parts))
    for part in plan.parts:
        column, end = plan.columns.pop(part.name), begin + len(part.features)
        if isinstance(part, DateColumn):
            part = _with_origin(part, column, train, choices)
        parts.append(part)
        if isinstance(part, NumberColumn | DateColumn):
            for place, values in enumerate(part.numbers(column)):
                scaler.learn(part.features[place], values)
                for rows, x in sides:
                    x[:, begin + place] = scaler.features(part.features[place], values, rows)
        else:
            for rows, x in sides:
                part.write(column, rows, x[:, begin:end])
        begin = end
        progress.step()
    scaler.check(source)
    name = group[0] if group and groups is not None else ""
    encoder = Encoder(tuple(parts), scaler.pooled, name, scaler.by_group)
    return Built(sides[0][1], sides[1][1], encoder, (*plan.notes, *scaler.notes(test)))


def _room(source: str, rows: int, width: int) -> NDArray[np.float32]:
    try:
        return np.empty((rows, width), np.float32)
    except MemoryError as error:
        raise DataError(
            f"{source} would become {width} features of {rows} rows, which this machine has too little memory for: "
            "drop columns, or hash their texts with many=hash."
        ) from error


def _with_origin(part: DateColumn, column: RawColumn, train: Rows, choices: Choices) -> DateColumn:
    """Count days from the first training date; private scaling counts from 1970, because that date is private."""
    known = column.values[train]
    known = known[~np.isnat(known)]
    if choices.scale == "private" or not len(known):
        return part
    return replace(part, origin=str(known.min()))


@dataclass
class _Scaler:
    """Learns the scales of numeric features from training rows."""

    choices: Choices
    train: Rows
    groups: NDArray[Any] | None  # group of every row, if groups have own scales
    is_only_feature: bool
    count: int  # numeric features, which share epsilon
    pooled: dict[str, Scale] = field(default_factory=dict)
    by_group: dict[str, dict[str, Scale]] = field(default_factory=dict)
    without_values: list[str] = field(default_factory=list)  # features of groups that have only missing cells there
    unbounded: list[str] = field(default_factory=list)  # features with too few rows for a private scale
    too_large: list[str] = field(default_factory=list)  # features whose sums of squares are infinite

    def __post_init__(self) -> None:
        self.rng = stream(0, "private-scale")

    def learn(self, feature: str, values: NDArray[np.float64]) -> None:
        known = values[self.train]
        if self.choices.scale == "private":
            assert self.choices.epsilon is not None
            try:
                self.pooled[feature] = private_scale(known, self.choices.epsilon / self.count, self.rng)
            except NoBoundsError:
                self.pooled[feature] = Scale(0.0)
                self.unbounded.append(feature)
            return
        self.pooled[feature] = pooled_scale(known, self.is_only_feature, self.choices.scale != "none")
        if not self.pooled[feature].is_finite:
            self.too_large.append(feature)
        elif self.groups is not None:
            scales = group_scales(known, self.groups[self.train], self.pooled[feature])
            for group, scale in scales.items():
                if scale is self.pooled[feature]:
                    self.without_values.append(f"{feature} of {group}")
                self.by_group.setdefault(group, {})[feature] = scale

    def check(self, source: str) -> None:
        """Refuse numbers without a scale, and private scales that would be only noise."""
        if self.too_large:
            raise DataError(
                f"{source} has numbers in {listed(self.too_large, 3)} that are too large to add up: correct them, or "
                "drop the column."
            )
        if not self.unbounded:
            return
        assert self.choices.epsilon is not None
        rows, epsilon = len(self.train), self.choices.epsilon
        factor = max(2.0, private_rows(epsilon / self.count) / rows)
        raise DataError(
            f"{source} has {rows} training rows, too few for scale=private with epsilon={epsilon:g} over {self.count} "
            f"numeric columns, because the statistics of {listed(self.unbounded, 3)} would be only noise: write "
            f"epsilon={_rounded_up(factor * epsilon)}, give about {_rounded_up(factor * rows)} training rows, or drop "
            "columns."
        )

    def features(self, feature: str, values: NDArray[np.float64], rows: Rows) -> NDArray[np.float32]:
        by_group = {group: scales[feature] for group, scales in self.by_group.items() if feature in scales}
        groups = None if self.groups is None else self.groups[rows]
        return apply_scales(values[rows], self.pooled[feature], by_group, groups)

    def notes(self, test: Rows) -> list[str]:
        if not self.count or self.choices.scale == "none":
            return []
        if self.choices.scale == "private":
            return [
                f"numeric columns scaled by statistics of the pooled training rows, with noise of epsilon="
                f"{self.choices.epsilon:g} in total over {self.count} columns",
                PRIVATE_NOTE,
            ]
        if self.groups is None:
            return [POOLED_NOTE]
        notes = ["numeric columns standardised by the training rows of each group"]
        unknown = sorted(set(np.unique(self.groups[test]).tolist()) - set(self.by_group))
        if self.without_values:
            columns = listed(self.without_values, 3)
            notes.append(f"columns with only missing values in a group are scaled by the pooled rows: {columns}")
        if unknown:
            groups = listed(unknown, 3)
            notes.append(f"test rows of groups without training rows are scaled by the pooled rows: {groups}")
        return notes


def _rounded_up(number: float) -> str:
    """Return a number with two significant digits, rounded up.

    >>> _rounded_up(24.2), _rounded_up(11290.5), _rounded_up(0.031)
    ('25', '12000', '0.031')
    """
    digits = Decimal(number).adjusted() - 1
    return f"{Decimal(number).quantize(Decimal((0, (1,), digits)), ROUND_CEILING).normalize():f}"


def _build_words(plan: Plan, train: Rows, test: Rows) -> Built:
    """Return rows of word numbers for a table with one column of texts."""
    [part] = plan.parts
    column = plan.columns.pop(part.name)
    factor = column.factor
    words = tuple(most_frequent((factor.texts[code] for code in factor.codes[train]), _VOCABULARY))
    encoder = Encoder((WordsColumn(part.name, words, _LENGTH),))
    note = (
        f"the words of column '{part.name}' are numbers in rows of {_LENGTH}, for the model bag; the vocabulary has "
        f"the {len(words)} most frequent words of the pooled training rows"
    )
    rows = encoder.encode({part.name: column})
    return Built(rows[train], rows[test], encoder, (*plan.notes, note), words)
