"""Calibration: do rows that a network answers with confidence 0.8 get the right answer in 80 of 100 cases?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 15  # of equal width, as in Guo et al., "On Calibration of Modern Neural Networks" (2017)


@dataclass(frozen=True)
class Calibration:
    """Rows by the confidence of their answers, the largest probability, and the sum of squared errors.

    Calibrations of parts add up to that of the whole.
    """

    rows: NDArray[np.int64]  # by bin; bin b has confidences above b / 15, up to (b + 1) / 15
    confidence: NDArray[np.float64]  # sum by bin
    correct: NDArray[np.int64]  # rows with the right answer, by bin
    squares: float  # of the differences between probabilities and the class, summed over rows

    def __add__(self, other: "Calibration") -> "Calibration":
        confidence, correct = self.confidence + other.confidence, self.correct + other.correct
        return Calibration(self.rows + other.rows, confidence, correct, self.squares + other.squares)

    @property
    def error(self) -> float:
        """The expected calibration error: the mean of |accuracy - confidence| over bins, weighted by rows."""
        return float(np.abs(self.correct - self.confidence).sum() / self.rows.sum())

    @property
    def brier(self) -> float:
        """The Brier score: the mean squared error of the probabilities."""
        return float(self.squares / self.rows.sum())

    def as_json(self) -> dict[str, Any]:
        """Return the numbers that a record has: scores, and by bin the rows and their mean confidence and accuracy."""
        rows = np.maximum(self.rows, 1)
        return {
            "error": self.error,
            "brier": self.brier,
            "rows": self.rows.tolist(),
            "confidence": [round(mean, 5) for mean in (self.confidence / rows).tolist()],
            "accuracy": [round(mean, 5) for mean in (self.correct / rows).tolist()],
        }


def calibration(y: NDArray[np.int64], answers: NDArray[np.int64], probabilities: NDArray[np.float64]) -> Calibration:
    """Return the calibration of some rows, from their classes, answers and probabilities ``[n, classes]``.

    The squared error of a row is the sum over its classes; for two classes it is that of one class, as usual. A row
    whose probabilities are not numbers counts with confidence 1 in the last bin.

    >>> two = calibration(np.array([1, 0]), np.array([1, 1]), np.array([[0.2, 0.8], [0.4, 0.6]]))
    >>> round(two.error, 6), round(two.brier, 6)
    (0.4, 0.2)
    """
    probabilities = np.nan_to_num(probabilities, nan=1.0)
    confidence = probabilities.max(1)
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    correct = bins[answers == y]
    of_class = probabilities[np.arange(len(y)), y]
    squares = float(np.square(probabilities).sum() - (2 * of_class - 1).sum())
    return Calibration(
        np.bincount(bins, minlength=BINS),
        np.bincount(bins, weights=confidence, minlength=BINS).astype(np.float64),
        np.bincount(correct, minlength=BINS),
        squares / 2 if probabilities.shape[1] == 2 else squares,
    )
