"""Metrics of the key `metric` as scikit-learn's, calibration by hand, constant answers, and wrong functions."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics as oracle

from silobench.data.dataset import Dataset, Split
from silobench.errors import ConfigError, SilobenchError, SpecError
from silobench.tasks.calibration import BINS, Calibration, calibration
from silobench.tasks.metric_functions import METRICS, MetricFunction, extra_metrics

TOLERANCE = 1e-12  # double precision, sums of 300 numbers below 40


def scores_of(seed: int, classes: int, rows: int = 300) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels and probabilities; some rows are ties, and the last class is rare."""
    draw = np.random.default_rng(seed)
    y = np.minimum(draw.integers(classes, size=rows), draw.integers(classes, size=rows))
    logits = draw.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y]
    logits[::7] = logits[0]
    exponentials = np.exp(logits)
    return y, exponentials / exponentials.sum(1, keepdims=True)


def value(spec: str, y: NDArray[Any], scores: NDArray[np.float64]) -> float | None:
    return METRICS.build(spec).compute(y, scores)


TWO = {
    "balanced-accuracy": lambda y, p: oracle.balanced_accuracy_score(y, p.argmax(1)),
    "macro-f1": lambda y, p: oracle.f1_score(y, p.argmax(1), average="macro"),
    "auc": lambda y, p: oracle.roc_auc_score(y, p[:, 1]),
    "average-precision": lambda y, p: oracle.average_precision_score(y, p[:, 1]),
    "f1": lambda y, p: oracle.f1_score(y, p.argmax(1)),
    "sensitivity": lambda y, p: oracle.recall_score(y, p.argmax(1)),
    "specificity": lambda y, p: oracle.recall_score(y, p.argmax(1), pos_label=0),
    "precision": lambda y, p: oracle.precision_score(y, p.argmax(1)),
    "log-loss": lambda y, p: oracle.log_loss(y, p),
    "brier": lambda y, p: oracle.brier_score_loss(y, p[:, 1]),
    "cohen-kappa": lambda y, p: oracle.cohen_kappa_score(y, p.argmax(1)),
    "matthews": lambda y, p: oracle.matthews_corrcoef(y, p.argmax(1)),
}
MANY = {
    **{name: TWO[name] for name in ("balanced-accuracy", "macro-f1", "log-loss", "cohen-kappa", "matthews")},
    "auc": lambda y, p: oracle.roc_auc_score(y, p, multi_class="ovr", average="macro"),
    "brier": lambda y, p: oracle.brier_score_loss(y, p, labels=range(p.shape[1])),
    "top-accuracy(k=2)": lambda y, p: oracle.top_k_accuracy_score(y, p, k=2),
    "top-accuracy": lambda y, p: oracle.top_k_accuracy_score(y, p, k=5),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", TWO)
def test_two_classes_as_scikit_learn(name: str, seed: int) -> None:
    y, scores = scores_of(seed, 2)
    assert value(name, y, scores) == pytest.approx(TWO[name](y, scores), abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MANY)
def test_seven_classes_as_scikit_learn(name: str, seed: int) -> None:
    y, scores = scores_of(seed, 7)
    assert len(np.unique(y)) == 7
    if "top" in name:
        scores = scores + 1e-9 * np.random.default_rng(seed).random(scores.shape)  # scikit-learn breaks ties by place
    assert value(name, y, scores) == pytest.approx(MANY[name](y, scores), abs=TOLERANCE)


@pytest.mark.parametrize("name", ["median-error", "percentage-error"])
def test_numbers_as_scikit_learn(name: str) -> None:
    draw = np.random.default_rng(0)
    y, guess = draw.normal(50, 5, 99), draw.normal(50, 5, 99)
    expected = {
        "median-error": oracle.median_absolute_error,
        "percentage-error": oracle.mean_absolute_percentage_error,
    }[name]
    assert value(name, y, guess) == pytest.approx(expected(y, guess), abs=TOLERANCE)
    y[3] = 0
    assert (value(name, y, guess) is None) == (name == "percentage-error")


def test_metrics_are_undefined_where_they_mean_nothing() -> None:
    one, scores = np.ones(4, np.int64), np.array([[0.9, 0.1]] * 4)
    undefined = ("auc", "specificity", "precision")
    assert [value(name, one, scores) for name in undefined] == [None] * 3
    assert value("average-precision", 1 - one, scores) is None
    assert value("matthews", one, scores) == 0.0 == oracle.matthews_corrcoef(one, scores.argmax(1))


def test_certain_rows_are_still_ranked() -> None:
    """In double precision both probabilities of the positive class are 1, but the log-odds differ."""
    y, margins = np.array([0, 1, 0]), np.array([40.0, 50.0, -3.0])
    with np.errstate(over="ignore"):
        scores = np.stack([1 / (1 + np.exp(margins)), 1 / (1 + np.exp(-margins))], 1)
    assert scores[0, 1] == scores[1, 1] == 1.0
    assert value("auc", y, scores) == 1.0


# --- calibration --------------------------------------------------------------------------------------


def test_calibration_by_hand() -> None:
    """Confidences 0.9, 0.9, 0.6 and 1: bins (0.8667, 0.9333], (0.5333, 0.6] and (0.9333, 1]."""
    y, answers = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])
    scores = np.array([[0.9, 0.1], [0.1, 0.9], [0.4, 0.6], [0.0, 1.0]])
    one = calibration(y, answers, scores)
    assert {place: count for place, count in enumerate(one.rows.tolist()) if count} == {8: 1, 13: 2, 14: 1}
    assert one.error == pytest.approx((2 * abs(0.5 - 0.9) + abs(1 - 0.6) + 0) / 4)
    assert one.brier == pytest.approx((0.01 + 0.81 + 0.16 + 0) / 4)
    facts = one.as_json()
    assert (facts["confidence"][13], facts["accuracy"][13], facts["accuracy"][0]) == (0.9, 0.5, 0.0)


@pytest.mark.parametrize("classes", [2, 7])
def test_calibration_error_row_by_row(classes: int) -> None:
    y, scores = scores_of(1, classes)
    answers = scores.argmax(1)
    expected = 0.0
    for place in range(BINS):
        inside = [row for row in range(len(y)) if place / BINS < scores[row].max() <= (place + 1) / BINS]
        if inside:
            accuracy = sum(answers[row] == y[row] for row in inside) / len(inside)
            confidence = math.fsum(scores[row].max() for row in inside) / len(inside)
            expected += len(inside) / len(y) * abs(accuracy - confidence)
    assert calibration(y, answers, scores).error == pytest.approx(expected, abs=TOLERANCE)


def test_parts_of_a_calibration_add_up() -> None:
    y, scores = scores_of(2, 3)
    whole, parts = calibration(y, scores.argmax(1), scores), []
    for rows in np.split(np.arange(len(y)), [7, 150]):
        parts.append(calibration(y[rows], scores[rows].argmax(1), scores[rows]))
    total: Calibration = parts[0] + parts[1] + parts[2]
    assert total.rows.tolist() == whole.rows.tolist()
    assert (total.error, total.brier) == pytest.approx((whole.error, whole.brier), abs=TOLERANCE)


def test_a_diverged_network_is_as_badly_calibrated_as_can_be() -> None:
    one = calibration(np.array([1, 1]), np.array([0, 0]), np.full((2, 3), math.nan))
    assert (one.rows[-1], one.error) == (2, 1.0)


# --- constants and errors -----------------------------------------------------------------------------


def dataset(y: Any, classes: int = 2, task: str = "classification") -> Dataset:
    y = np.asarray(y, np.float32 if task == "regression" else np.int64)
    split = Split(np.zeros((len(y), 2), np.float32), y)
    names = () if task == "regression" else tuple("abcdefgh"[:classes])
    return Dataset("letters", split, split, names, "none", task=task, unit="years")  # type: ignore[arg-type]


def test_the_constant_of_a_metric_is_that_of_the_best_constant_answer() -> None:
    data = dataset([0, 0, 0, 1])
    names = ("balanced-accuracy", "auc", "average-precision", "f1", "log-loss", "cohen-kappa", "specificity")
    constants = {each.metric.name: each.metric.constant for each in extra_metrics(names, data)}
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert constants == pytest.approx(
        {"balanced-accuracy": 0.5, "auc": 0.5, "average-precision": 0.25, "f1": 0.4, "log-loss": entropy,
         "cohen-kappa": 0.0, "specificity": 1.0}
    )  # fmt: skip
    (flipped,) = extra_metrics(["average-precision"], data, positive=0)
    assert flipped.metric.constant == 0.75


def test_a_target_that_is_often_0_causes_no_warning() -> None:
    (each,) = extra_metrics(["median-error"], dataset([0, 0, 0, 0, 0, 1, 2], task="regression"))
    assert each.metric.constant == 0


def test_the_constant_of_an_error_is_that_of_the_median_or_the_mean() -> None:
    (each,) = extra_metrics(["median-error"], dataset([1, 2, 3, 10], task="regression"))
    assert each.metric.constant == 1.0
    assert (each.metric.unit, each.metric.higher_is_better) == ("years", False)


def test_the_constant_of_a_relative_error_is_the_best_of_all_numbers() -> None:
    y = np.random.default_rng(0).lognormal(3, 1.5, 201)
    (each,) = extra_metrics(["percentage-error"], dataset(y, task="regression"))
    y = y.astype(np.float32).astype(np.float64)
    best = min(float(np.abs((y - answer) / y).mean()) for answer in np.concatenate([y, np.linspace(0, y.max(), 2000)]))
    assert each.metric.constant == pytest.approx(best, rel=1e-9)


def test_a_metric_of_probabilities_refuses_scores_that_are_not() -> None:
    data = dataset([0, 0, 0, 1])
    assert extra_metrics(["auc"], data, has_probabilities=False)
    with pytest.raises(ConfigError, match="the metric log-loss needs probabilities"):
        extra_metrics(["log-loss"], data, has_probabilities=False)


def register(name: str, compute: Any) -> None:
    def factory() -> Any:
        return compute

    factory.__name__ = name
    METRICS.register(factory)


@pytest.fixture
def own_metrics() -> Any:
    """Metrics of a user, of which only the first is right."""
    before = dict(METRICS.factories)
    register("share_of_ones", MetricFunction(lambda y, scores: float(y.mean()), unit="%"))
    register("raises", MetricFunction(lambda y, scores: 1 / 0))
    register("returns_text", MetricFunction(lambda y, scores: "high"))  # type: ignore[arg-type, return-value]
    register("returns_bool", MetricFunction(lambda y, scores: True))
    register("one_argument", MetricFunction(lambda y: 0.5))  # type: ignore[arg-type, misc]
    register("no_function", 0.5)
    yield
    METRICS.factories.clear()
    METRICS.factories.update(before)


def test_a_metric_of_a_user(own_metrics: Any) -> None:
    (each,) = extra_metrics(["share-of-ones"], dataset([0, 0, 0, 1]))
    assert each.metric.constant == 0.25
    assert each.metric.text(0.25) == "25.0%"
    assert each.value(np.array([1, 1]), np.zeros((2, 2))) == 1.0


@pytest.mark.parametrize(
    ("specs", "fragment"),
    [
        (["raises"], "ZeroDivisionError"),
        (["returns-text"], "a number is expected, or None where the metric is undefined"),
        (["returns-bool"], "a number is expected, or None where the metric is undefined"),
        (["one-argument"], r"is called with \(y, scores\), but it takes \(y\)"),
        (["no-function"], r"must return an sb.MetricFunction\(compute\)"),
        (["auc", "auc"], "metric has auc twice"),
        (["median-error"], "is for regression, but the task of letters is classification"),
    ],
)
def test_wrong_metrics_are_refused_before_the_first_round(own_metrics: Any, specs: list[str], fragment: str) -> None:
    with pytest.raises(SilobenchError, match=fragment):
        extra_metrics(specs, dataset([0, 0, 0, 1]))


def test_a_metric_for_two_classes_refuses_three() -> None:
    with pytest.raises(ConfigError, match="f1 is for 2 classes, but letters has 3"):
        extra_metrics(["f1"], dataset([0, 1, 2, 2], classes=3))


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(SpecError, match="there is no metric 'specifity': did you mean specificity"):
        extra_metrics(["specifity"], dataset([0, 0, 0, 1]))
