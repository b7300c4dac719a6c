"""Two classes, one of them called positive: classification by cross-entropy, with metrics for uneven classes."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError, suggest
from silobench.tasks.formulas import auc, average_precision, balanced_accuracy, f1
from silobench.tasks.metrics import ACCURACY, AUC, AVERAGE_PRECISION, BALANCED_ACCURACY, F1, Metric
from silobench.tasks.objectives.cross_entropy import (
    Weighting,
    class_weights,
    count_classes,
    largest_class,
    weighted_loss,
)
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, Values, main_first, need_task
from silobench.tasks.score import Score

_METRICS = (AUC, AVERAGE_PRECISION, F1, BALANCED_ACCURACY, ACCURACY)
_ANY_ROWS = (BALANCED_ACCURACY, ACCURACY)  # metrics that are defined on rows of one class


@OBJECTIVES.register(added_later=("weights",))
def binary(
    main: Literal["auc", "average-precision", "f1", "balanced-accuracy", "accuracy"] = "auc",
    positive: str | int | float | bool | None = None,
    weights: Weighting = "equal",
) -> Fit:
    """Two classes: the loss is the cross-entropy; AUC, average precision, F1 and accuracies are reported.

    `positive` is the name of the positive class; by default it is the second class of the dataset, such as "yes" of
    "no" and "yes". Networks are trained bit for bit as with cross-entropy. AUC and average precision rank rows by the
    difference of the two outputs; equal differences are ties. They and F1 are undefined on rows of one class, where a
    record has null. With `weights=balanced` both classes count the same in training, whatever their sizes.
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
        metrics, place = main_first(_METRICS, main), dataset.classes.index(name)
        if weights == "equal":
            return Binary(*metrics, positive=place)
        return WeightedBinary(*metrics, positive=place, weights=class_weights(dataset))

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

    def constant_answer(self, dataset: Dataset) -> str:
        if self.main == ACCURACY:
            return largest_class(dataset)
        return dataset.classes[self.positive] if self.main == F1 else ""  # for the others, any answer is as good

    def metric_inputs(self, outputs: Tensor, y: Tensor) -> tuple[NDArray[Any], NDArray[np.float64]]:
        order = [1 - self.positive, self.positive]
        return (y.numpy() == self.positive).astype(np.int64), self.scores(outputs)[:, order]


@dataclass(frozen=True)
class WeightedBinary(Binary):
    """Classification of rows of two classes, in which each row counts with the weight of its class."""

    name: ClassVar[str] = "weighted binary"
    is_cross_entropy: ClassVar[bool] = False
    weights: tuple[float, ...] = ()  # by class

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return weighted_loss(outputs, y, self.weights) / len(y)

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        return replace(super().score(outputs, y), total_loss=float(weighted_loss(outputs, y, self.weights)))
