"""Classification by cross-entropy, with metrics for even and uneven classes."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.tasks.formulas import balanced_accuracy, macro_f1
from silobench.tasks.metrics import ACCURACY, BALANCED_ACCURACY, MACRO_F1
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, Values, main_first, need_task
from silobench.tasks.score import Counts, Score

PREDICTED = "predicted"  # how many rows a network assigns to each class


Weighting: TypeAlias = Literal["equal", "balanced"]


@OBJECTIVES.register(added_later=("weights",))
def cross_entropy(
    main: Literal["accuracy", "balanced-accuracy", "macro-f1"] = "accuracy", weights: Weighting = "equal"
) -> Fit:
    """Classification: the loss is the cross-entropy; accuracy, balanced accuracy and macro-F1 are reported.

    Balanced accuracy is the mean of the accuracies on each class. Macro-F1 is the mean of the F1 scores of the classes
    that occur among the test rows or among the answers, as in scikit-learn. With `weights=balanced` rare classes count
    as much as frequent ones: see `class_weights`.
    """

    def fit(dataset: Dataset) -> Objective:
        need_task("cross-entropy", dataset, "classification", "classes")
        metrics = main_first((ACCURACY, BALANCED_ACCURACY, MACRO_F1), main)
        if weights == "equal":
            return CrossEntropy(*metrics)
        return WeightedCrossEntropy(*metrics, weights=class_weights(dataset))

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

    def constant_answer(self, dataset: Dataset) -> str:
        return "" if self.main == BALANCED_ACCURACY else largest_class(dataset)


@dataclass(frozen=True)
class WeightedCrossEntropy(CrossEntropy):
    """Classification in which each row counts with the weight of its class, in training and in the recorded loss."""

    name: ClassVar[str] = "weighted cross-entropy"
    is_cross_entropy: ClassVar[bool] = False  # compiled code knows no weights
    weights: tuple[float, ...] = ()  # by class

    @property
    def counts_hits(self) -> bool:
        return False

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return weighted_loss(outputs, y, self.weights) / len(y)

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        return replace(super().score(outputs, y), total_loss=float(weighted_loss(outputs, y, self.weights)))


def class_weights(dataset: Dataset) -> tuple[float, ...]:
    """Return a weight for each class, so that all classes count the same: n / (k n_c), as scikit-learn's "balanced".

    n_c of the n training rows of all parties together are of class c, and k classes occur; parties would share these
    counts before the first round. The mean weight of a training row is 1.
    """
    counts = np.bincount(np.delete(dataset.train.y, dataset.validation), minlength=len(dataset.classes))
    present = int((counts > 0).sum())
    weights = np.where(counts > 0, counts.sum() / (present * np.maximum(counts, 1)), 1.0)
    return tuple(weights.tolist())


def weighted_loss(outputs: Tensor, y: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Return the sum of the weighted losses of rows.

    A mean divides it by the rows and not by their weights, as PyTorch would: at a party with a single class, weights
    would then cancel out.
    """
    weight = torch.tensor(weights, dtype=outputs.dtype, device=outputs.device)
    return F.cross_entropy(outputs, y, weight=weight, reduction="sum")


def largest_class(dataset: Dataset) -> str:
    """Return the name of the most frequent class of the test rows; for test pairs, their most frequent answer."""
    names = ("different", "same") if dataset.task == "verification" else dataset.classes
    return names[int(np.bincount(dataset.test.y.astype(np.int64)).argmax())]


def plain() -> CrossEntropy:
    """Return the objective of plain classification, which reports accuracy only."""
    return CrossEntropy(ACCURACY, (ACCURACY,))


def count_classes(labels: Tensor, classes: int) -> Counts:
    """Return how many labels there are of each class."""
    return torch.bincount(labels, minlength=classes).numpy()
