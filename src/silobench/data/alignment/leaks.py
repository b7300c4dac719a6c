"""Keys that contain the label: who has such a key knows the label, so training by it would be pointless."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence

_SHARE = 0.9  # of the rows with each label: fewer keys may contain it by chance
_BY_CHANCE = 0.5  # of the rows: if more keys contain another label too, they do not tell labels apart
_FEWEST = 5  # rows that the shares need


def label_in_key(keys: Sequence[str], labels: Sequence[str]) -> tuple[float, int] | None:
    """Return the share of rows with the value of their label in their key, and the first of them; None if it is small.

    Words and numbers of the key are compared. Every label counts equally, and most keys must not contain another label,
    so a word that all keys have is not a leak.

    >>> label_in_key([f"song {i} ({1980 + i})" for i in range(9)], [str(1980 + i) for i in range(9)])
    (1.0, 0)
    >>> label_in_key([f"client {i}" for i in range(9)], [str(i % 2) for i in range(9)])
    """
    words = [frozenset(_words(key)) for key in keys]
    counts = Counter(labels)
    values = sorted(counts)
    others = dict(zip(values, [*values[1:], *values[:1]], strict=True))  # another label for each
    parts = {value: frozenset(_words(value)) for value in values}

    def contains(row: int, label: str) -> bool:
        return bool(parts[label]) and parts[label] <= words[row]

    inside = [contains(row, label) for row, label in enumerate(labels)]
    weights = [1 / (counts[label] * len(values)) for label in labels]  # they add up to 1
    share = sum(itertools.compress(weights, inside))
    by_chance = sum(weights[row] for row, label in enumerate(labels) if contains(row, others[label]))
    if len(keys) < _FEWEST or len(values) < 2 or share < _SHARE or by_chance > _BY_CHANCE:
        return None
    return sum(inside) / len(keys), inside.index(True)


def _words(text: str) -> list[str]:
    """Return words and numbers of a text: "07" is 7."""
    words = re.findall(r"\d+|[^\W\d_]+", text.casefold())
    return [word.lstrip("0") or "0" if word[0].isdigit() else word for word in words]
