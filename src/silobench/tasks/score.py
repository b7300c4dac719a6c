"""`Score`: how a network does on some rows. Scores of parts add up to the score of the whole."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.tasks.verification import Pairs, judged

Counts: TypeAlias = NDArray[np.int64]  # by class


def _no_rows() -> Counts:
    return np.zeros(1, np.int64)  # which can be added to counts of any number of classes


@dataclass(frozen=True)
class Score:
    """How a network does on some rows: what it gets right by class, its loss added up, and the rows of each class.

    Pairs are judged when all are there, because the others say how alike is alike enough; then (`judged`) they are rows
    of two classes, different and same.
    """

    hits: Counts = field(default_factory=_no_rows)
    total_loss: float = 0.0
    rows: Counts = field(default_factory=_no_rows)
    pairs: tuple[Pairs, ...] = ()  # in their order, not yet judged

    def __add__(self, other: "Score") -> "Score":
        loss, pairs = self.total_loss + other.total_loss, self.pairs + other.pairs
        return Score(self.hits + other.hits, loss, self.rows + other.rows, pairs)

    def judged(self) -> "Score":
        """With its pairs counted, for which it must have all that one model was shown; without such, as it is."""
        if not self.pairs:
            return self
        hits, rows = judged(self.pairs)
        return Score(self.hits + hits, self.total_loss, self.rows + rows)

    @property
    def accuracy(self) -> float:
        return float(self.hits.sum() / self.rows.sum())

    @property
    def loss(self) -> float:
        return float(self.total_loss / self.rows.sum())

    @property
    def by_class(self) -> tuple[float | None, ...]:
        """The accuracy on the rows of each class; None where there are none."""
        return tuple(
            hits / rows if rows else None for hits, rows in zip(self.hits.tolist(), self.rows.tolist(), strict=True)
        )
