"""Further metrics, which the key `metric` adds: functions of labels and scores, computed on the final test of a run.

A new one is a function decorated with `METRICS.register` that returns a `MetricFunction`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, TaskKind
from silobench.errors import ConfigError
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described, expects
from silobench.spec.ranges import Count
from silobench.tasks import formulas
from silobench.tasks.calibration import calibration
from silobench.tasks.metrics import AUC, AVERAGE_PRECISION, BALANCED_ACCURACY, F1, MACRO_F1, Metric

Compute: TypeAlias = Callable[[NDArray[Any], NDArray[np.float64]], float | None]


@dataclass(frozen=True)
class MetricFunction:
    """A metric as a function of the labels of the test rows and of a network's scores on them.

    For classes, `compute` gets class numbers ``[n]`` and probabilities ``[n, classes]``; of two classes, number 1 is
    the positive one. For a numeric target it gets the targets ``[n]`` and the predictions ``[n]``, in the target's
    unit. It returns a number, or None where the metric is undefined on these rows.

    `unit` is "%" for shares from 0 to 1, which are shown as percentages, or "target" for the unit of a numeric target.
    `task` is the kind of labels that it is for, and `classes` how many classes it needs, None for any number.
    `needs_probabilities` refuses an objective whose scores only order the classes, such as hinge.
    """

    compute: Compute
    higher_is_better: bool = True
    unit: str = ""
    title: str = ""  # its name if empty
    task: TaskKind = "classification"
    classes: int | None = None
    needs_probabilities: bool = False

    def metric(self, name: str, target_unit: str = "") -> Metric:
        """Return the metric under a name, without the value of a constant answer."""
        unit = target_unit if self.unit == "target" else self.unit
        factor, digits = (100.0, 1) if unit == "%" else (1.0, 3)
        return Metric(name, self.title or name, self.higher_is_better, unit, factor, digits)


@dataclass(frozen=True)
class ExtraMetric:
    """A metric that a run reports besides those of its objective, with the function that computes it."""

    metric: Metric  # with the value of the best constant answer
    compute: Compute

    def value(self, y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        """Return the metric of some rows; None where it is undefined, as for a network that has diverged."""
        return _number(self.compute, y, scores) if np.isfinite(scores).all() else None


def _is_number(value: Any, arguments: Sequence[Any]) -> str | None:
    if value is None or (isinstance(value, int | float | np.number) and not isinstance(value, bool)):
        return None
    return f"{described(value)}, but a number is expected, or None where the metric is undefined"


_FIELDS = {"higher_is_better": expects(bool, "True or False"), "unit": expects(str, "a text")}
_HOOKS = {"compute": Form("y, scores", _is_number)}
METRICS: Registry[MetricFunction] = Registry(
    "metric", Contract(MetricFunction, "an sb.MetricFunction(compute)", _HOOKS, _FIELDS)
)


def extra_metrics(
    specs: Sequence[str], dataset: Dataset, positive: int = 1, has_probabilities: bool = True
) -> tuple[ExtraMetric, ...]:
    """Return the metrics of specs for a dataset; raise `ConfigError` if one does not suit it, or is there twice.

    `positive` is the number of the positive class, if there are two, and `has_probabilities` whether scores are
    probabilities. Each metric is called once here with constant
    answers, so that a function that fails does so before the first round.
    """
    metrics: dict[str, ExtraMetric] = {}
    for spec in specs:
        bound = METRICS.bind(spec)
        name = str(bound.short)
        if name in metrics:
            raise ConfigError(f"metric has {name} twice: ask for it once.")
        function = bound.build()
        _check_suits(name, function, dataset)
        if function.needs_probabilities and not has_probabilities:
            raise ConfigError(
                f"the metric {name} needs probabilities, which a model of this objective does not have: leave it out."
            )
        metric = function.metric(name, dataset.unit)
        constants = [_number(function.compute, *answer) for answer in _constant_answers(dataset, positive)]
        known = [value for value in constants if value is not None]
        metrics[name] = ExtraMetric(replace(metric, constant=metric.best(known) if known else None), function.compute)
    return tuple(metrics.values())


def _check_suits(name: str, function: MetricFunction, dataset: Dataset) -> None:
    if function.task != dataset.task:
        raise ConfigError(
            f"the metric {name} is for {function.task}, but the task of {dataset.name} is {dataset.task}: "
            "leave it out, or take another of `silobench list metrics`."
        )
    if function.classes not in (None, len(dataset.classes)):
        raise ConfigError(
            f"the metric {name} is for {function.classes} classes, but {dataset.name} has {len(dataset.classes)}: "
            "leave it out, or take another of `silobench list metrics`."
        )


def _constant_answers(dataset: Dataset, positive: int) -> list[tuple[NDArray[Any], NDArray[np.float64]]]:
    """Return labels and scores of constant answers, among which is the best one of usual metrics.

    For classes these are their shares among the test rows and, of two classes, scores that prefer either. For a number
    they are the mean, the median, the median weighted by 1/|y| (the best for relative errors) and other quantiles.
    """
    if dataset.task == "regression":
        y = dataset.test.y.astype(np.float64).reshape(-1)
        centers = (y.mean(), np.median(y), _relative_median(y), *np.quantile(y, np.linspace(0, 1, 101)))
        return [(y, np.full(len(y), float(center))) for center in centers]
    y, classes = dataset.test.y.astype(np.int64), len(dataset.classes)
    if classes == 2:
        y = (y == positive).astype(np.int64)
    shares = np.bincount(y, minlength=classes) / len(y)
    preferring = [(shares + only) / 2 for only in np.eye(2)] if classes == 2 else []
    return [(y, np.broadcast_to(scores, (len(y), classes))) for scores in (shares, *preferring)]


def _relative_median(y: NDArray[np.float64]) -> float:
    """Return the number with the smallest mean of |error / y|."""
    order = np.argsort(y)
    with np.errstate(over="ignore"):  # where several numbers are 0, and the result is one of them
        weights = np.cumsum(1 / np.maximum(np.abs(y[order]), np.finfo(np.float64).tiny))
    return float(y[order][np.searchsorted(weights, weights[-1] / 2)])


def _number(compute: Compute, y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
    """Return the value of a metric; None where it is undefined or not finite."""
    value = compute(y, scores)
    return float(value) if value is not None and math.isfinite(value) else None


# --- metrics of classes -------------------------------------------------------------------------------


def _share(metric: Metric, compute: Compute, classes: int | None = None) -> MetricFunction:
    return MetricFunction(compute, metric.higher_is_better, metric.unit, metric.title, classes=classes)


def _answers(y: NDArray[Any], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the confusion matrix of the classes with the largest scores."""
    return formulas.confusion(y, scores.argmax(1), scores.shape[1])


def _margin(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log-odds of the positive class: they tell rows apart that are certain in double precision."""
    with np.errstate(divide="ignore", invalid="ignore"):
        odds: NDArray[np.float64] = np.log(scores[:, 1]) - np.log(scores[:, 0])
    return np.where(np.isnan(odds), -np.inf, odds)  # a network that has diverged calls no row positive


@METRICS.register
def balanced_accuracy() -> MetricFunction:
    """The mean of the accuracies on each class."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        table = _answers(y, scores)
        return formulas.balanced_accuracy(np.diag(table), table.sum(1))

    return _share(BALANCED_ACCURACY, compute)


@METRICS.register
def macro_f1() -> MetricFunction:
    """The mean of the F1 scores of the classes that occur among the test rows or the answers."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        table = _answers(y, scores)
        return formulas.macro_f1(np.diag(table), table.sum(1), table.sum(0))

    return _share(MACRO_F1, compute)


@METRICS.register
def auc() -> MetricFunction:
    """The area under the ROC curve of the positive class; of more than two classes, the mean of one against the rest.

    The mean is over classes that occur among the test rows, if at least two do.
    """

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        if scores.shape[1] == 2:
            return formulas.auc(_margin(scores), y == 1)
        areas = [formulas.auc(scores[:, label], y == label) for label in np.unique(y).tolist()]
        known = [area for area in areas if area is not None]
        return float(np.mean(known)) if known else None

    return _share(AUC, compute)


@METRICS.register
def average_precision() -> MetricFunction:
    """The average precision of the positive one of two classes."""
    return _share(AVERAGE_PRECISION, lambda y, scores: formulas.average_precision(_margin(scores), y == 1), classes=2)


@METRICS.register
def f1() -> MetricFunction:
    """The F1 score of the positive one of two classes."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        table = _answers(y, scores)
        return formulas.f1(np.diag(table), table.sum(1), positive=1)

    return _share(F1, compute, classes=2)


@METRICS.register
def sensitivity() -> MetricFunction:
    """The share of positive rows that are called positive (recall), of two classes."""
    return MetricFunction(lambda y, scores: _ratio(_answers(y, scores)[1], 1), unit="%", classes=2)


@METRICS.register
def specificity() -> MetricFunction:
    """The share of negative rows that are called negative, of two classes."""
    return MetricFunction(lambda y, scores: _ratio(_answers(y, scores)[0], 0), unit="%", classes=2)


@METRICS.register
def precision() -> MetricFunction:
    """The share of rows called positive that are positive, of two classes; undefined if none is called positive."""
    return MetricFunction(lambda y, scores: _ratio(_answers(y, scores)[:, 1], 1), unit="%", classes=2)


def _ratio(counts: NDArray[np.int64], place: int) -> float | None:
    return float(counts[place] / counts.sum()) if counts.sum() else None


@METRICS.register
def log_loss() -> MetricFunction:
    """The mean of -log(probability of the class); probabilities are at least 2.2e-16, as in scikit-learn."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        least = np.finfo(np.float64).eps
        return float(-np.log(np.clip(scores[np.arange(len(y)), y], least, 1.0)).mean())

    return MetricFunction(compute, higher_is_better=False, title="log-loss", needs_probabilities=True)


@METRICS.register
def brier() -> MetricFunction:
    """The mean squared error of the probabilities: of the positive one of two classes, or summed over all classes."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        return calibration(y, scores.argmax(1), scores).brier

    return MetricFunction(compute, higher_is_better=False, title="Brier score", needs_probabilities=True)


@METRICS.register
def cohen_kappa() -> MetricFunction:
    """Cohen's kappa: the accuracy above that of random answers with the same frequencies; 0 for a constant answer."""
    return MetricFunction(lambda y, scores: formulas.cohen_kappa(_answers(y, scores)), title="Cohen's kappa")


@METRICS.register
def matthews() -> MetricFunction:
    """Matthews' correlation of classes and answers; 0 where all answers or all rows are of one class."""
    return MetricFunction(lambda y, scores: formulas.matthews(_answers(y, scores)) or 0.0, title="Matthews")


@METRICS.register
def top_accuracy(k: Count = 5) -> MetricFunction:
    """The share of rows whose class is among the `k` with the largest scores; a tie counts for the row."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        better = (scores > scores[np.arange(len(y)), y][:, None]).sum(1)
        return float((better < k).mean())

    return MetricFunction(compute, unit="%", title=f"top-{k} accuracy")


# --- metrics of numbers -------------------------------------------------------------------------------


@METRICS.register
def median_error() -> MetricFunction:
    """The median of the absolute errors of a numeric target."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        return float(np.median(np.abs(y - scores)))

    return MetricFunction(compute, higher_is_better=False, unit="target", title="median error", task="regression")


@METRICS.register
def percentage_error() -> MetricFunction:
    """The mean of |error / target| of a numeric target (MAPE); undefined if some target is 0."""

    def compute(y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
        return float(np.abs((y - scores) / y).mean()) if np.all(y != 0) else None

    return MetricFunction(compute, higher_is_better=False, unit="%", title="percentage error", task="regression")
