"""Targets of several numbers per row: datasets, skews, the objective, runs and predictions, against slow loops."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle

import silobench as sb
from commands import call, write
from silobench.cli.models import _as_csv
from silobench.data.bins import quantile_bins
from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.splits import pooled_split
from silobench.errors import DataError
from silobench.partitions.measures import measure, wasserstein
from silobench.runs.predict import predict, to_sklearn
from silobench.runs.stored import read_runs
from silobench.tasks.objectives.regression import regression
from silobench.tasks.score import Score

NUMBERS = 3


def weather(rows: int = 240, columns: int = NUMBERS) -> Dataset:
    """Return rows that foretell the temperatures of the next days, at three stations."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, 4)).astype(np.float32)
    y = (20 + 5 * x @ draw.normal(size=(4, columns)) + draw.normal(size=(rows, columns))).astype(np.float32)
    whole = Split(x, y, {"station": np.array(["Alta", "Bodø", "Moss"])[np.arange(rows) % 3]})
    cut = 3 * rows // 4
    return Dataset(
        "weather", whole.take(np.arange(cut)), whole.take(np.arange(cut, rows)), (), task="regression",
        target="temperature", unit="°C",
    )  # fmt: skip


def scores_by_hand(answers: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the metrics number by number."""
    errors = [a - b for row, target in zip(answers, y, strict=True) for a, b in zip(row, target, strict=True)]
    mean = sum(map(float, y.reshape(-1))) / y.size
    spread = sum((float(value) - mean) ** 2 for value in y.reshape(-1))
    squares = sum(error**2 for error in errors)
    mse = squares / len(errors)
    return {
        "mae": sum(map(abs, errors)) / len(errors), "mse": mse, "rmse": math.sqrt(mse), "r2": 1 - squares / spread,
    }  # fmt: skip


# --- datasets -----------------------------------------------------------------------------------------


def test_a_dataset_keeps_the_numbers_of_a_row_together() -> None:
    data = weather()
    assert (data.train.y.shape, data.target_size) == ((180, NUMBERS), NUMBERS)
    assert "target temperature of 3 numbers" in repr(data)
    some = data.train.take(np.array([3, 5]))
    assert some.y.tolist() == data.train.y[[3, 5]].tolist()
    train, test = hold_out(data.train, 0.25)
    assert (train.y.shape, test.y.shape) == ((135, NUMBERS), (45, NUMBERS))
    pooled = pooled_split(data, "4:1:1", seed=0)
    assert (pooled.train.y.shape, pooled.test.y.shape) == ((200, NUMBERS), (40, NUMBERS))


def test_one_column_is_a_plain_target() -> None:
    data = weather(columns=1)
    assert (data.train.y.shape, data.target_size) == ((180,), 1)
    flat = Dataset("flat", Split(data.train.x, data.train.y), Split(data.test.x, data.test.y), (), task="regression")
    column = Dataset(
        "column", Split(data.train.x, data.train.y[:, None]), Split(data.test.x, data.test.y[:, None]), (),
        task="regression",
    )  # fmt: skip
    assert flat.checksum == column.checksum


@pytest.mark.parametrize(
    ("train", "test", "sentence"),
    [
        ((4, 2), (4, 3), "training targets of shape (2,) but test targets of shape (3,): every row needs equally many"),
        ((4, 2), (4,), "training targets of shape (2,) but test targets of shape ()"),
        ((4, 2, 2), (4, 2, 2), "labels of shape (4, 2, 2): one label per row is needed"),
        ((4, 0), (4, 0), "labels of shape (4, 0)"),
    ],
)
def test_other_shapes_are_refused(train: tuple[int, ...], test: tuple[int, ...], sentence: str) -> None:
    x = np.zeros((4, 2))
    with pytest.raises(DataError) as error:
        Dataset("odd", Split(x, np.ones(train)), Split(x, np.ones(test)), (), task="regression")
    assert sentence in str(error.value)


def test_skews_use_the_mean_of_a_row() -> None:
    data = weather()
    means = data.train.y.astype(np.float64).mean(1)
    assert data.bins == quantile_bins(means)
    assert data.codes.tolist() == data.bins.codes(means).tolist()
    federation = sb.federate(data, "label-dirichlet(beta=0.3, min_size=5)", 3, seed=0)
    flat = Dataset("flat", Split(data.train.x, means), Split(data.test.x, data.test.y.mean(1)), (), task="regression")
    same = sb.federate(flat, "label-dirichlet(beta=0.3, min_size=5)", 3, seed=0)
    for one, other in zip(federation.partition.rows, same.partition.rows, strict=True):
        assert one.tolist() == other.tolist()
    for party in range(3):
        assert federation.own_test_rows(party).tolist() == same.own_test_rows(party).tolist()
    distance = wasserstein(federation.partition, means)
    assert measure(federation.partition, data).wasserstein == pytest.approx(distance)
    assert distance > 0.1


# --- the objective ------------------------------------------------------------------------------------


def test_metrics_are_over_all_numbers_and_parts_add_up() -> None:
    data = weather()
    objective = regression()(data)
    assert objective.outputs(data) == NUMBERS
    outputs, y = torch.randn(len(data.test), NUMBERS), torch.from_numpy(data.test.y)
    answers = objective.predictions(outputs)
    assert answers.shape == (len(data.test), NUMBERS)
    whole = objective.score(outputs, y)
    parts = sum((objective.score(outputs[a:b], y[a:b]) for a, b in ((0, 7), (7, 40), (40, 60))), Score())
    expected = scores_by_hand(answers, data.test.y)
    assert objective.values(whole) == pytest.approx(expected)
    assert objective.values(parts) == pytest.approx(expected)
    assert expected["r2"] == pytest.approx(oracle.r2_score(data.test.y.reshape(-1), answers.reshape(-1)))
    assert parts.count == len(data.test)
    loss = ((outputs.double() - (y.double() - objective.mean) / objective.scale) ** 2).mean().item()
    assert parts.loss == pytest.approx(loss)
    assert objective.loss(outputs, y).item() == pytest.approx(loss, rel=1e-5)


def test_equal_columns_score_as_one() -> None:
    one = weather(columns=1)
    three = Dataset(
        "three", *(Split(side.x, np.repeat(side.y[:, None], 3, axis=1)) for side in (one.train, one.test)), (),
        task="regression",
    )  # fmt: skip
    first, second = regression()(one), regression()(three)
    assert (first.mean, first.scale) == pytest.approx((second.mean, second.scale))
    outputs = torch.randn(len(one.test), 1)
    scores = [
        objective.score(out, torch.from_numpy(data.test.y))
        for objective, data, out in ((first, one, outputs), (second, three, outputs.repeat(1, 3)))
    ]
    assert first.values(scores[0]) == pytest.approx(second.values(scores[1]))
    assert scores[0].loss == pytest.approx(scores[1].loss)
    assert first.constants(one) == pytest.approx(second.constants(three))


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_validation_rows_do_not_standardise(loss: str) -> None:
    data = pooled_split(weather(), "4:1:1", seed=0)
    objective = regression(loss=loss)(data)  # type: ignore[arg-type]
    train = np.delete(data.train.y, data.validation, axis=0).astype(np.float64)
    assert (objective.mean, objective.scale) == pytest.approx((train.mean(), train.std()))


# --- runs ---------------------------------------------------------------------------------------------


def trained(algorithm: str, model: str = "linear") -> tuple[sb.RoundRecord, sb.Federation, sb.Task]:
    data = weather()
    federation, task = sb.federate(data, "by-group"), sb.task(model, data)
    method = sb.Method(sb.ALGORITHMS.build(algorithm), sb.sgd(lr=0.05, epochs=2, batch=16))
    *_, last = sb.rounds(method, federation, task, rounds=8, engine=sb.inline())
    return last, federation, task


def test_training_learns_every_number() -> None:
    last, federation, task = trained("fedavg")
    task.network.params.copy_(last.state.server.params)
    data = federation.dataset
    with torch.no_grad():
        answers = task.objective.predictions(task.network.module(torch.from_numpy(data.test.x)))
    expected = scores_by_hand(answers, data.test.y)
    assert last.metrics == pytest.approx(expected)
    assert np.abs(answers - data.test.y).mean(0).max() < 1.2  # the noise has a mean of 0.8
    for party, result in enumerate(last.final["parties"].values()):
        rows = federation.own_test_rows(party).numpy()
        assert result["own"] == pytest.approx(np.abs(answers - data.test.y)[rows].mean())
    assert last.final["cross"]["scores"][0][-1] == pytest.approx(expected["mae"])


def test_predictions_have_one_column_per_number() -> None:
    last, federation, task = trained("fedavg")
    answers = predict(task, federation.dataset.test.x, state=last, encoded=True)
    assert answers.shape == (60, NUMBERS)
    assert np.abs(answers - federation.dataset.test.y).mean() == pytest.approx(last.metrics["mae"])
    estimator = to_sklearn(task, state=last)
    np.testing.assert_allclose(estimator.predict(federation.dataset.test.x), answers, rtol=1e-4)
    lines = list(csv.reader(io.StringIO(_as_csv(answers.tolist(), (), None))))
    assert lines[0] == ["row", "prediction 1", "prediction 2", "prediction 3"]
    assert [float(cell) for cell in lines[5][1:]] == pytest.approx(answers[4].tolist())


PLUGIN = """
import numpy as np
import silobench as sb


@sb.DATASETS.register
def weather() -> sb.Dataset:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(120, 4)).astype(np.float32)
    y = (20 + 5 * x[:, :2] + draw.normal(size=(120, 2))).astype(np.float32)
    return sb.Dataset("weather", sb.Split(x[:90], y[:90]), sb.Split(x[90:], y[90:]), (), task="regression", unit="C")
"""


def test_a_stored_run_knows_its_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = write(tmp_path / "weather.py", PLUGIN)
    choices = {"dataset": "weather", "model": "mlp(8)", "rounds": 3, "parties": 2, "metric": ["median-error"]}
    text = "".join(f"{key} = {value!r}\n" for key, value in choices.items())
    experiment = write(tmp_path / "weather.toml", text)
    done = call(capsys, "run", experiment, "--out", tmp_path / "runs", "--plugin", plugin, "--workers", "1")
    assert done.code == 0, done.err
    (run,) = read_runs(tmp_path / "runs")
    rows = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    answers = predict(run.path, rows, plugins=[plugin])
    assert answers.shape == (5, 2)
    printed = call(capsys, "predict", run.path, tmp_path / "rows.npy", "--plugin", plugin).out
    table = np.array([[float(cell) for cell in line.split(",")] for line in printed.splitlines()[1:]])
    np.testing.assert_allclose(table[:, 1:], answers)
    error = run.final.metrics["median-error"]
    assert error is not None
    assert 0 < error < run.rounds[-1].metrics["rmse"]  # type: ignore[operator]
    (extra,) = run.facts.objective.extra
    namespace: dict[str, Any] = {}
    exec(PLUGIN.replace("@sb.DATASETS.register", ""), namespace)
    y = namespace["weather"]().test.y.astype(np.float64)
    constants = [np.median(np.abs(y - constant)) for constant in np.quantile(y, np.linspace(0, 1, 101))]
    assert extra.constant == pytest.approx(min(constants), rel=0.01)
