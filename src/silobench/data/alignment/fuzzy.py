"""Texts that are similar: candidates by their groups of three letters, then the longest common subsequence.

The similarity of two texts is 2·L / (length of both), where L is the length of their longest common subsequence: 1 for
equal texts, and 0.93 if one of 15 letters is replaced. Each text is compared with the ten texts that share most of
their groups of three letters with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from silobench.data.table.progress import Progress

_CANDIDATES = 10
_CHUNK = 500  # texts whose candidates are counted at a time


@dataclass(frozen=True)
class Pair:
    """Two similar texts, by their places, and how similar the next best candidate for the first text is."""

    first: int
    second: int
    score: float
    runner_up: int = -1  # place of the next best candidate; -1 if there is none
    runner_up_score: float = 0.0


def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts, from 0 to 1.

    >>> similarity("star wars", "star wars"), similarity("rocky 2", "rocky 3"), similarity("ab", "xy")
    (1.0, 0.8571428571428571, 0.0)
    """
    total = len(first) + len(second)
    return 2 * _common(first, second) / total if total else 1.0


def _common(first: str, second: str) -> int:
    """Return the length of the longest common subsequence, with a bit per letter (Hyyrö, 2004)."""
    places: dict[str, int] = {}
    for place, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << place
    everything = (1 << len(first)) - 1
    free = everything
    for letter in second:
        taken = free & places.get(letter, 0)
        free = (free + taken | free - taken) & everything
    return len(first) - free.bit_count()


def similar_pairs(first: Sequence[str], second: Sequence[str], threshold: float) -> list[Pair]:
    """Return all pairs of candidates that reach a threshold; texts of one side should differ from each other."""
    pairs, progress = [], Progress("comparing similar keys", len(first), "keys")
    for place, candidates in enumerate(_candidates(first, second)):
        scored = sorted(((similarity(first[place], second[other]), -other) for other in candidates), reverse=True)
        for rank, (score, other) in enumerate(scored):
            if score < threshold:
                break
            rest = scored[:rank] + scored[rank + 1 :]
            next_best = (-rest[0][1], rest[0][0]) if rest else (-1, 0.0)
            pairs.append(Pair(place, -other, score, *next_best))
        progress.step()
    return pairs


def _candidates(first: Sequence[str], second: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places in `second` that share most groups of three letters with each text of `first`."""
    codes: dict[str, int] = {}
    columns = [_groups(text, codes) for text in [*first, *second]]
    width = len(codes)
    left, right = _matrix(columns[: len(first)], width), _matrix(columns[len(first) :], width).T.tocsr()
    sizes = np.array([len(groups) for groups in columns[len(first) :]], dtype=np.float32)
    for start in range(0, len(first), _CHUNK):
        shared = (left[start : start + _CHUNK] @ right).tocsr()
        for row in range(shared.shape[0]):
            cells = slice(shared.indptr[row], shared.indptr[row + 1])
            places, counts = shared.indices[cells], shared.data[cells]
            share = 2 * counts / (len(columns[start + row]) + sizes[places])
            best = np.lexsort((places, -share))[:_CANDIDATES]
            yield places[best].tolist()


def _groups(text: str, codes: dict[str, int]) -> set[int]:
    """Return the numbers of the groups of three letters of a text, with spaces around it."""
    padded = f"  {text}  "
    groups = {padded[start : start + 3] for start in range(len(padded) - 2)}
    return {codes.setdefault(group, len(codes)) for group in groups}


def _matrix(rows: Sequence[set[int]], width: int) -> sparse.csr_matrix:
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in row], dtype=np.int32)
    return sparse.csr_matrix((np.ones(len(indices), np.float32), indices, ends), shape=(len(rows), width))
