"""What the raw columns of a table become, and everything that is wrong with them."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.encoder import MISSING_CATEGORY, CategoryColumn, DateColumn, HashColumn, NumberColumn, TextColumn
from silobench.data.table.cells import BadCells, RawColumn, release_memory
from silobench.data.table.choices import Choices, Plan, Problem, write_spec
from silobench.data.table.dates import AmbiguousDatesError, DateOrder, decided_order, parse_dates
from silobench.data.table.forms import Form, forms_of, has_digits_only, has_mark, odd_cells, point_thousands, telling
from silobench.data.table.progress import Progress
from silobench.data.table.words import tokens
from silobench.errors import listed

_MOST_CATEGORIES = 1000  # more are an error, unless `many` says what to do
_MANY_CATEGORIES = 30  # more may be a mistake, so a note reports them
_HASH_FEATURES = 32  # of a column with many categories
_EPOCH = "1970-01-01T00:00:00"
_MANY_ROWS = 20  # in which values repeat, unless they are identifiers
_SHOWN = 3  # cells that a note shows
_IDENTIFIERS = {
    "case", "guid", "id", "identifier", "idx", "index", "key", "kennung", "no", "nr", "num", "number", "nummer",
    "patient", "pid", "record", "row", "subject", "uid", "uuid",
}  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


# --- what a column becomes ---------------------------------------------------------------------------


def plan_columns(
    source: str,
    columns: dict[str, RawColumn],
    choices: Choices,
    place: Callable[[int], str],
    write: Callable[[str, Any], str] = write_spec,
    label: tuple[str, RawColumn] | None = None,
) -> Plan:
    """Decide what each column becomes. `columns` is emptied, so that the memory of raw cells is freed."""
    plan, progress = Plan(write), Progress(f"reading {source}", len(columns))
    for name in list(columns):
        _plan_column(plan, name, columns.pop(name), choices, place)
        progress.step()
    release_memory()
    if label and choices.is_csv and label[1].kind == "text":
        _check_label(plan, *label, choices)
    _compare_columns(plan, choices)
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
        _plan_plain(plan, name, column, choices, place)


def _plan_plain(plan: Plan, name: str, column: RawColumn, choices: Choices, place: Callable[[int], str]) -> None:
    """Plan a column of numbers or texts."""
    for form in choices.forms:
        numbers = column.numbers(*form)
        if isinstance(numbers, BadCells):
            plan.problems.extend(_bad_cells(name, numbers, place))
        elif numbers is not None:
            _note_marks(plan, name, column, form, choices)
            _plan_numbers(plan, name, numbers, form, choices)
        else:
            continue
        return
    _plan_texts(plan, name, column, choices)


def _note_marks(plan: Plan, name: str, column: RawColumn, form: Form, choices: Choices) -> None:
    """Remember marks that contradict those of other columns."""
    if form.decimal == "," and has_mark(column, ","):
        plan.commas.append(name)
    elif form == Form(".") and choices.is_csv and choices.decimal == "auto" and not choices.comma_separates:
        cell = point_thousands(column)
        if cell:
            plan.thousands[name] = cell


def _compact(column: RawColumn) -> RawColumn:
    """Return texts as codes, without the cells."""
    return RawColumn("factor", column.factor, column.is_category)


def _empty(name: str) -> Problem:
    return Problem(f"no values in column '{name}'", "drop", name)


def _bad_cells(name: str, bad: BadCells, place: Callable[[int], str]) -> list[Problem]:
    remedy = "numbers must be finite; leave the cell empty if the value is missing"
    return [Problem(f"'{text}' in column '{name}', {place(row)}", remedy, name) for row, text in bad.cells]


def _plan_numbers(plan: Plan, name: str, numbers: NDArray[np.float64], form: Form, choices: Choices) -> None:
    missing = int(np.isnan(numbers).sum())
    if missing == len(numbers):
        plan.problems.append(_empty(name))
        return
    note = f"{missing} missing values in column '{name}' filled with {_mean_of(choices)}" if missing else ""
    if _is_identifier(name) and _all_differ(numbers):
        plan.identifiers[name] = 1
    plan.add(NumberColumn(name, *form), RawColumn("number", numbers), note)


def _is_identifier(name: str) -> bool:
    """Whether the name of a column looks like that of an identifier.

    >>> [_is_identifier(name) for name in ("id", "patientID", "case_nr", "Patient", "idle", "age")]
    [True, True, True, True, False, False]
    """
    return any(word.lower() in _IDENTIFIERS for word in _WORD.findall(name))


def _all_differ(numbers: NDArray[np.float64]) -> bool:
    """Whether all of many numbers are whole and different."""
    return len(numbers) >= _MANY_ROWS and bool((numbers % 1 == 0).all()) and len(np.unique(numbers)) == len(numbers)


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
    """Plan a column of texts that the user said nothing about: numbers with other marks, dates, or categories."""
    texts = [text for text in column.factor.texts if text]
    if not texts:
        plan.problems.append(_empty(name))
    elif column.is_category:
        _plan_categories(plan, name, column, choices)
    elif forms := [form for form in forms_of(texts) if choices.decimal != "." or form.decimal == "."]:
        _plan_forms(plan, name, column, choices, forms)
    elif choices.thousands and has_digits_only(texts) and not _are_dates(texts):
        plan.problems.append(_unfit(name, choices, texts))
    elif not _plan_detected_dates(plan, name, column, choices):
        _plan_mixed(plan, name, column, choices)


def _plan_forms(plan: Plan, name: str, column: RawColumn, choices: Choices, forms: list[Form]) -> None:
    """Plan a column of numbers with other marks than those that were stated; `forms` read them."""
    texts = [text for text in column.factor.texts if text]
    cell, count = telling(texts, forms[-1]), len(column.factor.texts)
    may_be_decimal = Form(",") in forms and not choices.comma_separates
    if choices.thousands:
        plan.problems.append(_unfit(name, choices, texts))
    elif choices.decimal == "," and forms == [Form(".")]:
        plan.points.append(name)
    elif forms == [Form(",")] and may_be_decimal:
        _plan_commas(plan, name, column, choices, cell)
    elif not choices.is_csv or choices.decimal == "," or may_be_decimal or count > _MOST_CATEGORIES:
        remedy = _ways(forms, cell) if choices.is_csv else "convert the column to numbers"
        plan.problems.append(Problem(f"numbers such as {cell} in column '{name}'", remedy, name))
    else:
        ways = _ways(forms, cell)
        note = f"column '{name}' has numbers such as {cell}, which became {count} one-hot columns: {ways}"
        _plan_categories(plan, name, column, choices, note)


def _plan_commas(plan: Plan, name: str, column: RawColumn, choices: Choices, cell: str) -> None:
    numbers = column.numbers(",")
    assert isinstance(numbers, np.ndarray)
    plan.commas.append(name)
    plan.notes.append(f"column '{name}' has a decimal comma ({cell})")
    _plan_numbers(plan, name, numbers, Form(","), choices)


def _ways(forms: Sequence[Form], cell: str) -> str:
    """Return what to write for each form that reads a cell, and what it reads."""
    return " and ".join(f"{_written(form)} reads {form.number(cell)}" for form in forms)


def _written(form: Form) -> str:
    """Return the arguments of a form; the quotation marks are the same in a spec and in Python."""
    decimal = ["decimal=','"] if form.decimal == "," else []
    thousands = [f"thousands='{form.thousands}'"] if form.thousands else []
    return ", ".join([*decimal, *thousands]) or "leaving decimal out"


def _unfit(name: str, choices: Choices, texts: Sequence[str]) -> Problem:
    """Return the problem of a cell that does not fit the marks that were stated."""
    form = choices.forms[0]
    cell = next(text for text in texts if not form.reads(text))
    remedy = (
        f"thousands='{form.thousands}' needs groups of three digits and a decimal '{form.decimal}', so correct such "
        "cells, or leave thousands out"
    )
    return Problem(f"'{cell}' in column '{name}'", remedy, name)


def _are_dates(texts: Sequence[str]) -> bool:
    try:
        return parse_dates(texts) is not None
    except AmbiguousDatesError:
        return True


def _plan_detected_dates(plan: Plan, name: str, column: RawColumn, choices: Choices) -> bool:
    """Plan a column of dates that are detected; return whether it was one. A note reports dates that stay one-hot."""
    if choices.detects_dates == "none":
        return False
    is_wanted = choices.detects_dates == "all" or len(column.factor.texts) > _MOST_CATEGORIES
    order = ""
    try:
        dates = _as_dates(column, choices.date_order)
    except AmbiguousDatesError:
        if is_wanted:
            plan.problems.append(_ambiguous(name, column))
            return True
        dates, order = None, f", {plan.write('date_order', 'day-first')} (or month-first)"
    if dates is not None and is_wanted:
        plan.add(_dates_part(name, column, choices), RawColumn("date", dates), _date_note(name, dates))
        return True
    if dates is not None or order:
        written = plan.write("dates", (*choices.dates, name)) + order
        plan.notes.append(f"column '{name}' looks like dates: {written} reads days, month and weekday from it")
    return False


def _plan_mixed(plan: Plan, name: str, column: RawColumn, choices: Choices) -> None:
    """Plan a column of texts; most of them may be numbers."""
    odd = odd_cells(column.factor, choices.forms if choices.comma_separates else (*choices.forms, Form(",")))
    count = len(column.factor.texts)
    if odd is None:
        _plan_categories(plan, name, column, choices)
        return
    cells = listed([f"'{text}'" for text in odd.texts], _SHOWN)
    if choices.many == "auto" and (count > _MOST_CATEGORIES or _is_refused(column, choices)):
        what = f"numbers in {odd.share} of the known cells of column '{name}', but also {cells}"
        plan.problems.append(Problem(what, "leave cells without a number empty", name))
        return
    note = (
        f"{odd.share} of the known cells of column '{name}' are numbers, but {cells} made {count} one-hot columns of "
        "it: leave such cells empty"
    )
    _plan_categories(plan, name, column, choices, note)


def _plan_categories(plan: Plan, name: str, column: RawColumn, choices: Choices, cause: str = "") -> None:
    """Plan a column of categories; `cause` is a note on why it is one."""
    factor, count = column.factor, len(column.factor.texts)
    if count > _MANY_CATEGORIES and choices.many == "drop":
        plan.notes.append(f"column '{name}' with {count} different texts was left out (many=drop)")
    elif count > _MANY_CATEGORIES and choices.many == "hash":
        note = f"the {count} different texts of column '{name}' were hashed into {_HASH_FEATURES} columns"
        plan.add(HashColumn(name, _HASH_FEATURES), _compact(column), note)
    elif choices.many == "auto" and (count > _MOST_CATEGORIES or _is_refused(column, choices)):
        plan.problems.append(_too_many(name, column))
    else:
        categories = sorted(text or MISSING_CATEGORY for text in factor.texts)
        note = cause or _categories_note(plan, name, column, choices)
        plan.add(CategoryColumn(name, tuple(dict.fromkeys(categories))), _compact(column), note)


def _is_refused(column: RawColumn, choices: Choices) -> bool:
    """Whether texts are refused because every row has another one; in a CSV file, a note reports them."""
    return not choices.is_csv and not column.is_category and _has_unique_texts(column)


def _has_unique_texts(column: RawColumn) -> bool:
    return len(column.factor.texts) == len(column) >= _MANY_ROWS


def _categories_note(plan: Plan, name: str, column: RawColumn, choices: Choices) -> str:
    factor, count = column.factor, len(column.factor.texts)
    if _has_unique_texts(column):
        plan.identifiers[name] = count
        return ""
    if count > _MANY_CATEGORIES:
        example, drop = factor.texts[factor.codes[0]] or MISSING_CATEGORY, plan.write("drop", (*choices.drop, name))
        return f"column '{name}' is text ('{example}') and became {count} one-hot columns; {drop} leaves it out"
    return f"{factor.missing} missing values in column '{name}' became a category" if factor.missing else ""


def _too_many(name: str, column: RawColumn) -> Problem:
    count, rows = len(column.factor.texts), len(column)
    what = f"{count} different texts in column '{name}'"
    words = np.mean([len(tokens(text)) for text in column.factor.texts[:1000]])
    if words >= 3:
        return Problem(f"{what} (it looks like free text)", "text", name)
    if count > rows // 2:
        return Problem(f"{what} (it looks like an identifier)", "drop", name)
    return Problem(what, "many", name)


def _check_label(plan: Plan, name: str, column: RawColumn, choices: Choices) -> None:
    """Report numeric labels with other marks than those that were stated."""
    form = next((form for form in choices.forms if isinstance(column.numbers(*form), np.ndarray)), None)
    if form is not None:
        _note_marks(plan, name, column, form, choices)
        return
    texts = [text for text in column.factor.texts if text]
    forms = forms_of(texts) if len(texts) > len(column) // 2 and len(column) >= _MANY_ROWS else []
    if forms == [Form(",")] and choices.decimal == "auto" and not choices.comma_separates:
        plan.commas.append(name)
    elif forms and forms != [Form(".")]:
        cell = telling(texts, forms[-1])
        plan.problems.append(Problem(f"numbers such as {cell} in the label '{name}'", _ways(forms, cell), name))


def _compare_columns(plan: Plan, choices: Choices) -> None:
    """Report columns that contradict each other, and those that look like identifiers."""
    if plan.points:
        commas = f"decimal commas in {listed(plan.commas)}" if plan.commas else "no decimal comma in any column"
        what = f"decimal points in {listed(plan.points)}, but {commas}"
        plan.problems.append(Problem(what, "leave decimal=',' out", plan.points[0]))
    for name, cell in plan.thousands.items() if plan.commas else ():
        plan.notes.append(
            f"column '{name}' has numbers such as {cell}, which were read as {Form().number(cell)}, but column "
            f"'{plan.commas[0]}' has a decimal comma: if the point separates thousands, "
            f"thousands='.' reads {Form(',', '.').number(cell)}"
        )
    if plan.identifiers:
        plan.notes.append(_identifiers_note(plan, choices))


def _identifiers_note(plan: Plan, choices: Choices) -> str:
    names, count = list(plan.identifiers), sum(plan.identifiers.values())
    named, is_one = listed([f"'{name}'" for name in names]), len(names) == 1
    subject = f"column {named} looks like an identifier" if is_one else f"columns {named} look like identifiers"
    features = "1 feature" if count == 1 else f"{count} features"
    return (
        f"{subject}: all values differ, so they say nothing about other rows, but they became {features}; "
        f"{plan.write('drop', (*choices.drop, *names))} leaves {'it' if is_one else 'them'} out"
    )
