"""`Score`: how well a network does on some rows. Scores of parts add up to the score of the whole."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.tasks.verification import Pairs, judged

Counts: TypeAlias = NDArray[np.int64]  # by class


def _no_rows() -> Counts:
    return np.zeros(1, np.int64)  # broadcasts to any number of classes


@dataclass(frozen=True)
class Score:
    """The score of a network on some rows: correct rows by class, the sum of losses, and all rows by class.

    For verification, the threshold for a fold of pairs is learnt from the other folds, so pairs are judged once all are
    present. After `judged` they count as rows of two classes, different and same.

    An objective that needs more has further `sums`, and `answers`: values of single rows, which are joined in order.
    """

    hits: Counts = field(default_factory=_no_rows)
    total_loss: float = 0.0
    rows: Counts = field(default_factory=_no_rows)
    pairs: tuple[Pairs, ...] = ()  # in order, not judged yet
    sums: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    answers: Mapping[str, tuple[NDArray[Any], ...]] = field(default_factory=dict)

    def __add__(self, other: "Score") -> "Score":
        loss, pairs = self.total_loss + other.total_loss, self.pairs + other.pairs
        sums, answers = _union(self.sums, other.sums), _union(self.answers, other.answers)
        return Score(self.hits + other.hits, loss, self.rows + other.rows, pairs, sums, answers)

    def judged(self) -> "Score":
        """Return the score with its pairs counted as rows; the pairs of the whole test set must be present."""
        if not self.pairs:
            return self
        hits, rows = judged(self.pairs)
        return Score(self.hits + hits, self.total_loss, self.rows + rows)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.rows.sum())

    @property
    def accuracy(self) -> float:
        return float(self.hits.sum() / self.rows.sum())

    @property
    def loss(self) -> float:
        return float(self.total_loss / self.rows.sum())

    @property
    def by_class(self) -> tuple[float | None, ...]:
        """The accuracy on each class; None for a class without rows."""
        return tuple(
            hits / rows if rows else None for hits, rows in zip(self.hits.tolist(), self.rows.tolist(), strict=True)
        )

    def joined(self, name: str) -> NDArray[Any]:
        """Return the answers of this name for all rows, in order."""
        return np.concatenate(self.answers[name])


def _union(first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add up the values of two mappings; a name that only one of them has keeps its value."""
    if not (first and second):
        return first or second
    return {name: first[name] + second[name] if name in first else part for name, part in second.items()} | {
        name: part for name, part in first.items() if name not in second
    }
