"""Linear estimators of scikit-learn as models: the same loss, the same penalty, and coefficients in both directions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    SGDClassifier,
    SGDRegressor,
)
from torch import Tensor

import silobench as sb
from commands import call, write
from precision import bound
from silobench.errors import ConfigError
from silobench.runs.stored import read_runs
from silobench.tasks.task import Task

HALVES = (slice(0, 60), slice(60, 120))


def table(classes: int, rows: int = 120) -> sb.Dataset:
    """Return rows of three columns: `classes` overlapping clouds, or a noisy sum if there are none."""
    rng = np.random.default_rng(classes)
    y = np.arange(rows) % max(classes, 1)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    if classes:
        x[np.arange(rows), y % 3] += 1
        splits = [sb.Split(x[part], y[part]) for part in HALVES]
        return sb.Dataset("clouds", *splits, tuple("abcdef"[:classes]), "none")
    target = (50 + 7 * x[:, 0] - 3 * x[:, 1] + rng.normal(size=rows)).astype(np.float32)
    splits = [sb.Split(x[part], target[part]) for part in HALVES]
    return sb.Dataset("sums", *splits, (), "none", task="regression")


def flat(data: sb.Dataset) -> tuple[Any, Any]:
    """Return training rows and labels as scikit-learn reads them."""
    train = data.train
    return train.x.reshape(len(train), -1).astype(np.float64), np.array(data.classes)[
        train.y
    ] if data.classes else train.y


def gradient(task: Task, data: sb.Dataset, decay: float) -> Tensor:
    """Return the gradient of the mean loss and of the penalty, which leaves out the bias, in double precision."""
    network = task.network
    weights = network.module.double()
    weights.zero_grad()
    x, y = torch.from_numpy(data.train.x).double(), torch.from_numpy(data.train.y)
    task.loss(x, y).backward()
    layer = next(module for module in weights.modules() if isinstance(module, torch.nn.Linear))
    assert isinstance(layer.weight.grad, Tensor)
    assert isinstance(layer.bias.grad, Tensor)
    return torch.cat([(layer.weight.grad + decay * layer.weight.detach()).flatten(), layer.bias.grad])


@pytest.mark.parametrize(
    ("estimator", "classes"),
    [
        (LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000), 2),
        (LogisticRegression(C=0.3, tol=1e-10, max_iter=10_000), 4),
        (LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000, class_weight="balanced"), 3),
        (Ridge(alpha=5.0), 0),
        (LinearRegression(), 0),
    ],
)
def test_a_fitted_estimator_is_the_optimum_of_the_network(estimator: Any, classes: int) -> None:
    data = table(classes)
    estimator.fit(*flat(data))
    task = sb.task(estimator, data)
    assert task.weight_decay is not None
    # Coefficients are stored as float32; the loss has a curvature of a few units.
    size = 1e-6 + 50 * torch.finfo(torch.float32).eps
    assert gradient(task, data, task.weight_decay).abs().max() < size
    assert gradient(task, data, task.weight_decay + 0.1).abs().max() > 100 * size


def test_the_penalties_of_sgd() -> None:
    two, three, numbers = table(2), table(3), table(0)
    assert sb.task(SGDClassifier(loss="log_loss", alpha=0.01), three).weight_decay == 0.01
    assert sb.task(SGDClassifier(loss="log_loss", alpha=0.01), two).weight_decay == 0.02
    assert sb.task(SGDClassifier(loss="hinge", alpha=0.01), two).weight_decay == 0.01
    assert sb.task(SGDRegressor(alpha=0.01), numbers).weight_decay == 0.02  # its squared error counts half
    assert sb.task(SGDClassifier(penalty=None), two).weight_decay == 0
    assert sb.task(Perceptron(), two).weight_decay == 0
    assert sb.task("linear", two).weight_decay is None


def test_an_estimator_that_is_not_fitted_is_the_linear_network() -> None:
    data = table(3)
    by_name, by_estimator = sb.task("linear", data, seed=2), sb.task(SGDClassifier(loss="log_loss"), data, seed=2)
    assert torch.equal(by_name.initial, by_estimator.initial)
    assert by_estimator.objective == by_name.objective


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("margin", [1.0, 0.0])
def test_the_hinge_loss_is_one_class_against_the_others(margin: float, squared: bool) -> None:
    data = table(3)
    task = sb.task("linear", data, objective=f"hinge(margin={margin}, squared={squared})")
    outputs = torch.tensor([[2.0, -0.5, 0.25], [0.5, 0.0, -3.0]])
    y = torch.tensor([0, 2])
    short = np.maximum(0, [[margin - 2, margin - 0.5, margin + 0.25], [margin + 0.5, margin, margin + 3]])
    by_hand = (short**2 if squared else short).sum(1)
    assert float(task.objective.loss(outputs, y)) == pytest.approx(by_hand.mean(), rel=bound(10))
    assert task.objective.score(outputs, y).total_loss == pytest.approx(by_hand.sum(), rel=bound(10))
    assert task.objective.probabilities(outputs) is None


@pytest.mark.parametrize(
    ("estimator", "objective"),
    [
        (SGDClassifier(loss="hinge"), "hinge"),
        (SGDClassifier(loss="squared_hinge"), "hinge"),
        (Perceptron(), "hinge"),
        (SGDClassifier(loss="log_loss"), "cross-entropy"),
        (SGDClassifier(loss="log_loss", class_weight="balanced"), "weighted cross-entropy"),
    ],
)
def test_each_loss_learns(estimator: Any, objective: str) -> None:
    data = table(3)
    task = sb.task(estimator, data)
    assert task.objective.name == objective
    assert task.weight_decay is not None
    solver = sb.sgd(lr=0.1, momentum=0.0, weight_decay=task.weight_decay, epochs=5)
    *_, last = sb.rounds(sb.Method(sb.fedavg(), solver), sb.federate(data, "iid", parties=2), task, rounds=10)
    assert last.accuracy is not None
    assert last.accuracy > 0.5


@pytest.mark.parametrize(
    ("estimator", "classes", "sentence"),
    [
        (RandomForestClassifier(), 2, "RandomForestClassifier has no counterpart as a network: of scikit-learn's"),
        (Lasso(), 0, "Lasso has no counterpart"),
        (SGDClassifier(loss="modified_huber"), 2, "SGDClassifier has loss=modified_huber, which has no counterpart"),
        (SGDClassifier(penalty="l1"), 2, "SGDClassifier has penalty=l1, which has no counterpart .*: use l2 or none"),
        (SGDClassifier(fit_intercept=False), 2, "has fit_intercept=False, which has no counterpart"),
        (SGDClassifier(class_weight={"a": 2}), 2, "has class_weight="),
        (SGDClassifier(loss="hinge", class_weight="balanced"), 2, "has class_weight=balanced"),
        (LogisticRegression(l1_ratio=0.5), 2, "LogisticRegression has l1_ratio=0.5"),
        (Ridge(positive=True), 0, "Ridge has positive=True"),
        (Ridge(alpha=np.ones(2)), 0, "Ridge has alpha=several numbers"),
        (SGDRegressor(loss="huber"), 0, "SGDRegressor has loss=huber"),
        (SGDClassifier(), 0, "SGDClassifier predicts classes, but the task of sums is regression"),
        (Ridge(), 2, "Ridge predicts numbers, but the task of clouds is classification"),
    ],
)
def test_what_has_no_counterpart_is_refused(estimator: Any, classes: int, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        sb.task(estimator, table(classes))


def test_an_objective_beside_an_estimator_with_its_own_loss_is_refused() -> None:
    with pytest.raises(ConfigError, match="has its own loss, that of the objective hinge"):
        sb.task(SGDClassifier(loss="hinge"), table(2), objective="binary")
    assert sb.task(LogisticRegression(), table(2), objective="binary").objective.name == "binary"


@pytest.mark.parametrize(
    ("estimator", "classes", "objective"),
    [
        (LogisticRegression(), 3, "hinge"),
        (LogisticRegression(), 4, "cross-entropy(weights=balanced)"),
        (SGDClassifier(loss="hinge"), 3, "hinge(margin=0)"),
        (Ridge(), 0, "regression(loss=absolute)"),
        (LinearRegression(), 0, "regression(loss=huber)"),
    ],
)
def test_an_objective_with_another_loss_is_refused(estimator: Any, classes: int, objective: str) -> None:
    data = table(classes)
    if objective.startswith("cross-entropy"):  # weights are 1 where classes are even
        rows = np.flatnonzero(data.train.y < 2)[5:]
        data = replace(data, train=data.train.take(np.concatenate([rows, np.flatnonzero(data.train.y >= 2)])))
    with pytest.raises(ConfigError, match=r"has its own loss, .* has another one: leave out the objective"):
        sb.task(estimator, data, objective=objective)


@pytest.mark.parametrize(
    ("estimator", "classes", "objective"),
    [
        (LogisticRegression(), 3, "cross-entropy(main=macro-f1)"),
        (LogisticRegression(class_weight="balanced"), 2, "binary(weights=balanced)"),
        (SGDClassifier(loss="hinge"), 3, "hinge(main=balanced-accuracy)"),
        (Ridge(), 0, "regression(main=r2)"),
    ],
)
def test_an_objective_with_the_loss_of_the_estimator_is_used(estimator: Any, classes: int, objective: str) -> None:
    data = table(classes)
    assert sb.task(estimator, data, objective=objective).objective == sb.OBJECTIVES.build(objective)(data)


def test_an_estimator_of_other_rows_or_classes_is_refused() -> None:
    data, other = table(2), table(3)
    fitted = LogisticRegression().fit(*flat(other))
    with pytest.raises(ConfigError, match="was fitted for the classes a, b, c, but the dataset has a, b"):
        sb.task(fitted, data)
    x, y = flat(data)
    with pytest.raises(ConfigError, match="was fitted on rows of 2 numbers, but rows of this dataset have 3"):
        sb.task(LogisticRegression().fit(x[:, :2], y), data)


# --- coefficients back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "classes"),
    [
        (LogisticRegression(), 2),
        (LogisticRegression(), 3),
        (SGDClassifier(loss="hinge"), 2),
        (SGDClassifier(loss="hinge"), 3),
        (Perceptron(), 2),
        (Ridge(), 0),
        (LinearRegression(), 0),
        (SGDRegressor(), 0),
    ],
)
def test_a_trained_estimator_predicts_as_silobench_does(estimator: Any, classes: int) -> None:
    data = table(classes)
    task, federation = sb.task(estimator, data), sb.federate(data, "iid", parties=3)
    *_, last = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(lr=0.1, epochs=2)), federation, task, rounds=3)
    fitted = sb.to_sklearn(task, estimator, state=last.state)
    ours, theirs = sb.predict(task, data.test.x, state=last.state), fitted.predict(data.test.x)
    if not classes:
        np.testing.assert_allclose(theirs, ours, rtol=bound(10))
        return
    scores = np.atleast_2d(fitted.decision_function(data.test.x).T).T
    clear = (np.abs(scores[:, 0]) if classes == 2 else np.diff(np.sort(scores))[:, -1]) > bound(10) * np.abs(
        scores
    ).max()
    assert clear.mean() > 0.9
    assert (ours[clear] == theirs[clear]).all()
    if isinstance(estimator, LogisticRegression):
        probabilities = sb.predict(task, data.test.x, state=last.state, probabilities=True)
        np.testing.assert_allclose(fitted.predict_proba(data.test.x), probabilities, atol=bound(10))


@pytest.mark.parametrize(("estimator", "classes"), [(LogisticRegression(), 2), (SGDClassifier(), 4), (Ridge(), 0)])
def test_coefficients_survive_the_way_there_and_back(estimator: Any, classes: int) -> None:
    data = table(classes)
    estimator.fit(*flat(data))
    task = sb.task(estimator, data)
    state = next(sb.rounds(sb.Method(sb.fedavg(), sb.sgd(lr=1e-12)), sb.federate(data, "iid"), task, rounds=1)).state
    again = sb.to_sklearn(task, estimator, state=state)
    assert again is not estimator
    size = np.abs(estimator.coef_).max() + np.abs(estimator.intercept_).max()
    np.testing.assert_allclose(again.coef_.ravel(), estimator.coef_.ravel(), atol=bound(10) * size)
    np.testing.assert_allclose(np.ravel(again.intercept_), np.ravel(estimator.intercept_), atol=bound(10) * size)


def test_only_a_linear_network_becomes_an_estimator() -> None:
    data = table(2)
    task = sb.task("mlp(4)", data)
    state = next(sb.rounds(sb.Method(sb.fedavg(), sb.sgd()), sb.federate(data, "iid"), task, rounds=1)).state
    with pytest.raises(ConfigError, match="the network Mlp is not linear"):
        sb.to_sklearn(task, state=state)
    with pytest.raises(ConfigError, match="Ridge predicts numbers, but the run predicts classes"):
        sb.to_sklearn(task, Ridge(), state=state)
    with pytest.raises(ConfigError, match="the state has a model of 26 numbers, but the task's has 8"):
        sb.to_sklearn(sb.task("linear", data), state=state)


def test_an_estimator_in_a_file_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "from sklearn.linear_model import SGDClassifier\nclf = SGDClassifier(loss='hinge', alpha=0.001)\n"
    file = write(tmp_path / "model.py", code)
    text = f'dataset = "digits"\nmodel = "module(path={file}:clf)"\nparties = 4\nsolver = "sgd(epochs=1)"\nrounds = 2\n'
    experiment, out = write(tmp_path / "e.toml", text), tmp_path / "runs"
    result = call(capsys, "run", experiment, "--workers", "1", "--out", out)
    assert result.code == 0, result.err
    assert "is a weight decay of 0.001, but that of the solver is 1e-05: write weight_decay=0.001" in " ".join(
        result.err.split()
    )
    data = sb.load("digits")
    fitted = sb.to_sklearn(out, SGDClassifier(), model_file=file)
    rows = data.test.x.reshape(len(data.test), -1)
    assert (fitted.predict(rows) == sb.predict(out, data.test.x, model_file=file)).mean() > 0.99
    with pytest.raises(ConfigError, match="the objective hinge has no probabilities"):
        sb.predict(out, data.test.x, probabilities=True, model_file=file)


@pytest.mark.parametrize("estimator", ["LogisticRegression()", "SGDClassifier(loss='hinge')"])
def test_an_estimator_on_uneven_classes_reports_their_metrics(
    estimator: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "sk.py", f"from sklearn.linear_model import *\nclf = {estimator}\n")
    rows = "\n".join(f"{place % 7},{'yes' if place % 10 < 2 else 'no'}" for place in range(200))
    write(tmp_path / "rows.csv", f"a,y\n{rows}\n")
    experiment = f"""
dataset = "csv(path={tmp_path}/rows.csv, label=y)"
model = "module(path={tmp_path}/sk.py:clf)"
parties = 2
rounds = 1
"""
    result = call(capsys, "run", write(tmp_path / "e.toml", experiment), "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    assert "the last round also reports balanced accuracy, AUC, average precision and F1" in result.err
    (run,) = read_runs(tmp_path / "runs")
    reported = {metric.name for metric in run.metrics}
    assert {"balanced-accuracy", "auc", "average-precision", "f1"} <= reported
