"""Classification by cross-entropy, with metrics for even and uneven classes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.tasks.metrics import ACCURACY, BALANCED_ACCURACY, MACRO_F1
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, Values, main_first, need_task
from silobench.tasks.score import Counts, Score

PREDICTED = "predicted"  # how many rows a network assigns to each class


@OBJECTIVES.register
def cross_entropy(main: Literal["accuracy", "balanced-accuracy", "macro-f1"] = "accuracy") -> Fit:
    """Classification: the loss is the cross-entropy; accuracy, balanced accuracy and macro-F1 are reported.

    Balanced accuracy is the mean of the accuracies on each class. Macro-F1 is the mean of the F1 scores of the classes
    that occur among the test rows or among the answers, as in scikit-learn.
    """

    def fit(dataset: Dataset) -> Objective:
        need_task("cross-entropy", dataset, "classification", "classes")
        return CrossEntropy(*main_first((ACCURACY, BALANCED_ACCURACY, MACRO_F1), main))

    return fit


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Classification of rows by the largest output."""

    name: ClassVar[str] = "cross-entropy"
    is_cross_entropy: ClassVar[bool] = True

    @property
    def counts_hits(self) -> bool:
        return MACRO_F1 not in self.metrics

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y)

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        answers, classes = outputs.argmax(1), outputs.shape[1]
        hits, rows = (count_classes(labels, classes) for labels in (y[answers == y], y))
        loss = float(F.cross_entropy(outputs, y, reduction="sum"))
        sums = {} if self.counts_hits else {PREDICTED: count_classes(answers, classes)}
        return Score(hits, loss, rows, sums=sums)

    def values(self, score: Score) -> Values:
        values: Values = {ACCURACY.name: score.accuracy}
        if BALANCED_ACCURACY in self.metrics:
            values[BALANCED_ACCURACY.name] = balanced_accuracy(score.hits, score.rows)
        if MACRO_F1 in self.metrics:
            values[MACRO_F1.name] = macro_f1(score.hits, score.rows, score.sums[PREDICTED])
        return values

    def constants(self, dataset: Dataset) -> Values:
        rows = np.bincount(dataset.test.y.astype(np.int64))
        share, present = float(rows.max() / rows.sum()), int((rows > 0).sum())
        f1_of_largest = 2 * share / (1 + share)  # all rows get the largest class
        return {
            ACCURACY.name: share,
            BALANCED_ACCURACY.name: 1 / present,
            MACRO_F1.name: f1_of_largest / present,
        }


def plain() -> CrossEntropy:
    """Return the objective of plain classification, which reports accuracy only."""
    return CrossEntropy(ACCURACY, (ACCURACY,))


def count_classes(labels: Tensor, classes: int) -> Counts:
    """Return how many labels there are of each class."""
    return torch.bincount(labels, minlength=classes).numpy()


def balanced_accuracy(hits: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
    """Return the mean accuracy of the classes that have rows.

    >>> balanced_accuracy(np.array([9, 1, 0]), np.array([10, 2, 0]))
    0.7
    """
    present = rows > 0
    return float((hits[present] / rows[present]).mean())


def macro_f1(hits: NDArray[np.int64], rows: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Return the mean F1 score of the classes that have rows or answers.

    >>> macro_f1(np.array([9, 1, 0]), np.array([10, 2, 0]), np.array([10, 2, 0])).__round__(6)
    0.7
    """
    both = rows + predicted
    present = both > 0
    return float((2 * hits[present] / both[present]).mean())
