"""Texts of new cells among known texts: a DataFrame and its CSV file write some values in different ways."""

import math
import re
from collections.abc import Sequence

from silobench.data.table.cells import RawColumn

_NUMBER_OF = {"true": "1", "false": "0"}
_TRUTH_OF = {"1": "True", "0": "False"}
_DECIMAL = re.compile(r"[+-]?\d+(?=[.eE])(\.\d*)?([eE][+-]?\d+)?")


def places_of(column: RawColumn, known: Sequence[str]) -> list[int]:
    """Return the place among the `known` texts of each distinct text of a column, -1 for an unknown text.

    A text that is known is found as it is. Else true is True, and 1.0 is 1, if only one known text has this value. True
    is 1 if the known texts are the numbers of truth values.
    """
    exact = {text: place for place, text in enumerate(known)}
    by_value: dict[str, int] = {}
    for place, text in enumerate(known):
        by_value[_value(text)] = -1 if _value(text) in by_value else place
    texts = column.factor.texts
    if by_value.keys() & _NUMBER_OF.keys():
        texts = [_TRUTH_OF.get(text, text) for text in texts] if column.is_bool else texts
    elif by_value.keys() <= _TRUTH_OF.keys():
        texts = [_NUMBER_OF.get(text.lower(), text) for text in texts]
    return [exact[text] if text in exact else by_value.get(_value(text), -1) for text in texts]


def truth_values(texts: Sequence[str]) -> list[float] | None:
    """Return the texts true and false as 1 and 0, NaN for ""; None if there is another text."""
    if any(text and text.lower() not in _NUMBER_OF for text in texts):
        return None
    return [float(_NUMBER_OF[text.lower()]) if text else math.nan for text in texts]


def _value(text: str) -> str:
    """Return one text for all spellings of a truth value or a decimal number; whole numbers such as 007 stay.

    >>> [_value(text) for text in ("TRUE", "1.0", "1e-05", "0.00001", "007", "red")]
    ['true', '1', '1e-05', '1e-05', '007', 'red']
    """
    if text.lower() in _NUMBER_OF:
        return text.lower()
    if not _DECIMAL.fullmatch(text) or not math.isfinite(number := float(text)):
        return text
    return repr(number) if number % 1 else str(int(number))
