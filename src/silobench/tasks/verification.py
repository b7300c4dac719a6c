"""Verification: are two pictures of the same person? How similarities become verdicts, by the protocol of LFW.

A network gives each picture a place, and a pair is judged by how near the two are. How near is near enough is learnt
from other pairs: the pairs, in their order, are ten folds, and each fold is judged by the threshold that is best on the
other nine (Huang et al., 2007).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLDS = 10


@dataclass(frozen=True)
class Pairs:
    """Some pairs, in their order: how alike a network finds the two, and whether they are of the same person."""

    similarity: NDArray[np.float32]
    same: NDArray[np.bool_]


def judged(parts: Sequence[Pairs]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs that are judged right, and all of them, of (different, same) persons; `parts` are in their order.

    >>> alike, same = np.array([0.9, 0.1, 0.8, 0.7], np.float32), np.array([True, False, True, False])
    >>> judged([Pairs(alike, same)])
    (array([1, 2]), array([2, 2]))
    """
    same = np.concatenate([part.same for part in parts])
    similarity = np.concatenate([part.similarity for part in parts]).astype(np.float64)
    similarity[np.isnan(similarity)] = -np.inf  # of a network that has diverged: it finds nothing alike
    right = np.zeros(len(same), dtype=np.bool_)
    for fold in np.array_split(np.arange(len(same)), FOLDS):
        others = np.ones(len(same), dtype=np.bool_)
        others[fold] = False
        right[fold] = (similarity[fold] >= best_threshold(similarity[others], same[others])) == same[fold]
    return np.bincount(same[right], minlength=2), np.bincount(same, minlength=2)


def best_threshold(similarity: NDArray[np.float64], same: NDArray[np.bool_]) -> float:
    """Where to cut so that most pairs are right when those from there on are called the same: the lowest such place.

    Places are half-way between neighbours, and below and above all. Without pairs to learn from all are the same.

    >>> best_threshold(np.array([0.9, 0.1, 0.8, 0.6]), np.array([True, False, True, False])).__round__(6)
    0.7
    """
    order = np.argsort(similarity, kind="stable")
    alike, is_same = similarity[order], same[order]
    right = np.concatenate([[0], np.cumsum(~is_same)]) + is_same.sum() - np.concatenate([[0], np.cumsum(is_same)])
    between = alike[1:] > alike[:-1]  # equal ones cannot be told apart
    possible = np.concatenate([[True], between, [True]]) if len(alike) else np.array([True])
    cut = int(np.argmax(np.where(possible, right, -1)))
    if cut in (0, len(alike)):
        return float("-inf" if cut == 0 else "inf")
    return (
        float(alike[cut - 1] + (alike[cut] - alike[cut - 1]) / 2) if np.isfinite(alike[cut - 1]) else float(alike[cut])
    )
