"""Two classes, one of them called positive: classification by cross-entropy, with metrics for uneven classes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError, suggest
from silobench.tasks.metrics import ACCURACY, AUC, AVERAGE_PRECISION, BALANCED_ACCURACY, F1, Metric
from silobench.tasks.objectives.cross_entropy import balanced_accuracy, count_classes
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, Values, main_first, need_task
from silobench.tasks.score import Score

_METRICS = (AUC, AVERAGE_PRECISION, F1, BALANCED_ACCURACY, ACCURACY)
_ANY_ROWS = (BALANCED_ACCURACY, ACCURACY)  # metrics that are defined on rows of one class


@OBJECTIVES.register
def binary(
    main: Literal["auc", "average-precision", "f1", "balanced-accuracy", "accuracy"] = "auc",
    positive: str | int | float | bool | None = None,
) -> Fit:
    """Two classes: the loss is the cross-entropy; AUC, average precision, F1 and accuracies are reported.

    `positive` is the name of the positive class; by default it is the second class of the dataset, such as "yes" of
    "no" and "yes". Networks are trained bit for bit as with cross-entropy. AUC and average precision rank rows by the
    difference of the two outputs; equal differences are ties. They and F1 are undefined on rows of one class, where a
    record has null.
    """

    def fit(dataset: Dataset) -> Objective:
        need_task("binary", dataset, "classification", "two classes")
        if len(dataset.classes) != 2:
            raise ConfigError(
                f"the objective binary needs two classes, but {dataset.name} has {len(dataset.classes)}: "
                'write objective = "cross-entropy".'
            )
        name = dataset.classes[1] if positive is None else str(positive)
        if name not in dataset.classes:
            raise ConfigError(f"{dataset.name} has no class '{name}' to be positive: {suggest(name, dataset.classes)}")
        return Binary(*main_first(_METRICS, main), positive=dataset.classes.index(name))

    return fit


@dataclass(frozen=True)
class Binary(Objective):
    """Classification of rows of two classes."""

    name: ClassVar[str] = "binary"
    is_cross_entropy: ClassVar[bool] = True
    positive: int = 1  # the number of the positive class

    @property
    def travel_metric(self) -> Metric:
        return self.main if self.main in _ANY_ROWS else BALANCED_ACCURACY

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(outputs, y)

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        hits, rows = (count_classes(labels, 2) for labels in (y[outputs.argmax(1) == y], y))
        loss = float(F.cross_entropy(outputs, y, reduction="sum"))
        numbers = outputs.double().numpy()
        ranks = numbers[:, self.positive] - numbers[:, 1 - self.positive]
        answers = {"ranks": (ranks,), "positive": (y.numpy() == self.positive,)}
        return Score(hits, loss, rows, answers=answers)

    def values(self, score: Score) -> Values:
        ranks, positive = score.joined("ranks"), score.joined("positive")
        ranks = np.where(np.isnan(ranks), -np.inf, ranks)  # a network that has diverged calls no row positive
        return {
            AUC.name: auc(ranks, positive),
            AVERAGE_PRECISION.name: average_precision(ranks, positive),
            F1.name: f1(score.hits, score.rows, self.positive),
            BALANCED_ACCURACY.name: balanced_accuracy(score.hits, score.rows),
            ACCURACY.name: score.accuracy,
        }

    def constants(self, dataset: Dataset) -> Values:
        share = float((dataset.test.y == self.positive).mean())
        both = 0 < share < 1
        return {
            AUC.name: 0.5 if both else None,
            AVERAGE_PRECISION.name: share or None,
            F1.name: 2 * share / (1 + share) if share else None,
            BALANCED_ACCURACY.name: 0.5 if both else 1.0,
            ACCURACY.name: max(share, 1 - share),
        }


def auc(ranks: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return the probability that a positive row ranks above a negative one; a tie counts half. None with one class.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    _, codes = np.unique(ranks, return_inverse=True)
    positives, negatives = (np.bincount(codes.reshape(-1)[mask]) for mask in (positive, ~positive))
    if not (len(positives) and len(negatives)):
        return None
    size = max(len(positives), len(negatives))
    positives, negatives = (np.pad(counts, (0, size - len(counts))) for counts in (positives, negatives))
    below = np.cumsum(negatives) - negatives  # negative rows that rank lower
    wins = int((positives * (2 * below + negatives)).sum())  # in halves: exact, because these are integers
    return wins / (2 * int(positives.sum()) * int(negatives.sum()))


def average_precision(ranks: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return Σ (recall - recall before) · precision over all thresholds, from the highest. None without positive rows.

    >>> round(average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])), 6)
    0.833333
    """
    total = int(positive.sum())
    if not total:
        return None
    order = np.argsort(-ranks, kind="stable")
    last_of_tie = np.append(np.diff(ranks[order]) != 0, True) if len(order) else np.zeros(0, np.bool_)
    hits = np.cumsum(positive[order])[last_of_tie]
    answers = (np.flatnonzero(last_of_tie) + 1).astype(np.float64)
    return float((np.diff(hits, prepend=0) * (hits / answers)).sum() / total)


def f1(hits: NDArray[np.int64], rows: NDArray[np.int64], positive: int) -> float | None:
    """Return the F1 score of the positive class; None if it has neither rows nor answers.

    >>> f1(np.array([7, 2]), np.array([8, 4]), positive=1).__round__(6)
    0.571429
    """
    wrong = int((rows - hits).sum())  # false alarms and misses
    correct = 2 * int(hits[positive])
    return correct / (correct + wrong) if correct + wrong else None
