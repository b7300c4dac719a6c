"""What the raw columns of a table become, and everything that is wrong with them."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.encoder import (
    MISSING_CATEGORY,
    CategoryColumn,
    DateColumn,
    FeatureColumn,
    HashColumn,
    NumberColumn,
    TextColumn,
)
from silobench.data.table.cells import BadCells, Decimal, RawColumn, release_memory
from silobench.data.table.dates import AmbiguousDatesError, DateOrder, decided_order, parse_dates
from silobench.data.table.progress import Progress
from silobench.data.table.scaling import Scaling
from silobench.data.table.words import tokens
from silobench.errors import DataError, listed

Many: TypeAlias = Literal["auto", "onehot", "hash", "drop"]

_MOST_CATEGORIES = 1000  # more are an error, unless `many` says what to do
_MANY_CATEGORIES = 30  # more may be a mistake, so a note reports them
_MANY_ROWS = 20  # in which texts repeat, unless they are identifiers
_HASH_FEATURES = 32  # of a column with many categories
_EPOCH = "1970-01-01T00:00:00"
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")


@dataclass(frozen=True)
class Choices:
    """What the user chose about the columns of a table; see `csv` for the meaning of each."""

    scale: Scaling = "standard"
    epsilon: float | None = None
    decimal: Decimal = "auto"
    text: tuple[str, ...] = ()
    text_features: int = 64
    dates: tuple[str, ...] = ()  # columns that have dates, beside those that are detected
    detects_dates: Literal["all", "large", "none"] = "all"  # large: among texts that are too many to be one-hot
    date_order: DateOrder = "auto"
    many: Many = "auto"
    drop: tuple[str, ...] = ()
    comma_separates: bool = False  # so a decimal comma is unlikely

    def check(self, source: str, has_groups: bool) -> None:
        """Refuse choices that contradict each other."""
        if self.scale == "group" and not has_groups:
            raise DataError(f"scale=group of {source} needs a group column: name it with group=COLUMN.")
        if self.scale == "private" and self.epsilon is None:
            raise DataError(f"scale=private of {source} needs epsilon, the strength of the noise: write epsilon=1.")
        if self.scale != "private" and self.epsilon is not None:
            raise DataError(
                f"epsilon of {source} is used only by scale=private, but scale={self.scale} was given: leave it out."
            )


@dataclass(frozen=True)
class Problem:
    """What is wrong with a column, and what to do: drop it, read its words, or something else in words."""

    what: str
    remedy: str  # "drop", "text", or a sentence part
    column: str


@dataclass
class Plan:
    """What the columns of a table become. Columns are in a compact form: numbers, dates or codes."""

    parts: list[FeatureColumn] = field(default_factory=list)
    columns: dict[str, RawColumn] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def add(self, part: FeatureColumn, column: RawColumn, note: str = "") -> None:
        self.parts.append(part)
        self.columns[part.name] = column
        if note:
            self.notes.append(note)


# --- what a column becomes ---------------------------------------------------------------------------


def plan_columns(source: str, columns: dict[str, RawColumn], choices: Choices, place: Callable[[int], str]) -> Plan:
    """Decide what each column becomes. `columns` is emptied, so that the memory of raw cells is freed."""
    plan, progress = Plan(), Progress(f"reading {source}", len(columns))
    for name in list(columns):
        _plan_column(plan, name, columns.pop(name), choices, place)
        progress.step()
    release_memory()
    return plan


def _plan_column(plan: Plan, name: str, column: RawColumn, choices: Choices, place: Callable[[int], str]) -> None:
    if name in choices.text:
        plan.add(TextColumn(name, choices.text_features), _compact(column))
    elif name in choices.dates:
        _plan_dates(plan, name, column, choices)
    elif column.kind == "date":
        if np.isnat(column.values).all():
            plan.problems.append(_empty(name))
        else:
            plan.add(_dates_part(name, column, choices), column, _date_note(name, column.values))
    else:
        decimal = "," if choices.decimal == "," else "."
        numbers = column.numbers(decimal)
        if isinstance(numbers, BadCells):
            plan.problems.extend(_bad_cells(name, numbers, place))
        elif numbers is None:
            _plan_texts(plan, name, column, choices)
        else:
            _plan_numbers(plan, name, numbers, decimal, choices)


def _compact(column: RawColumn) -> RawColumn:
    """Return texts as codes, without the cells."""
    return RawColumn("factor", column.factor, column.is_category)


def _empty(name: str) -> Problem:
    return Problem(f"no values in column '{name}'", "drop", name)


def _bad_cells(name: str, bad: BadCells, place: Callable[[int], str]) -> list[Problem]:
    remedy = "numbers must be finite; leave the cell empty if the value is missing"
    return [Problem(f"'{text}' in column '{name}', {place(row)}", remedy, name) for row, text in bad.cells]


def _plan_numbers(plan: Plan, name: str, numbers: NDArray[np.float64], decimal: str, choices: Choices) -> None:
    missing = int(np.isnan(numbers).sum())
    if missing == len(numbers):
        plan.problems.append(_empty(name))
        return
    note = f"{missing} missing values in column '{name}' filled with {_mean_of(choices)}" if missing else ""
    plan.add(NumberColumn(name, decimal), RawColumn("number", numbers), note)


def _mean_of(choices: Choices) -> str:
    if choices.scale == "group":
        return "the training mean of its group"
    return "its private mean" if choices.scale == "private" else "its training mean"


def _plan_dates(plan: Plan, name: str, column: RawColumn, choices: Choices) -> None:
    """Plan a column that the user says has dates."""
    try:
        dates = _as_dates(column, choices.date_order)
    except AmbiguousDatesError:
        plan.problems.append(_ambiguous(name, column))
        return
    if dates is None:
        example = next((text for text in column.factor.texts if text and _not_a_date(text)), "31 April")
        remedy = "write dates as 2024-04-03, or leave the column out of dates"
        plan.problems.append(Problem(f"'{example}' in the column of dates '{name}'", remedy, name))
    elif np.isnat(dates).all():
        plan.problems.append(_empty(name))
    else:
        plan.add(_dates_part(name, column, choices), RawColumn("date", dates), _date_note(name, dates))


def _not_a_date(text: str) -> bool:
    try:
        return parse_dates([text]) is None
    except AmbiguousDatesError:
        return False


def _ambiguous(name: str, column: RawColumn) -> Problem:
    example = next(text for text in column.factor.texts if text)
    remedy = "write date_order=day-first or date_order=month-first"
    return Problem(
        f"dates in column '{name}' such as {example}, which may start with the day or the month", remedy, name
    )


def _as_dates(column: RawColumn, order: DateOrder) -> NDArray[np.datetime64] | None:
    if column.kind == "date":
        values: NDArray[np.datetime64] = column.values
        return values
    dates = parse_dates(column.factor.texts, order)
    return None if dates is None else dates[column.factor.codes]


def _dates_part(name: str, column: RawColumn, choices: Choices) -> DateColumn:
    """Return the part of a column of dates; the first training date replaces its origin later."""
    texts = [] if column.kind == "date" else column.factor.texts
    return DateColumn(name, _EPOCH, decided_order(texts, choices.date_order))


def _date_note(name: str, dates: NDArray[np.datetime64]) -> str:
    missing = int(np.isnat(dates).sum())
    filled = f"; its {missing} missing values are filled with means" if missing else ""
    return f"column '{name}' has dates and became days, month and weekday{filled}"


def _plan_texts(plan: Plan, name: str, column: RawColumn, choices: Choices) -> None:
    """Plan a column of texts that the user said nothing about: dates, decimal commas, or categories."""
    factor = column.factor
    if factor.texts in ([], [""]):
        plan.problems.append(_empty(name))
        return
    is_large = len(factor.texts) > _MOST_CATEGORIES
    if not column.is_category and _plan_commas(plan, name, column, choices, is_large):
        return
    if not column.is_category and choices.detects_dates != "none":
        is_wanted = is_large or choices.detects_dates == "all"
        try:
            dates = _as_dates(column, choices.date_order)
        except AmbiguousDatesError:
            if is_wanted:
                plan.problems.append(_ambiguous(name, column))
                return
            dates = None
        if dates is not None and is_wanted:
            plan.add(_dates_part(name, column, choices), RawColumn("date", dates), _date_note(name, dates))
            return
        if dates is not None:
            plan.notes.append(f"column '{name}' looks like dates: dates={name} reads days, month and weekday from it")
    _plan_categories(plan, name, column, choices)


def _plan_commas(plan: Plan, name: str, column: RawColumn, choices: Choices, is_large: bool) -> bool:
    """Plan a column of numbers with a decimal comma; return whether it was one."""
    texts = [text for text in column.factor.texts if text]
    with_comma = [text for text in texts if "," in text]
    if choices.decimal != "auto" or not with_comma or not all(map(_COMMA_NUMBER.fullmatch, texts)):
        return False
    if choices.comma_separates and not is_large:  # a decimal comma is unlikely there, so a note only suggests it
        plan.notes.append(f"column '{name}' looks like numbers with a decimal comma: decimal=',' reads it so")
        return False
    if choices.comma_separates or all(map(_THOUSANDS.fullmatch, with_comma)):
        remedy = "write decimal=',' if the comma is a decimal comma, else remove it"
        plan.problems.append(Problem(f"numbers with a comma in column '{name}' such as {with_comma[0]}", remedy, name))
        return True
    numbers = column.numbers(",")
    assert isinstance(numbers, np.ndarray)
    plan.notes.append(f"column '{name}' has a decimal comma ({with_comma[0]})")
    _plan_numbers(plan, name, numbers, ",", choices)
    return True


def _plan_categories(plan: Plan, name: str, column: RawColumn, choices: Choices) -> None:
    factor, count = column.factor, len(column.factor.texts)
    if count > _MANY_CATEGORIES and choices.many == "drop":
        plan.notes.append(f"column '{name}' with {count} different texts was left out (many=drop)")
    elif count > _MANY_CATEGORIES and choices.many == "hash":
        note = f"the {count} different texts of column '{name}' were hashed into {_HASH_FEATURES} columns"
        plan.add(HashColumn(name, _HASH_FEATURES), _compact(column), note)
    elif count > _MOST_CATEGORIES and choices.many == "auto":
        plan.problems.append(_too_many(name, column))
    else:
        categories = sorted(text or MISSING_CATEGORY for text in factor.texts)
        note = f"{factor.missing} missing values in column '{name}' became a category" if factor.missing else ""
        example = factor.texts[factor.codes[0]] or MISSING_CATEGORY
        if count == len(column) >= _MANY_ROWS:
            note = (
                f"every row of column '{name}' has another text ('{example}'): it looks like an identifier, which says "
                f"nothing about other rows, but became {count} one-hot columns; drop={name} leaves it out"
            )
        elif count > _MANY_CATEGORIES:
            note = (
                f"column '{name}' is text ('{example}') and became {count} one-hot columns; drop={name} leaves it out"
            )
        plan.add(CategoryColumn(name, tuple(dict.fromkeys(categories))), _compact(column), note)


def _too_many(name: str, column: RawColumn) -> Problem:
    count, rows = len(column.factor.texts), len(column)
    what = f"{count} different texts in column '{name}'"
    words = np.mean([len(tokens(text)) for text in column.factor.texts[:1000]])
    if words >= 3:
        return Problem(f"{what} (it looks like free text)", "text", name)
    if count > rows // 2:
        return Problem(f"{what} (it looks like an identifier)", "drop", name)
    return Problem(what, "many", name)


# --- what is wrong -----------------------------------------------------------------------------------


def refuse(source: str, problems: Sequence[Problem], choices: Choices, write: Callable[[str, Any], str]) -> None:
    """Raise one error that reports all problems of a table, with the arguments to write.

    `write` returns an argument as the user writes it: ``drop=[a, b]`` in a spec, ``drop=["a", "b"]`` in Python.
    """
    if not problems:
        return
    remedies: dict[str, list[str]] = {}
    for problem in problems:
        remedies.setdefault(problem.remedy, []).append(problem.column)
    parts = [_remedy(kind, names, choices, write) for kind, names in remedies.items()]
    what = listed([problem.what for problem in problems], 20)
    raise DataError(f"{source} has {what}: {'; '.join(parts)}.")


def _remedy(kind: str, names: list[str], choices: Choices, write: Callable[[str, Any], str]) -> str:
    if kind == "drop":
        return f"leave {listed(names)} out with {write('drop', (*choices.drop, *names))}"
    if kind == "text":
        return f"read the words of {listed(names)} with {write('text', (*choices.text, *names))}, or drop the column"
    if kind == "many":
        return f"hash the texts of {listed(names)} with {write('many', 'hash')}, or drop the column"
    return kind
