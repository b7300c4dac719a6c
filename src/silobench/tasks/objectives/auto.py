"""The objective that the labels of a dataset suggest."""

from dataclasses import replace

import numpy as np

from silobench.data.dataset import Dataset
from silobench.tasks.metric_functions import ExtraMetric, extra_metrics
from silobench.tasks.objectives.cross_entropy import plain
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective
from silobench.tasks.objectives.regression import regression
from silobench.tasks.objectives.verification import verification

_UNEVEN_METRICS = {
    True: ("balanced-accuracy", "auc", "average-precision", "f1"),  # of two classes
    False: ("balanced-accuracy", "macro-f1", "auc"),
}


@OBJECTIVES.register
def auto() -> Fit:
    """Regression if labels are numbers, verification if test rows are pairs, else cross-entropy with accuracy.

    Where classes are uneven, the final test also reports balanced accuracy, AUC and F1: see `is_uneven`.
    """

    def fit(dataset: Dataset) -> Objective:
        if dataset.task == "regression":
            label = f"the label {dataset.target} is" if dataset.target else "the labels are"
            return replace(regression()(dataset), reason=f"{label} numeric")
        if dataset.task == "verification":
            return replace(verification()(dataset), reason="the test rows are pairs")
        return replace(plain(), reason="the labels are classes", extra=uneven_metrics(dataset))

    return fit


def uneven_metrics(dataset: Dataset) -> tuple[ExtraMetric, ...]:
    """Return the metrics that the final test reports where classes are uneven; none where they are not."""
    return extra_metrics(_UNEVEN_METRICS[len(dataset.classes) == 2], dataset) if is_uneven(dataset) else ()


def is_uneven(dataset: Dataset) -> bool:
    """Whether one class is so frequent among the training rows that accuracy says little.

    That is more than two thirds of two classes, or more than one and a half times the mean share of more classes.
    """
    classes = len(dataset.classes)
    return dataset.task == "classification" and largest_share(dataset) > (2 / 3 if classes == 2 else 1.5 / classes)


def largest_share(dataset: Dataset) -> float:
    """Return the share of the most frequent class among the training rows."""
    counts = np.bincount(np.delete(dataset.train.y, dataset.validation))
    return float(counts.max() / counts.sum())
