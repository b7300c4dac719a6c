"""The form of columns.toml: which keys it has, what their values may be, and sentences about wrong ones."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Gt, Lt, MinLen
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from silobench.data.encoder import part_of
from silobench.data.readers.image_files import Colour, Size
from silobench.data.readers.user_tables import TextFeatures
from silobench.data.table.cells import MISSING, Thousands
from silobench.data.table.dates import DateOrder
from silobench.errors import DataError, listed, suggest, value_shown
from silobench.spec.registry import IN_WORDS

Name = Annotated[str, MinLen(1)]
_MOST_FEATURES = 1_000_000
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}([T ][0-9]{2}(:[0-9]{2}){0,2}(\.[0-9]+)?)?")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Number(_Strict):
    kind: Literal["number"]
    name: Name
    decimal: Literal[".", ","] = "."
    thousands: Thousands = ""


class _Date(_Strict):
    kind: Literal["date"]
    name: Name
    origin: str = "1970-01-01T00:00:00"
    order: DateOrder = "auto"


class _Category(_Strict):
    kind: Literal["category"]
    name: Name
    categories: Annotated[list[Name], MinLen(1)]


class _Hashed(_Strict):
    kind: Literal["hash", "text"]
    name: Name
    width: TextFeatures


class _Label(_Strict):
    name: Name
    task: Literal["classification", "regression"]
    classes: list[Name] = []
    unit: str = ""
    decimal: Literal[".", ","] = "."
    thousands: Thousands = ""


class _Stated(_Strict):
    mean: FiniteFloat
    deviation: Annotated[FiniteFloat, Gt(0)]


Column = Annotated[_Number | _Date | _Category | _Hashed, Field(discriminator="kind")]


class AgreedFile(_Strict):
    """The content of columns.toml."""

    version: Literal[1]
    kind: Literal["table", "images"]
    label: _Label
    test: Annotated[float, Gt(0), Lt(1)] = 0.2
    scale: Literal["standard", "stated", "none"] = "standard"
    size: Size = 32
    colour: Colour = "rgb"
    column: list[Column] = []
    scales: dict[str, _Stated] = {}


def read_form(facts: Mapping[str, Any], source: str) -> AgreedFile:
    """Return the values of a file; refuse wrong ones with a sentence that names the key. `source` names the file."""
    try:
        form = AgreedFile.model_validate(facts)
    except ValidationError as error:
        raise DataError(f"{source} has {_problem(error, facts)}.") from error
    for problem in _contradictions(form, facts):
        raise DataError(f"{source} has {problem}.")
    return form


def _problem(error: ValidationError, facts: Mapping[str, Any]) -> str:
    """Return the first problem, as the rest of a sentence."""
    first = error.errors()[0]
    *outer, last = [place for place in first["loc"] if place not in ("number", "date", "category", "hash", "text")]
    where = _where(outer, facts)
    if first["type"] == "missing":
        return f"no key '{last}'{where}: add it"
    if first["type"] == "extra_forbidden":
        return f"an unknown key '{last}'{where}: remove it, or correct its name"
    if first["type"].startswith("union_tag"):
        where = _where([*outer, last], facts)
        return f"no known kind{where}: write kind = 'number', 'date', 'category', 'hash' or 'text'"
    problem = first["msg"].removeprefix("Input should be ")
    key = f"entry {last + 1} of '{outer[-1]}'" if isinstance(last, int) else f"'{last}'"
    where = _where(outer[:-1], facts) if isinstance(last, int) else where
    return f"{value_shown(first['input'])} as {key}{where}: it must be {IN_WORDS.get(problem, problem)}"


def _where(outer: Iterable[Any], facts: Any) -> str:
    """Return where a key is, such as: in column 'age'."""
    places = list(outer)
    if not places:
        return ""
    if places[0] == "column" and len(places) > 1:
        columns = facts["column"]
        name = columns[places[1]].get("name") if isinstance(columns[places[1]], dict) else None
        return f" in column '{name}'" if name and isinstance(name, str) else f" in column {places[1] + 1}"
    return f" in [{'.'.join(map(str, places))}]"


def _contradictions(form: AgreedFile, facts: Mapping[str, Any]) -> Iterable[str]:
    """Yield what contradicts itself, as the rest of a sentence."""
    yield from _label_problems(form.label)
    if form.kind == "images":
        unused = [key for key in ("column", "scale", "scales") if key in facts]
        if unused:
            yield f"the key '{unused[0]}', which pictures do not have: remove it"
        return
    unused = [key for key in ("size", "colour") if key in facts]
    if unused:
        yield f"the key '{unused[0]}', which only pictures have: remove it"
    if not form.column:
        yield "no columns: add a [[column]] for each feature"
    yield from _text_problems(form)
    yield from _column_problems(form)
    yield from _scale_problems(form)


def _label_problems(label: _Label) -> Iterable[str]:
    if label.task == "classification" and len(set(label.classes)) < max(2, len(label.classes)):
        yield f"the classes {label.classes} of the label '{label.name}': list at least two, each once"
    if label.task == "classification" and (label.unit or label.decimal != "." or label.thousands):
        yield f"a unit or marks of numbers for the classes of the label '{label.name}': remove them"
    if label.decimal == label.thousands:
        yield f"'{label.decimal}' for decimals and for thousands of the label '{label.name}': correct one of them"
    if label.task == "regression" and label.classes:
        yield f"classes for the label '{label.name}', which is a number: remove them, or write task = 'classification'"


def _text_problems(form: AgreedFile) -> Iterable[str]:
    """Yield classes and categories that no cell of a table can have."""
    texts = [(text, f"the class '{text}' of the label '{form.label.name}'") for text in form.label.classes]
    for column in form.column:
        if isinstance(column, _Category):
            texts += [(text, f"the category '{text}' of column '{column.name}'") for text in column.categories]
    for text, what in texts:
        if text != text.strip():
            yield f"{what}, which begins or ends with a space: cells are read without such spaces, so remove it"
        if text.lower() in MISSING:
            yield f"{what}, which stands for a missing cell: write (missing) for a category, or choose another text"


def _column_problems(form: AgreedFile) -> Iterable[str]:
    twice = _repeated([form.label.name, *(column.name for column in form.column)])
    if twice:
        yield f"'{twice[0]}' more than once, as a column or as the label: state each once"
    for column in form.column:
        if isinstance(column, _Category) and _repeated(column.categories):
            yield f"the category '{_repeated(column.categories)[0]}' of column '{column.name}' twice: list it once"
        if isinstance(column, _Number) and column.decimal == column.thousands:
            yield f"'{column.decimal}' for decimals and for thousands of column '{column.name}': correct one of them"
        if isinstance(column, _Date) and not _is_date(column.origin):
            yield f"'{column.origin}' as the origin of column '{column.name}': write a date such as 1970-01-01"
    width = sum(column.width for column in form.column if isinstance(column, _Hashed))
    if width > _MOST_FEATURES:  # asked first, because the names of so many features would not fit into memory
        yield f"columns with {width} features: at most {_MOST_FEATURES} are possible, so take smaller widths"
    features = [feature for column in form.column for feature in part_of(column.model_dump()).features]
    if _repeated(features):
        yield f"columns that both have the feature '{_repeated(features)[0]}': rename one of them in all files"


def _scale_problems(form: AgreedFile) -> Iterable[str]:
    numeric = [column for column in form.column if isinstance(column, _Number | _Date)]
    features = [feature for column in numeric for feature in part_of(column.model_dump()).features]
    if form.scale != "stated":
        if form.scales:
            yield f"[scales], but scale = '{form.scale}': write scale = 'stated', or remove [scales]"
        return
    absent = [feature for feature in features if feature not in form.scales]
    unknown = [feature for feature in form.scales if feature not in features]
    if absent:
        yield f"no mean and deviation of {listed(absent, 3)} in [scales], but scale = 'stated': add them"
    if unknown:
        yield f"'{unknown[0]}' in [scales], which is no numeric feature: {suggest(unknown[0], features).rstrip('.?')}"


def _is_date(text: str) -> bool:
    """Whether a text is a date that never changes. NumPy also reads "now" and "today", other days at every silo."""
    try:
        return bool(_DATE.fullmatch(text)) and not np.isnat(np.datetime64(text, "s"))
    except ValueError:
        return False


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
