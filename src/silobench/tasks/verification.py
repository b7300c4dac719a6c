"""Verification by the protocol of LFW: are two images of the same person?

A network embeds each image, and a pair is called "same" if the similarity of its embeddings reaches a threshold. The
pairs, in order, form ten folds, and the threshold of each fold is the best one on the other nine (Huang et al., 2007).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FOLDS = 10


@dataclass(frozen=True)
class Pairs:
    """Some pairs, in order: their similarity by a network, and whether they show the same person."""

    similarity: NDArray[np.float32]
    same: NDArray[np.bool_]


def judged(parts: Sequence[Pairs]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many pairs of (different, same) persons are judged correctly, and how many there are.

    `parts` are all pairs, in order.

    >>> similarity, same = np.array([0.9, 0.1, 0.8, 0.7], np.float32), np.array([True, False, True, False])
    >>> judged([Pairs(similarity, same)])
    (array([1, 2]), array([2, 2]))
    """
    same = np.concatenate([part.same for part in parts])
    similarity = np.concatenate([part.similarity for part in parts]).astype(np.float64)
    similarity[np.isnan(similarity)] = -np.inf  # a network that has diverged calls no pair the same
    correct = np.zeros(len(same), dtype=np.bool_)
    for fold in np.array_split(np.arange(len(same)), FOLDS):
        others = np.ones(len(same), dtype=np.bool_)
        others[fold] = False
        correct[fold] = (similarity[fold] >= best_threshold(similarity[others], same[others])) == same[fold]
    return np.bincount(same[correct], minlength=2), np.bincount(same, minlength=2)


def best_threshold(similarity: NDArray[np.float64], same: NDArray[np.bool_]) -> float:
    """Return the lowest threshold that maximises accuracy when pairs at or above it are called "same".

    Thresholds are halfway between neighbouring similarities, below all or above all. Without pairs it is below all.

    >>> best_threshold(np.array([0.9, 0.1, 0.8, 0.6]), np.array([True, False, True, False])).__round__(6)
    0.7
    """
    order = np.argsort(similarity, kind="stable")
    values, is_same = similarity[order], same[order]
    correct = np.concatenate([[0], np.cumsum(~is_same)]) + is_same.sum() - np.concatenate([[0], np.cumsum(is_same)])
    between = values[1:] > values[:-1]  # no threshold separates equal values
    possible = np.concatenate([[True], between, [True]]) if len(values) else np.array([True])
    cut = int(np.argmax(np.where(possible, correct, -1)))
    if cut in (0, len(values)):
        return float("-inf" if cut == 0 else "inf")
    below, above = values[cut - 1], values[cut]
    return float(below + (above - below) / 2) if np.isfinite(below) else float(above)
