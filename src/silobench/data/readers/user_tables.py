"""The user's own tables: CSV and Parquet files. Errors name the file, and everything that is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from pydantic import BeforeValidator

from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.checks import file_path
from silobench.data.readers.targets import LabelTask, Targets, targets_of
from silobench.data.table.build import build
from silobench.data.table.cells import Decimal, RawColumn, Thousands, plain_number
from silobench.data.table.choices import Choices, Many, Plan, Problem, refuse, write_spec
from silobench.data.table.dates import DateOrder
from silobench.data.table.files import SEPARATORS, Table, read_csv, read_parquet
from silobench.data.table.forms import Form
from silobench.data.table.plan import plan_columns
from silobench.data.table.scaling import Scaling
from silobench.errors import DataError, listed, suggest

Names: TypeAlias = str | tuple[str, ...]
Dates = Annotated[Names | None, BeforeValidator(lambda value: None if value == "none" else value)]
TestShare = Annotated[float, Gt(0), Lt(1)]
Epsilon = Annotated[float, Gt(0)]
TextFeatures = Annotated[int, Ge(2), Le(100_000)]
_SEPARATOR_NAMES = {name: mark for mark, name in SEPARATORS.items()} | {"pipe": "|", "\\t": "\t"}


def csv(
    path: str,
    label: str,
    group: Names = (),
    drop: Names = (),
    test: TestShare = 0.2,
    scale: Scaling = "standard",
    task: LabelTask = "auto",
    unit: str = "",
    sep: str = "auto",
    encoding: str = "auto",
    decimal: Decimal = "auto",
    text: Names = (),
    text_features: TextFeatures = 64,
    dates: Dates = "auto",
    date_order: DateOrder = "auto",
    many: Many = "auto",
    epsilon: Epsilon | None = None,
    thousands: Thousands = "",
) -> Dataset:
    """A CSV table with a header: numeric columns are scaled, text columns become one-hot, `label` is the class.

    An empty cell, ? or NA is missing: a number is filled with the training mean of its column, a text gets an extra
    category, and a note reports how many. `group` names the columns that identify silos (hospital, region); they and
    the `drop` columns are not features. The share `test` of the rows is held out, stratified by class.

    A label with many different numbers is predicted as a number (regression), and a note reports it; `task` states
    classification or regression, and `unit` is the unit of a number, such as years.

    `sep` is the separator (comma, semicolon, tab or bar; found by the header), `encoding` that of the text (UTF-8),
    `decimal` the decimal mark, and `thousands` the mark between groups of three digits ('.', ',' or ' '). `text` names
    columns of free text: their words are hashed into `text_features` columns; a table with only such a column gets rows
    of word numbers. `dates` names columns of dates, which become days, month and weekday; `date_order` is day-first or
    month-first. `many` says what becomes of a column with more than 30 categories: onehot, hash or drop. `scale` is
    standard (pooled statistics), group (those of each group), private (with noise by `epsilon`) or none.
    """
    names = {"label": label, "group": group, "drop": drop, "text": text, "dates": dates}
    choices = Choices(
        scale, epsilon, decimal, text_features=text_features, detects_dates="large", date_order=date_order, many=many,
        thousands=thousands, is_csv=True,
    )  # fmt: skip
    mark = separator_of(path, sep)
    table = read_csv(file_path(path), [label], sep=mark, encoding=encoding)
    choices = replace(choices, comma_separates=table.sep == ",")
    source = Source(path, Path(path).stem, write_spec, _as_classes("csv", path, label))
    dataset = table_dataset(source, table, names, choices, task, unit, lambda whole: hold_out(whole, test))
    assert dataset.encoder is not None
    return replace(dataset, encoder=replace(dataset.encoder, encoding=encoding, sep=mark))


def parquet(
    path: str,
    label: str,
    group: Names = (),
    drop: Names = (),
    test: TestShare = 0.2,
    scale: Scaling = "standard",
    task: LabelTask = "auto",
    unit: str = "",
    text: Names = (),
    text_features: TextFeatures = 64,
    dates: Dates = "auto",
    date_order: DateOrder = "auto",
    many: Many = "auto",
    epsilon: Epsilon | None = None,
) -> Dataset:
    """A Parquet table: numeric and date columns are scaled, texts and categories become one-hot, `label` is the class.

    The arguments are those of `csv`. Dates in texts are detected; `dates=none` makes them categories.
    """
    names = {"label": label, "group": group, "drop": drop, "text": text, "dates": dates}
    choices = Choices(scale, epsilon, text_features=text_features, date_order=date_order, many=many)
    source = Source(path, Path(path).stem, write_spec, _as_classes("parquet", path, label))
    table = read_parquet(file_path(path), drop=as_names(drop))
    return table_dataset(source, table, names, choices, task, unit, lambda whole: hold_out(whole, test))


def _as_classes(name: str, path: str, label: str) -> str:
    """Return the spec that makes a numeric label a class."""
    return f"{name}({write_spec('path', path)}, {write_spec('label', label)}, task=classification)"


def separator_of(path: str, sep: str) -> str:
    """Return the mark of a separator that is given by its name or as the mark; auto stays."""
    mark = _SEPARATOR_NAMES.get(sep, sep)
    if mark != "auto" and (len(mark) != 1 or mark in '"\r\n' or not mark.isascii()):
        raise DataError(f"sep='{sep}' of {path} is not a separator: use one character, or comma, semicolon, tab, bar.")
    return mark


def as_names(names: Names | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several names as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


# --- any table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where a table comes from: how messages call it and write its arguments, and the name of the dataset."""

    title: str
    name: str
    write: Callable[[str, Any], str]
    remedy: str  # what makes a numeric label a class


@dataclass(frozen=True)
class Roles:
    """The names of columns by what they are for."""

    label: str
    group: tuple[str, ...]
    drop: tuple[str, ...]
    text: tuple[str, ...]
    dates: tuple[str, ...]


def table_dataset(
    source: Source,
    table: Table,
    names: Mapping[str, Names | None],
    choices: Choices,
    task: LabelTask,
    unit: str,
    split: Callable[[Split], tuple[Split, Split]],
) -> Dataset:
    """Return the dataset of a table. `names` has the columns for label, group, drop, text and dates."""
    planned = plan_table(source, table, names, choices)
    roles, groups, choices = planned.roles, planned.groups, planned.choices
    labels = label_targets(source, roles.label, planned.label, task, choices)
    ids = {name: group_ids(column) for name, column in groups.items()}
    train, held = split(Split(np.arange(len(labels.y)), labels.y, ids))
    first = next(iter(groups.items()), None)
    built = build(planned.plan, train.x, held.x, choices, first, source.title)
    return Dataset(
        source.name,
        replace(train, x=built.train),
        replace(held, x=built.test),
        labels.classes,
        notes=(*labels.notes, *planned.notes, *built.notes),
        defaults={"model": "bag"} if built.vocabulary else {},
        task=labels.task,
        columns=built.encoder.features,
        vocabulary=built.vocabulary,
        target=roles.label,
        unit=unit,
        encoder=built.encoder,
    )


@dataclass(frozen=True)
class PlannedTable:
    """The columns of a table by role, and what each column for features becomes."""

    roles: Roles
    label: RawColumn
    groups: dict[str, RawColumn]
    plan: Plan
    choices: Choices
    notes: tuple[str, ...]


def plan_table(source: Source, table: Table, names: Mapping[str, Names | None], choices: Choices) -> PlannedTable:
    """Return what the columns of a table become; refuse a table with wrong columns. Raw columns are freed."""
    roles = _roles(source, table, names)
    detects = "none" if names.get("dates") is None else choices.detects_dates
    choices = replace(choices, text=roles.text, dates=roles.dates, drop=roles.drop, detects_dates=detects)
    choices.check(source.title, bool(roles.group))
    columns, notes = _feature_columns(source, table, roles)
    label, groups = table.columns[roles.label], {name: table.columns[name] for name in roles.group}
    problems = _empty_cells(roles, label, groups, table.place)
    table.columns.clear()  # frees the memory of each column once it is planned
    plan = plan_columns(source.title, columns, choices, table.place, source.write, (roles.label, label))
    refuse(source.title, [*problems, *plan.problems], choices, source.write)
    return PlannedTable(roles, label, groups, plan, choices, notes)


def _feature_columns(source: Source, table: Table, roles: Roles) -> tuple[dict[str, RawColumn], tuple[str, ...]]:
    """Return the columns for features, and notes about the table."""
    others = {roles.label, *roles.group, *roles.drop, ""}
    columns = {name: column for name, column in table.columns.items() if name not in others}
    if not columns:
        raise DataError(
            f"{source.title} has no columns for features, only {', '.join(table.columns)}: add a column, or drop fewer "
            "of them."
        )
    unnamed = ("the column without a name (a saved index) was left out",) if "" in table.columns else ()
    return columns, (*table.notes, *unnamed)


def _roles(source: Source, table: Table, names: Mapping[str, Names | None]) -> Roles:
    """Return the columns by role; refuse names that are no columns, and a label that has another role."""
    known = table.columns

    def columns_of(role: str) -> tuple[str, ...]:
        value = names.get(role) or ()
        if not isinstance(value, str):
            return tuple(value)
        parts = tuple(part.strip() for part in value.split(","))
        return parts if value not in known and len(parts) > 1 else (value,)

    label = str(names["label"])
    dates = () if names.get("dates") == "auto" else columns_of("dates")
    roles = Roles(label, columns_of("group"), columns_of("drop"), columns_of("text"), dates)
    wanted = (label, *roles.group, *roles.drop, *roles.text, *dates)
    unknown = list(dict.fromkeys(name for name in wanted if name not in known))
    if unknown:
        named = listed([f"'{name}'" for name in unknown])
        hint = suggest(unknown[0], known) if len(unknown) == 1 else f"choose from {', '.join(known)}."
        raise DataError(f"{source.title} has no column {named}: {hint}")
    check_roles(source.title, label, roles.group, {name: getattr(roles, name) for name in ("drop", "text", "dates")})
    return roles


def check_roles(title: str, label: str, group: tuple[str, ...], others: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a label that has another role, and a group that is dropped."""
    for role, names in {"group": group, **others}.items():
        if label in names:
            raise DataError(
                f"{title} has '{label}' as the label and as {role}: a column has one role, so leave it out of {role}."
            )
    for name in group:
        if name in others["drop"]:
            raise DataError(
                f"{title} has '{name}' as group and as drop: a column has one role, and a group is not a feature, so "
                "leave it out of drop."
            )


def _empty_cells(
    roles: Roles, label: RawColumn, groups: Mapping[str, RawColumn], place: Callable[[int], str]
) -> list[Problem]:
    """Return problems for rows without a label or a group."""
    kinds = [("label", roles.label, label), *(("group", name, column) for name, column in groups.items())]
    remedy = "fill in or remove them"
    missing = [(column.factor.missing_rows(f"the {kind} column '{name}'", place), name) for kind, name, column in kinds]
    return [Problem(what, remedy, name) for what, name in missing if what]


def group_ids(column: RawColumn) -> NDArray[Any]:
    """Return the group of each row: whole numbers if the type of the column is whole numbers, else texts."""
    if column.kind == "number" and not column.is_category and _are_whole(column.values):
        numbers: NDArray[Any] = column.values.astype(np.int64)
        return numbers
    return np.array(column.factor.texts)[column.factor.codes]


def _are_whole(numbers: NDArray[np.float64]) -> bool:
    """Whether all numbers are whole, and an int64 can hold them."""
    return bool(((numbers == np.round(numbers)) & (np.abs(numbers) < 2.0**63)).all())


def label_targets(source: Source, name: str, column: RawColumn, task: LabelTask, choices: Choices) -> Targets:
    """Return the labels of a column: classes or numbers."""
    factor = column.factor
    texts = factor.texts
    form = label_form(column, choices)
    if form is not None:
        texts = [plain_number(text, *form) for text in texts]
    values: NDArray[Any] = np.array(texts)
    if column.kind == "number" and not column.is_category:
        numbers = np.array([float(text) for text in texts])
        values = numbers.astype(np.int64) if _are_whole(numbers) else numbers
    values, places = np.unique(values, return_inverse=True)
    codes = places.reshape(-1)[factor.codes]
    return targets_of(source.title, f"the label {name}", values, codes, task, source.remedy)


def label_form(column: RawColumn, choices: Choices) -> Form | None:
    """Return the form of numeric labels with a decimal comma or with thousands; None for other labels."""
    may_have_comma = choices.decimal == "auto" and not choices.comma_separates and not choices.thousands
    forms = (*choices.forms, Form(",")) if may_have_comma else choices.forms
    if column.kind != "text":
        return None
    return next((form for form in forms if form != Form() and isinstance(column.numbers(*form), np.ndarray)), None)
