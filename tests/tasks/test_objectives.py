"""Objectives: metrics as scikit-learn's, scores that add up, losses by hand, and which labels each of them needs."""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics as oracle

from silobench.data import load
from silobench.data.dataset import Dataset, Split
from silobench.engines import inline, native, stacked
from silobench.engines.kernel import why_not
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.probe import travel
from silobench.loop.rounds import rounds
from silobench.measures import MEASURES
from silobench.method.algorithms import ALGORITHMS, fedavg
from silobench.method.control import Travel
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.metrics import ACCURACY, AUC, Metric
from silobench.tasks.objectives import OBJECTIVES, Objective
from silobench.tasks.objectives.binary import auc, average_precision
from silobench.tasks.score import Score
from silobench.tasks.task import task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

TOLERANCE = 1e-12


def numbers(y: Any, name: str = "ages", **facts: Any) -> Dataset:
    """A dataset with these targets, and one feature that is nearly the target."""
    y = np.asarray(y, np.float32)
    split = Split((y[:, None] / 50).astype(np.float32), y)
    return Dataset(name, split, split, (), "none", task="regression", **facts)


def classes(y: Any, count: int, name: str = "letters") -> Dataset:
    y = np.asarray(y, np.int64)
    split = Split(np.stack([y, y % 2], 1).astype(np.float32), y)
    return Dataset(name, split, split, tuple("abcdefgh"[:count]), "none")


def objective(spec: str, dataset: Dataset) -> Objective:
    return OBJECTIVES.build(spec)(dataset)


def score_in_parts(judge: Objective, outputs: torch.Tensor, y: torch.Tensor, cuts: list[int]) -> Score:
    parts = zip(outputs.tensor_split(cuts), y.tensor_split(cuts), strict=True)
    return sum((judge.score(some, labels) for some, labels in parts if len(labels)), Score())


# --- metrics as scikit-learn's ------------------------------------------------------------------------

few = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])  # few values, so that there are ties
ranked = st.lists(st.tuples(few | st.floats(-5, 5, width=32), st.booleans()), min_size=1, max_size=60)


@given(ranked)
def test_auc_and_average_precision_are_those_of_scikit_learn(rows: list[tuple[float, bool]]) -> None:
    ranks, positive = np.array([rank for rank, _ in rows]), np.array([label for _, label in rows])
    assert (auc(ranks, positive) is None) == (positive.all() or not positive.any())
    assert (average_precision(ranks, positive) is None) == (not positive.any())
    if positive.any() and not positive.all():
        assert auc(ranks, positive) == pytest.approx(oracle.roc_auc_score(positive, ranks), abs=TOLERANCE)
    if positive.any():
        expected = oracle.average_precision_score(positive, ranks)
        assert average_precision(ranks, positive) == pytest.approx(expected, abs=TOLERANCE)


def test_auc_and_average_precision_by_hand() -> None:
    assert auc(np.array([1.0, 1.0]), np.array([True, False])) == 0.5
    assert auc(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])) == 0.875
    assert average_precision(np.array([3.0, 2.0, 1.0]), np.array([False, True, True])) == (1 / 2 + 2 / 3) / 2


@given(st.lists(st.tuples(few, few, st.integers(0, 1)), min_size=1, max_size=50), st.integers(0, 1), st.data())
def test_binary_metrics_of_outputs_in_parts(rows: list[tuple[float, float, int]], positive: int, data: Any) -> None:
    outputs, y = torch.tensor([row[:2] for row in rows]), torch.tensor([row[2] for row in rows])
    judge = objective(f"binary(positive={'ab'[positive]})", classes([0, 1], 2))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    values = judge.values(score_in_parts(judge, outputs, y, cuts))
    labels, answers = y.numpy() == positive, outputs.argmax(1).numpy() == positive
    assert values["accuracy"] == pytest.approx(oracle.accuracy_score(labels, answers), abs=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about a class that does not occur
        balanced = oracle.balanced_accuracy_score(labels, answers)
    assert values["balanced-accuracy"] == pytest.approx(balanced, abs=TOLERANCE)
    if labels.any() or answers.any():
        assert values["f1"] == pytest.approx(oracle.f1_score(labels, answers), abs=TOLERANCE)
    else:
        assert values["f1"] is None
    if labels.any() and not labels.all():
        margin = outputs[:, positive].double() - outputs[:, 1 - positive].double()
        assert values["auc"] == pytest.approx(oracle.roc_auc_score(labels, margin.numpy()), abs=TOLERANCE)
    else:
        assert values["auc"] is None
    assert values == judge.values(judge.score(outputs, y))  # in one part


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60), st.data())
def test_macro_f1_and_balanced_accuracy_with_missing_classes(rows: list[tuple[int, int]], data: Any) -> None:
    labels, answers = (np.array(side) for side in zip(*rows, strict=True))
    outputs, y = F.one_hot(torch.from_numpy(answers), 5).float(), torch.from_numpy(labels)
    judge = objective("cross-entropy(main=macro-f1)", classes(range(5), 5))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    values = judge.values(score_in_parts(judge, outputs, y, cuts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert values == pytest.approx(
            {
                "macro-f1": oracle.f1_score(labels, answers, average="macro"),
                "accuracy": oracle.accuracy_score(labels, answers),
                "balanced-accuracy": oracle.balanced_accuracy_score(labels, answers),
            },
            abs=TOLERANCE,
        )


targets = st.lists(st.integers(1900, 2020) | st.floats(1900, 2020, width=32), min_size=2, max_size=50)


@settings(deadline=None)
@given(targets, st.integers(0, 2**31), st.data())
def test_regression_metrics_of_outputs_in_parts(y: list[float], seed: int, data: Any) -> None:
    dataset = numbers(y)
    judge = objective("regression", dataset)
    outputs = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(y), 1)).astype(np.float32))
    labels = torch.from_numpy(dataset.train.y)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(y)), max_size=3)))
    values = judge.values(score_in_parts(judge, outputs, labels, cuts))
    truth = dataset.train.y.astype(np.float64)
    spread, middle = truth.std() or 1.0, truth.mean()
    answers = outputs[:, 0].numpy().astype(np.float64) * spread + middle
    expected = {
        "mae": oracle.mean_absolute_error(truth, answers),
        "mse": oracle.mean_squared_error(truth, answers),
        "rmse": oracle.root_mean_squared_error(truth, answers),
        "r2": oracle.r2_score(truth, answers) if truth.min() < truth.max() else None,
    }
    assert (values["r2"] is None) == (expected["r2"] is None)
    for name, value in expected.items():
        if value is not None:  # the sum of 50 terms has a relative error of 50 units in the last place
            assert values[name] == pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE)


def test_r2_of_targets_that_hardly_differ_beside_their_size() -> None:
    """Σy² - (Σy)²/n would lose 14 of 16 digits here: sums are about the training mean instead."""
    y = 1e6 + np.arange(40) % 5
    judge = objective("regression", numbers(y))
    outputs = torch.linspace(-1, 1, 40)[:, None]
    score = judge.score(outputs, torch.from_numpy(y.astype(np.float32)))
    answers = outputs[:, 0].double().numpy() * y.std() + y.mean()
    assert judge.values(score)["r2"] == pytest.approx(oracle.r2_score(y, answers), rel=1e-9)


# --- losses and constants, by hand --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("regression", (1.0**2 + 3.0**2) / 2),
        ("regression(loss=absolute)", (1.0 + 3.0) / 2),
        ("regression(loss=huber)", (0.5 + (3.0 - 0.5)) / 2),
        ("regression(loss=huber, delta=2.0)", (0.5 + 2 * (3.0 - 1)) / 2),
    ],
)
def test_losses_are_of_standardised_targets(spec: str, expected: float) -> None:
    judge = objective(spec, numbers([40.0, 60.0]))  # mean 50, deviation 10
    outputs, y = torch.tensor([[2.0], [-2.0]]), torch.tensor([60.0, 60.0])  # standardised, the targets are 1
    assert judge.loss(outputs, y).item() == pytest.approx(expected, rel=1e-6)
    assert judge.score(outputs, y).loss == pytest.approx(expected, rel=1e-12)
    assert judge.values(judge.score(outputs, y)) == {
        "mae": 20.0,
        "mse": 500.0,
        "rmse": math.sqrt(500),
        "r2": None,  # all targets of this test are equal
    }


def test_the_mean_and_the_deviation_are_those_of_training_rows_without_validation_rows() -> None:
    dataset = replace(numbers([40.0, 60.0, 1000.0]), validation=np.array([2]))
    facts = objective("regression", dataset).as_json("regression", dataset)
    assert (facts["target"]["mean"], facts["target"]["std"]) == (50.0, 10.0)


def test_the_facts_of_a_run() -> None:
    dataset = numbers([20.0, 30.0, 40.0, 80.0], target="age", unit="years")
    facts = objective("auto", dataset).as_json("auto", dataset)
    assert (facts["name"], facts["spec"], facts["main"]) == ("regression", "regression", "mae")
    assert facts["reason"] == "the label age is numeric"
    first = facts["metrics"][0]
    assert first == {
        "name": "mae",
        "title": "MAE",
        "higher_is_better": False,
        "unit": "years",
        "factor": 1.0,
        "digits": 2,
        "constant": (15 + 5 + 5 + 45) / 4,  # of the median, 35
    }
    assert facts["target"]["name"] == "age"
    assert (facts["target"]["bins"][0], facts["target"]["bins"][-1]) == (20.0, 80.0)
    letters = classes([0, 0, 0, 1], 2)
    plain = objective("auto", letters).as_json("auto", letters)
    assert [metric["constant"] for metric in plain["metrics"]] == [0.75]
    assert (plain["reason"], "target" in plain) == ("the labels are classes", False)
    uneven = objective("binary", letters).as_json("binary", letters)
    assert {metric["name"]: metric["constant"] for metric in uneven["metrics"]} == {
        "auc": 0.5,
        "average-precision": 0.25,
        "f1": 0.4,
        "balanced-accuracy": 0.5,
        "accuracy": 0.75,
    }


@pytest.mark.parametrize("spec", ["cross-entropy", "binary"])
def test_constants_are_the_metrics_of_a_constant_answer(spec: str) -> None:
    """For F1 the best constant answer is the positive class, and for the others the larger class, or any."""
    y = np.repeat([0, 1], [30, 10])
    dataset = classes(y, 2)
    judge = objective(spec, dataset)

    def values_of(answer: int) -> dict[str, float | None]:
        outputs = F.one_hot(torch.full((40,), answer), 2).float()
        return judge.values(judge.score(outputs, torch.from_numpy(y)))

    constants, by_answer = judge.constants(dataset), [values_of(0), values_of(1)]
    for metric in judge.metrics:
        values = [value for each in by_answer if (value := each[metric.name]) is not None]
        assert constants[metric.name] == pytest.approx(max(values))


# --- which labels an objective needs ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "dataset", "message"),
    [
        ("regression", classes([0, 1], 2), "regression needs numbers as labels, but the task of letters is classif"),
        ("cross-entropy", numbers([1, 2]), 'needs classes, but the task of ages is regression: write objective = "reg'),
        ("binary", numbers([1, 2]), "needs two classes, but the task of ages is regression"),
        ("binary", classes([0, 1, 2], 3), "needs two classes, but letters has 3"),
        ("binary(positive=z)", classes([0, 1], 2), "has no class 'z' to be positive"),
        ("verification", classes([0, 1], 2), "needs pairs of rows to test on"),
    ],
)
def test_labels_that_do_not_suit_are_refused(spec: str, dataset: Dataset, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        task("linear", dataset, objective=spec)
    assert "\n" not in str(caught.value)


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(SpecError, match="main must be 'mae'"):
        OBJECTIVES.build("regression(main=accuracy)")


@pytest.mark.parametrize("algorithm", ["moon", "fedrs"])
def test_an_algorithm_with_its_own_loss_for_classes_refuses_a_number(algorithm: str) -> None:
    dataset = numbers(range(20))
    method = Method(ALGORITHMS.build(algorithm), sgd())
    with pytest.raises(ConfigError, match="but the objective is regression: take an algorithm without"):
        Setting(method, federate(dataset, "iid", 2), task("linear", dataset), 0)


# --- training -----------------------------------------------------------------------------------------


def two_classes() -> Dataset:
    rng = np.random.default_rng(3)
    y = (rng.random(300) < 0.2).astype(np.int64)
    x = (rng.normal(size=(300, 4)) + y[:, None]).astype(np.float32)
    return Dataset("uneven", Split(x[:200], y[:200]), Split(x[200:], y[200:]), ("no", "yes"), "none")


def last(dataset: Dataset, spec: str, engine: Any = None, count: int = 3, **how: Any) -> RoundRecord:
    federation = federate(dataset, how.pop("partition", "iid"), 4, 0, how.pop("validation", 0.0))
    built = task("mlp(8)", dataset, objective=spec)
    method = Method(fedavg(), sgd(lr=0.05, epochs=2))
    return [*rounds(method, federation, built, rounds=count, engine=engine or inline(), **how)][-1]


ENGINES = [inline, stacked, *([] if why_not() else [native])]


@pytest.mark.parametrize("engine", ENGINES)
def test_two_classes_train_bit_for_bit_as_before_whatever_is_reported(engine: Any) -> None:
    data = two_classes()
    plain, uneven, several = (
        last(data, spec, engine(), validation=0.2) for spec in ("auto", "binary", "cross-entropy(main=macro-f1)")
    )
    for other in (uneven, several):
        assert torch.equal(plain.state.server.params, other.state.server.params)
        assert (plain.accuracy, plain.class_accuracy) == (other.accuracy, other.class_accuracy)
        assert other.loss == pytest.approx(plain.loss, rel=1e-5)
    assert plain.metrics == {}
    assert "metrics" not in plain.as_json()
    assert list(uneven.metrics) == ["auc", "average-precision", "f1", "balanced-accuracy", "accuracy"]
    assert list(several.metrics) == ["macro-f1", "accuracy", "balanced-accuracy"]
    assert several.metrics["balanced-accuracy"] == np.mean(plain.class_accuracy)  # type: ignore[arg-type]
    assert plain.validation_loss == pytest.approx(uneven.validation_loss, rel=1e-5)
    assert len(uneven.party_accuracy or ()) == 4


@pytest.mark.parametrize("engine", [stacked, native])
def test_fast_engines_refuse_a_number(engine: Any) -> None:
    with pytest.raises(ConfigError, match="cannot run this experiment"):
        last(numbers(range(40)), "auto", engine())


@pytest.mark.parametrize("engine", [stacked, native])
def test_fast_engines_refuse_a_loss_that_does_not_say_that_it_is_the_cross_entropy(engine: Any) -> None:
    @dataclass(frozen=True)
    class Doubled(Objective):
        name = "doubled"

        def loss(self, outputs: Any, y: Any) -> Any:
            return 2 * F.cross_entropy(outputs, y)

        def score(self, outputs: Any, y: Any) -> Score:
            return Score()

        def values(self, score: Score) -> dict[str, float | None]:
            return {}

    data = load("digits")
    ours = replace(task("linear", data), objective=Doubled(ACCURACY, (ACCURACY,)))
    setting = Setting(Method(fedavg()), federate(data, "iid", 3), ours, 0)
    with pytest.raises(ConfigError, match="cannot run this experiment"):
        engine().settled(setting)


def test_a_number_is_learnt_and_recorded_in_its_own_units() -> None:
    data = numbers(20 + np.arange(200) % 60)
    method, federation = Method(fedavg(), sgd(lr=0.2, epochs=5)), federate(data, "iid", 4, 0, validation=0.1)
    *_, record = rounds(method, federation, task("linear", data), rounds=15)
    assert (record.accuracy, record.class_accuracy) == (None, None)
    assert 0 < record.metrics["mae"] < 2  # the best constant is 15 off
    row = record.as_json()
    assert (row["accuracy"], row["metrics"], row["validation"]) == (None, dict(record.metrics), record.validation)
    assert row["party_accuracy"] == list(record.party_accuracy or ())  # not rounded
    assert row["validation_loss"] > 0


def test_a_number_that_diverges_is_null() -> None:
    data = numbers(20 + np.arange(40))
    method = Method(fedavg(), sgd(lr=1e30, epochs=2))
    built = task("mlp(8)", data)
    *_, record = rounds(method, federate(data, "iid", 2, 0, 0.2), built, rounds=4)
    row = record.as_json()
    assert row["metrics"]["mae"] is row["loss"] is row["validation"] is row["party_accuracy"][0] is None


@pytest.mark.parametrize("algorithm", ["fedprox(mu=0.1)", "scaffold", "fednova", "feddyn", "fedbn", "solo", "combined"])
def test_every_algorithm_without_its_own_loss_predicts_a_number(algorithm: str) -> None:
    data = numbers(20 + np.arange(80) % 30)
    method = Method(ALGORITHMS.build(algorithm), sgd(lr=0.02, epochs=2))
    *_, record = rounds(method, federate(data, "label-count(k=5)", 4), task("mlp(8)", data), rounds=4)
    assert record.metrics["mae"] is not None
    assert math.isfinite(record.metrics["mae"])
    assert (record.accuracy_std is not None) == (algorithm in ("solo",))


# --- travelling models --------------------------------------------------------------------------------


def test_the_loss_of_travel_is_how_much_worse_a_model_is_away() -> None:
    mae = Metric("mae", "MAE", False)
    assert Travel((0.9, 0.7), (0.6, 0.6), 0).loss == pytest.approx(0.2)
    assert Travel((2.0, 3.0), (5.0, 4.0), 0, mae).loss == 2.0
    assert Travel((0.9,), (0.6,), 0, AUC).loss == Travel((0.9,), (0.6,), 0, ACCURACY).loss


@pytest.mark.parametrize(
    ("data", "spec", "metric"),
    [
        (numbers(20 + np.arange(80) % 40), "regression", "mae"),
        (numbers(20 + np.arange(80) % 40), "regression(main=r2)", "rmse"),
        (two_classes(), "binary", "balanced-accuracy"),
        (two_classes(), "binary(main=accuracy)", "accuracy"),
        (two_classes(), "cross-entropy(main=macro-f1)", "macro-f1"),
    ],
)
def test_models_travel_by_a_metric_that_every_party_has(data: Dataset, spec: str, metric: str) -> None:
    federation = federate(data, "shards(per_party=1)", 4)
    setting = Setting(Method(ALGORITHMS.build("solo"), sgd(lr=0.05)), federation, task("linear", data, 0, spec), 0)
    *_, record = rounds(setting.method, federation, setting.task, rounds=3)
    trip = travel(setting, inline(), record.state, sample=50, trips=2)
    assert trip.metric.name == metric
    assert trip.loss > 0  # models are worse on the rows of others
    assert (np.mean(trip.away) > np.mean(trip.home)) == (not trip.metric.higher_is_better)


def test_measures_that_need_classes_refuse_a_number() -> None:
    data = numbers(range(40))
    setting = Setting(Method(fedavg(), sgd(momentum=0.0)), federate(data, "iid", 2), task("linear", data), 0)
    with pytest.raises(ConfigError, match="ages has numbers as labels"):
        MEASURES.build("replicas").check(setting, 2)
    with pytest.raises(ConfigError, match="is about classes, but the objective is regression"):
        MEASURES.build("weight-divergence(bound=sampled)").check(setting, 2)


def test_scores_of_further_sums_add_up_over_the_union_of_their_names() -> None:
    def sums(**parts: NDArray[Any]) -> Score:
        return Score(sums=parts)

    one = np.ones(2)
    total = sums(a=one) + sums(a=one, b=one) + Score()
    assert {name: part.tolist() for name, part in total.sums.items()} == {"a": [2, 2], "b": [1, 1]}
