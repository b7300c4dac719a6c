"""Keys that contain the label: who has such a key knows the label, so training by it would be pointless."""

import re
from collections.abc import Sequence

_SHARE = 0.9  # of the rows: a key by chance contains the label in fewer
_FEWEST = 5  # rows that the shares need


def label_in_key(keys: Sequence[str], labels: Sequence[str]) -> tuple[float, int] | None:
    """Return the share of rows with the value of their label in their key, and the first of them; None if it is small.

    Words and numbers of the key are compared. A value that is also in the keys of rows with another label does not
    count, such as a word that every key has.

    >>> label_in_key([f"song {i} ({1980 + i})" for i in range(9)], [str(1980 + i) for i in range(9)])
    (1.0, 0)
    >>> label_in_key([f"client {i}" for i in range(9)], [str(i % 2) for i in range(9)])
    """
    words = [frozenset(_words(key)) for key in keys]
    values = sorted(set(labels))
    others = dict(zip(values, [*values[1:], *values[:1]], strict=True))  # another label for each
    parts = {value: frozenset(_words(value)) for value in values}
    inside = [bool(parts[label]) and parts[label] <= word for label, word in zip(labels, words, strict=True)]
    by_chance = sum(parts[others[label]] <= word for label, word in zip(labels, words, strict=True))
    share = sum(inside) / max(len(keys), 1)
    if len(keys) < _FEWEST or len(values) < 2 or share < _SHARE or by_chance > len(keys) / 2:
        return None
    return share, inside.index(True)


def _words(text: str) -> list[str]:
    """Return words and numbers of a text: "07" is 7."""
    words = re.findall(r"\d+|[^\W\d_]+", text.casefold())
    return [word.lstrip("0") or "0" if word[0].isdigit() else word for word in words]
