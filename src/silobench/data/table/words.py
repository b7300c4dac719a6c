"""Words of texts: how they are split, and how they become numbers by a hash that never changes."""

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN = 0, 1
SPECIAL = ("<pad>", "<unk>")  # tokens contain no brackets, so no word equals these
_TOKEN = re.compile(r"<br\s*/?>|([^\W_]+(?:'[^\W_]+)*)")  # a line break matches but captures nothing

_CONTRACTION = re.compile(r"(.+)(n't|'(?:s|m|d|ve|re|ll))")


def tokens(text: str) -> list[str]:
    """Split text into lower-case words of letters and digits; keep inner apostrophes, drop HTML line breaks.

    >>> tokens("Don't miss it!<br /><br />The '90s at their best: 10/10")
    ["don't", 'miss', 'it', 'the', '90s', 'at', 'their', 'best', '10', '10']
    """
    return [word for word in _TOKEN.findall(text.lower().replace("’", "'")) if word]


def split_contractions(words: Iterable[str]) -> list[str]:
    """Split words as the Penn Treebank does, which GloVe's words follow.

    >>> split_contractions(["don't", "say", "it's", "rock'n'roll"])
    ['do', "n't", 'say', 'it', "'s", "rock'n'roll"]
    """
    parts = (match.groups() if (match := _CONTRACTION.fullmatch(word)) else (word,) for word in words)
    return [part for word in parts for part in word]


def most_frequent(texts: Iterable[str], size: int, split: Callable[[str], list[str]] = tokens) -> list[str]:
    """Return a vocabulary: padding, the unknown word, and the most frequent words; ties are in alphabetical order.

    `split` returns the words of a text.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return [*SPECIAL, *ranked[: size - len(SPECIAL)]]


def word_row(words: Sequence[str], index: Mapping[str, int], length: int) -> list[int]:
    """Return the numbers of the first `length` words; a text without words is one unknown word."""
    return [index.get(word, UNKNOWN) for word in words[:length]] or [UNKNOWN]


@functools.lru_cache(maxsize=1 << 18)
def place_and_sign(word: str, width: int) -> tuple[int, int]:
    """Return the column of a word among `width` columns, and whether it adds 1 or -1 there.

    The hash is BLAKE2, so a word has the same column on every machine and in every version.
    """
    number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % width, 1 if number & 1 else -1


def hashed_words(text: str, width: int) -> NDArray[np.float32]:
    """Return a text as `width` numbers: every word adds 1 or -1 to one of them, and the row is scaled to length 1."""
    row = np.zeros(width)
    for word in tokens(text):
        place, sign = place_and_sign(word, width)
        row[place] += sign
    norm = np.sqrt(np.dot(row, row))
    return (row / norm if norm else row).astype(np.float32)
