r"""Names of others as text: what they may do to a terminal, a page or a spreadsheet is made visible and harmless.

Names of columns, classes, parties and runs come from files that somebody else may have written.
"""

import re
from collections.abc import Iterable

# Control characters but tab and newline, line separators, marks that turn the order of letters, and half characters.
_ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"\s*[=+\-@].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d[\d,]*\.?\d*|\.\d+|inf|nan)(e[+-]?\d+)?", re.IGNORECASE)


def visible(text: str) -> str:
    r"""Return text in which characters that would act on a terminal, or hide what is written, are written out.

    >>> visible("age\x1b[2J"), visible("a\tb\u202egnp.exe")
    ('age\\x1b[2J', 'a\tb\\u202egnp.exe')
    """
    return _ACTIVE.sub(_written_out, text)


def visible_in_json(text: str) -> str:
    r"""Return JSON whose texts have such characters written out; it stays JSON.

    >>> visible_in_json('"\u202e"')
    '"\\\\u202e"'
    """
    return _ACTIVE.sub(lambda match: f"\\{_written_out(match)}", text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def cell(text: str) -> str:
    """Return text for a cell of a CSV file: a spreadsheet shows it, and does not compute it.

    Text that begins like a formula gets an apostrophe in front, unless it is a number.

    >>> cell("=1+1"), cell("@SUM(A1)"), cell("fedavg"), cell("-0.5"), cell("+1e-3"), cell("-1+cmd|' /C calc'!A0")
    ("'=1+1", "'@SUM(A1)", 'fedavg', '-0.5', '+1e-3', "'-1+cmd|' /C calc'!A0")
    """
    plain = visible(text)
    return f"'{plain}" if _FORMULA.match(plain) and not _NUMBER.fullmatch(plain) else plain


def cells(row: Iterable[object]) -> list[object]:
    """Return a row of a CSV file with its texts as `cell` writes them; other values stay as they are."""
    return [cell(value) if isinstance(value, str) else value for value in row]
