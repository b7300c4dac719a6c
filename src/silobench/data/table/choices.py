"""What a user chose about the columns of a table, what they become, and the error about everything that is wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from silobench.data.encoder import FeatureColumn
from silobench.data.table.cells import Decimal, RawColumn, Thousands
from silobench.data.table.dates import DateOrder
from silobench.data.table.forms import Form
from silobench.data.table.scaling import Scaling
from silobench.errors import DataError, listed
from silobench.spec.language import value_text

Many: TypeAlias = Literal["auto", "onehot", "hash", "drop"]


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
    thousands: Thousands = ""
    is_csv: bool = False  # decimal and thousands are arguments, and suspicious columns are noted, not refused

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of numbers to read, in this order."""
        if self.thousands in (".", ","):
            return (Form("," if self.thousands == "." else ".", self.thousands),)
        if self.decimal != "auto":
            return (Form(self.decimal, self.thousands),)
        is_open = bool(self.thousands) and not self.comma_separates
        return tuple(Form(decimal, self.thousands) for decimal in (".,") if decimal == "." or is_open)

    def check(self, source: str, has_groups: bool) -> None:
        """Refuse choices that contradict each other."""
        if self.thousands and self.thousands == self.decimal:
            raise DataError(
                f"decimal and thousands of {source} are both '{self.decimal}': they need different marks, so leave one "
                "of them out."
            )
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


def write_spec(name: str, value: Any) -> str:
    """Return an argument as a spec writes it; a list of one name is the name.

    >>> write_spec("drop", ("patient id", "day"))
    "drop=['patient id', day]"
    """
    return f"{name}={value_text(value[0] if isinstance(value, tuple) and len(value) == 1 else value)}"


@dataclass
class Plan:
    """What the columns of a table become. Columns are in a compact form: numbers, dates or codes.

    `write` returns an argument as the user writes it: ``drop=[a, b]`` in a spec, ``drop=["a", "b"]`` in Python.
    """

    write: Callable[[str, Any], str] = write_spec
    parts: list[FeatureColumn] = field(default_factory=list)
    columns: dict[str, RawColumn] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    identifiers: dict[str, int] = field(default_factory=dict)  # columns that look so, and how many features they became
    commas: list[str] = field(default_factory=list)  # columns with a decimal comma
    points: list[str] = field(default_factory=list)  # columns with a decimal point, though a comma was stated
    thousands: dict[str, str] = field(default_factory=dict)  # columns with cells such as 1.650, which were read as 1.65

    def add(self, part: FeatureColumn, column: RawColumn, note: str = "") -> None:
        self.parts.append(part)
        self.columns[part.name] = column
        if note:
            self.notes.append(note)


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
