"""Forms of numbers in text: which marks stand for decimals and thousands, and cells that are not numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from silobench.data.table.cells import Factor, RawColumn, parse_number

_THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(\.\d{3})+\s*$"
_DIGITS = re.compile(r"[+-]?\d[\d., \u00a0\u202f]*")
_MOSTLY = 0.8  # of the known cells of a column that should be numbers


class Form(NamedTuple):
    """The marks that numbers are written with."""

    decimal: str = "."
    thousands: str = ""

    def reads(self, text: str) -> bool:
        """Whether a text is a finite number in this form."""
        try:
            return math.isfinite(parse_number(text, *self))
        except ValueError:
            return False

    def number(self, text: str) -> str:
        """Return the number that this form reads, as Python writes it.

        >>> Form(",", ".").number("1.910,51")
        '1910.51'
        """
        value = parse_number(text, *self)
        return repr(value) if value % 1 else str(int(value))


FORMS = (Form("."), Form(","), Form(".", ","), Form(",", "."), Form(".", " "), Form(",", " "))


def forms_of(texts: Sequence[str]) -> list[Form]:
    """Return the forms that read all texts as numbers. A form with thousands is one only if it is needed somewhere.

    >>> [tuple(form) for form in forms_of(["3,416", "886"])]
    [(',', ''), ('.', ',')]
    """
    if not all(map(_DIGITS.fullmatch, texts)):
        return []
    forms = [form for form in FORMS if all(form.reads(text) for text in texts)]
    marks = set("".join(texts).replace("\u00a0", " ").replace("\u202f", " "))
    return [form for form in forms if not form.thousands or form.thousands in marks]


def has_digits_only(texts: Sequence[str]) -> bool:
    """Whether all texts have only digits and marks of numbers."""
    return all(map(_DIGITS.fullmatch, texts))


def telling(texts: Sequence[str], form: Form) -> str:
    """Return a text that shows a form best: one with both of its marks, else with one of them."""
    marks = [mark for mark in form if mark]
    return max(texts, key=lambda text: (sum(mark in text for mark in marks), len(text)))


def has_mark(column: RawColumn, mark: str) -> bool:
    """Whether some cell of a column of texts has a mark."""
    import pyarrow.compute as pc

    return column.kind == "text" and bool(pc.any(pc.match_substring(column.values, mark)).as_py())


def point_thousands(column: RawColumn) -> str:
    """Return the first cell if the points of a numeric column may separate thousands, such as 1.650, else ""."""
    import pyarrow.compute as pc

    if column.kind != "text":
        return ""
    pointed = pc.filter(column.values, pc.match_substring(column.values, "."))
    if not len(pointed) or not pc.all(pc.match_substring_regex(pointed, _THOUSANDS)).as_py():
        return ""
    cell: str = pointed[0].as_py().strip()
    return cell


@dataclass(frozen=True)
class OddCells:
    """Cells of a column that are not numbers, though most are."""

    texts: list[str]
    count: int
    known: int

    @property
    def share(self) -> str:
        """The share of numbers among the known cells, in percent."""
        return f"{math.floor(1000 * (1 - self.count / self.known)) / 10:g}%"


def odd_cells(factor: Factor, forms: Sequence[Form]) -> OddCells | None:
    """Return the cells that are not numbers if at least 80% of the known cells are numbers, else None."""
    counts = np.bincount(factor.codes, minlength=len(factor.texts))
    if factor.texts[0] == "":
        counts[0] = 0
    known = int(counts.sum())
    for form in forms:
        numbers = np.array([form.reads(text) for text in factor.texts])
        odd = np.flatnonzero(~numbers & (counts > 0))
        count = int(counts[odd].sum())
        if 0 < count <= (1 - _MOSTLY) * known + 1e-9:
            most_frequent: Any = odd[np.argsort(-counts[odd], kind="stable")]
            return OddCells([factor.texts[code] for code in most_frequent], count, known)
    return None
