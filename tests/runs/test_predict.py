"""A trained model answers new rows as it answered the test rows, whoever trained it and however rows are given."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from scipy import sparse
from torch import nn

import silobench as sb
from commands import Result, call, write
from silobench.cli.models import _is_csv
from silobench.errors import ConfigError, DataError, RecordError
from silobench.models import MODELS
from silobench.models.module_file import _loaded
from silobench.runs.archive import pack, records_of
from silobench.runs.new_rows import features, numbers_per_row
from silobench.runs.predict import trained_model
from silobench.runs.stored import StoredRun, encoder_file, read_runs
from silobench.tasks.row_format import RowFormat
from stored import stored

HEADER = ("age", "ward", "admitted", "hospital", "stay", "outcome")


def _patients(rows: int) -> list[tuple[str, ...]]:
    """Return patients with numbers, categories, dates and missing cells; the outcome follows from age and ward."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(rows):
        age, ward, day = rng.normal(60, 15), rng.choice(["heart", "lung", "eye"]), rng.integers(1, 29)
        risk = (age - 60) / 15 + 1.5 * (ward == "lung") + rng.normal(0, 0.4)
        cell = "" if row % 17 == 3 else f"{age:.1f}"
        place = f"site{row % 3}"
        stay = 5 + 2 * risk + rng.normal(0, 0.3)
        lines.append((cell, ward, f"2024-03-{day:02}", place, f"{stay:.2f}", "died" if risk > 0.7 else "alive"))
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patients")
    with (folder / "patients.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *_patients(300)])
    return folder


CLASSES = "csv(path={folder}/patients.csv, label=outcome, group=hospital, drop=stay)"
NUMBERS = "csv(path={folder}/patients.csv, label=stay, group=hospital, drop=outcome)"
MODEL = """
from torch import nn

def net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, outputs))
"""


FROZEN = """

def frozen(inputs, outputs):
    module = net(inputs, outputs)
    module[0].requires_grad_(False)
    return module
"""
PLUGIN = """
import silobench as sb
from torch import nn

@sb.MODELS.register
def flat_of_mine(inputs, outputs):
    return nn.Linear(inputs, outputs)
"""


def _run(
    folder: Path, out: Path, capsys: pytest.CaptureFixture[str], dataset: str = CLASSES, **choices: Any
) -> StoredRun:
    """Run one experiment on the patients of a folder, by hospital."""
    options = {"engine": "auto", "workers": "1"} | {
        key: choices.pop(key) for key in ("engine", "workers") if key in choices
    }
    cell = {
        "dataset": dataset.format(folder=folder), "partition": "by-group", "model": "mlp(8)",
        "solver": "sgd(lr=0.05, epochs=2, batch=16)", "rounds": 4, **choices,
    }  # fmt: skip
    file = write(
        out.parent / f"{out.name}.toml", "\n".join(f"{key} = {json.dumps(value)}" for key, value in cell.items())
    )
    arguments = [part for key, value in options.items() for part in (f"--{key}", value)]
    result = call(capsys, "run", file, "--out", out, *arguments)
    assert result.code == 0, result.err
    (run,) = read_runs(out)
    return run


def _test_rows(run: StoredRun, folder: Path) -> tuple[pd.DataFrame, sb.Dataset]:
    """Return the raw rows of the test set, as a data frame of texts, and the dataset."""
    data = sb.load(str(run.config["dataset"]))
    table = pd.read_csv(folder / "patients.csv", dtype=str, keep_default_na=False)
    assert data.encoder is not None
    encoded = data.encoder.encode({name: table[name].to_numpy() for name in data.encoder.columns})
    kept = [place for place, row in enumerate(encoded) if (data.test.x == row).all(1).any()]
    index = {row.tobytes(): place for place, row in enumerate(encoded)}
    order = [index[row.tobytes()] for row in np.ascontiguousarray(data.test.x)]
    assert sorted(set(order)) == sorted(set(kept) & set(order))
    return table.iloc[order], data


def _accuracy(answers: Any, data: sb.Dataset) -> float:
    return float((answers == np.array(data.classes)[data.test.y]).mean())


# --- the recorded score is reproduced ----------------------------------------------------------------


@pytest.mark.parametrize("model", ["mlp(8)", "linear", "module(path={folder}/net.py:net)"])
@pytest.mark.parametrize(("engine", "workers"), [("inline", "1"), ("auto", "1"), ("pool", "2")])
def test_the_test_rows_of_a_csv_are_answered_as_in_the_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, engine: str, workers: str
) -> None:
    write(folder / "net.py", MODEL)
    run = _run(folder, tmp_path / "runs", capsys, model=model.format(folder=folder), engine=engine, workers=workers)
    frame, data = _test_rows(run, folder)
    frame.to_csv(tmp_path / "new.csv", index=False)
    file = folder / "net.py" if "net.py" in model else None
    outputs = trained_model(run.path, model_file=file).outputs(data.test.x, encoded=True).double()
    margins = outputs.sort(1).values.diff(dim=1)[:, -1]
    assert margins.min() > 1e-5 * outputs.abs().max()  # rounding decides no answer, whichever engine tested
    answers = sb.predict(run.path, data.test.x, model_file=file, encoded=True)
    assert _accuracy(answers, data) == run.rounds[-1].accuracy
    for rows in (frame, tmp_path / "new.csv", str(tmp_path / "new.csv"), dict(frame)):
        assert _accuracy(sb.predict(run.path, rows, model_file=file), data) == run.rounds[-1].accuracy
    assert run.rounds[-1].accuracy is not None
    assert run.rounds[-1].accuracy > 0.7


@pytest.mark.parametrize("algorithm", ["fedbn", "solo", "finetune(fedavg, epochs=2)", "ditto"])
@pytest.mark.parametrize("engine", ["inline", "auto"])
def test_the_models_of_parties_are_those_that_were_tested(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str, engine: str
) -> None:
    file = write(folder / "net.py", MODEL)
    model = f"module(path={file}:net)"
    run = _run(folder, tmp_path / "runs", capsys, algorithm=algorithm, model=model, engine=engine)
    frame, data = _test_rows(run, folder)
    names = run.partition.parties
    assert names == ("site0", "site1", "site2")
    by_party = [_accuracy(sb.predict(run.path, frame, party=name, model_file=file), data) for name in names]
    assert np.array(by_party).mean() == run.rounds[-1].accuracy
    assert np.array(by_party).std() == run.rounds[-1].accuracy_std
    with pytest.raises(ConfigError, match=r"every party has its own model: choose one with --party .* site0, site1"):
        sb.predict(run.path, frame, model_file=file)
    with pytest.raises(ConfigError, match="there is no party 'site9': did you mean site"):
        sb.predict(run.path, frame, party="site9", model_file=file)


@pytest.mark.parametrize("engine", ["inline", "auto"])
def test_numbers_are_answered_in_the_units_of_the_target(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    run = _run(folder, tmp_path / "runs", capsys, NUMBERS, engine=engine)
    frame, data = _test_rows(run, folder)
    answers = sb.predict(run.path, frame)
    error = np.abs(answers - data.test.y.astype(np.float64)).mean()
    recorded = run.rounds[-1].metrics["mae"]
    assert error == pytest.approx(recorded, rel=1e-12)
    assert recorded < 1.5
    with pytest.raises(ConfigError, match="the objective regression has no probabilities"):
        sb.predict(run.path, frame, probabilities=True)


def test_a_party_that_never_took_part_has_the_initial_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(folder, tmp_path / "runs", capsys, algorithm="solo", participation=1, rounds=1)
    frame, data = _test_rows(run, folder)
    by_party = [_accuracy(sb.predict(run.path, frame, party=name), data) for name in run.partition.parties]
    assert np.array(by_party).mean() == run.rounds[-1].accuracy


def test_a_model_is_trained_again_without_the_metrics_of_the_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = ["balanced-accuracy", "auc"]
    run = _run(folder, tmp_path / "runs", capsys, algorithm="finetune(fedavg, epochs=1)", metric=metrics)
    frame, data = _test_rows(run, folder)
    by_party = [_accuracy(sb.predict(run.path, frame, party=name), data) for name in run.partition.parties]
    assert np.array(by_party).mean() == run.rounds[-1].accuracy


# --- from Python -------------------------------------------------------------------------------------


def test_a_run_in_python_is_used_without_files() -> None:
    data = sb.load("digits")
    federation, task = sb.federate(data, "iid", parties=3), sb.task("mlp(16)", data)
    *_, last = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(epochs=2)), federation, task, rounds=3)
    assert _accuracy(sb.predict(task, data.test.x, state=last), data) == last.accuracy
    assert _accuracy(sb.predict(task, torch.from_numpy(data.test.x), state=last.state), data) == last.accuracy
    shares = sb.predict(task, data.test.x, state=last, probabilities=True)
    assert shares.shape == (len(data.test), 10)
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-12)
    assert (np.array(data.classes)[shares.argmax(1)] == sb.predict(task, data.test.x, state=last)).all()
    with pytest.raises(ConfigError, match="all parties share one model, so that of 'a' is not another"):
        sb.predict(task, data.test.x, state=last, party="a")
    with pytest.raises(ConfigError, match=r"give state=record.state of the last record"):
        sb.predict(task, data.test.x)
    with pytest.raises(ConfigError, match=r"needs the path of a run, an sb.Task or an sb.Setting, but got 3"):
        sb.predict(3, data.test.x)  # type: ignore[arg-type]


def test_a_setting_knows_the_models_of_its_parties() -> None:
    data = sb.load("digits")
    federation, task = sb.federate(data, "label-count(k=4)", parties=3), sb.task("linear", data)
    method = sb.Method(sb.solo(), sb.sgd(epochs=1))
    *_, last = sb.rounds(method, federation, task, rounds=2)
    setting = sb.Setting(method, federation, task, 0)
    scores = [_accuracy(sb.predict(setting, data.test.x, state=last, party=str(party)), data) for party in range(3)]
    assert np.array(scores).mean() == last.accuracy


# --- rows --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """A finished run whose data are read from its encoder only: the CSV is no longer there."""
    out = tmp_path_factory.mktemp("trained")
    write(out / "patients.csv", (folder / "patients.csv").read_text())
    choices = {
        "dataset": CLASSES.format(folder=out), "partition": "by-group", "model": "linear",
        "solver": "sgd(epochs=1)", "rounds": 2,
    }  # fmt: skip
    from silobench.runs.execute import execute
    from silobench.runs.experiment import plan
    from silobench.runs.prepare import prepare

    (planned,) = plan(choices)
    list(execute(prepare(planned), out / "runs", "inline"))
    (out / "patients.csv").unlink()
    (run,) = read_runs(out / "runs")
    return run


def test_neither_the_data_nor_the_label_is_needed(trained: StoredRun, tmp_path: Path, folder: Path) -> None:
    frame = pd.read_csv(folder / "patients.csv")
    expected = sb.predict(trained.path, frame)
    new = frame.drop(columns=["outcome", "stay"])[:7]
    new.to_parquet(tmp_path / "new.parquet")
    columns = pyarrow.Table.from_pandas(new).to_pydict()
    for rows in (new, columns, tmp_path / "new.parquet", new[["admitted", "ward", "age"]]):
        assert sb.predict(trained.path, rows).tolist() == expected[:7].tolist()
    assert set(expected) == {"alive", "died"}
    assert encoder_file(trained.path).is_file()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (np.zeros((2, 3)), r"the rows have the shape \(2, 3\), but the network reads rows of shape"),
        (np.full((1, 7), np.nan), "the rows have NaN, infinite or too large values"),
        (np.array([["a"]]), "the rows are an array of type <U1, but numbers are needed"),
        (pd.DataFrame({"age": [50]}), "has no column .*admitted"),
        ("nowhere.csv", "there is no file .*nowhere.csv"),
    ],
)
def test_rows_that_do_not_fit_are_one_sentence(trained: StoredRun, rows: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        sb.predict(trained.path, rows, encoded=isinstance(rows, np.ndarray))


# --- arrays ------------------------------------------------------------------------------------------


def _arrays() -> tuple[Any, Any]:
    """Return rows in units far from 0 and 1, and their classes."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = rng.normal(size=(400, 5)) + 1.5 * y[:, None]
    return x * np.array([100, 0.01, 5, 1, 30]) + np.array([1000, 5, -70, 0, 3]), y


def test_new_arrays_are_scaled_as_the_training_rows_were(tmp_path: Path) -> None:
    x, y = _arrays()
    data = sb.from_arrays(x, y, scale="standard")
    federation, task = sb.federate(data, "iid", parties=3), sb.task("linear", data)
    *_, last = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(lr=0.1, epochs=2)), federation, task, rounds=3)
    assert last.accuracy is not None
    assert last.accuracy > 0.9
    encoded = [sb.predict(task, part.x, state=last, encoded=True) for part in (data.train, data.test)]
    assert _accuracy(encoded[1], data) == last.accuracy
    answers = sb.predict(task, x, state=last)
    raw = x.astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    for rows in (raw, torch.from_numpy(raw), tmp_path / "x.npy", tmp_path / "x.npz", sparse.csr_matrix(raw)):
        assert (sb.predict(task, rows, state=last) == answers).all()
    assert sorted(answers) == sorted(np.concatenate(encoded))
    assert (answers == y.astype(str)).mean() > 0.9


def test_a_run_stores_how_arrays_were_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = _arrays()
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    dataset = "npz(path={folder}/mine.npz, scale=standard)"
    run = _run(tmp_path, tmp_path / "runs", capsys, dataset, partition="iid", parties=3, model="linear")
    data = sb.load(dataset.format(folder=tmp_path))
    assert _accuracy(sb.predict(run.path, data.test.x, encoded=True), data) == run.rounds[-1].accuracy
    again = encoder_file(run.path).read_bytes()
    encoder_file(run.path).unlink()
    expected = sb.predict(run.path, x)  # scaled as the dataset is, which is read again
    assert (expected == y.astype(str)).mean() > 0.9
    encoder_file(run.path).write_bytes(again)
    (tmp_path / "mine.npz").unlink()
    outputs = trained_model(run.path).outputs(x)
    assert (sb.predict(run.path, x) == expected).all()
    assert data.scaler is not None
    encoded = data.scaler.scaled(x.astype(np.float32))
    assert torch.equal(outputs, trained_model(run.path).outputs(encoded, encoded=True))
    np.save(tmp_path / "rows.npy", encoded)
    printed = _predict(capsys, run.path, tmp_path / "rows.npy", "--encoded", "--json")
    assert json.loads(printed.out)["predictions"] == expected.tolist()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([[1.0, 2.0], [3.0]], "there are rows of different lengths"),
        (np.ma.masked_array(np.ones((1, 2)), [[False, True]]), "there are rows with masked values"),
        (1.0, "there are rows as a float"),
        ({"a": [1.0, 2.0], "b": [1.0]}, "must have one length, but a: 2 and b: 1"),
        ({}, "must have one length, but there are none"),
    ],
)
def test_rows_that_are_no_array_are_one_sentence(rows: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        features(rows, RowFormat((2,), "float32", ("no", "yes")))


def test_columns_that_are_not_needed_may_have_any_length() -> None:
    frame = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) ** 2, "y": np.arange(60) % 2})
    form = RowFormat.of(sb.from_pandas(frame, "y"))
    assert features({"a": [1.0, 2.0], "b": [3.0, 4.0], "source": "a clinic"}, form).shape == (2, 2)
    with pytest.raises(DataError, match="must have one length, but a: 2 and b: 1: give"):
        features({"a": [1.0, 2.0], "b": [3.0], "source": "a clinic"}, form)
    with pytest.raises(DataError, match="has no column a and b"):
        features({"source": "a clinic"}, form)


def test_numbers_alone_are_one_row() -> None:
    for one in (1.0, np.array(1.0), torch.tensor(1.0)):
        assert features({"a": one, "b": one}, RowFormat((2,), "float32", ("no", "yes"))).tolist() == [[1, 1]]


@pytest.mark.parametrize("value", [-1, 10, 2.5])
def test_numbers_that_stand_for_no_word_are_one_sentence(value: float) -> None:
    form = RowFormat((2,), "int32", ("no", "yes"), vocabulary=10)
    with pytest.raises(DataError, match=f"have the value {value}, but words are whole numbers from 0 to 9"):
        features(np.array([[1, value]]), form)
    answer = features(np.array([[0.0, 9.0]]), form)
    assert (answer.dtype, answer.tolist()) == (np.int32, [[0, 9]])


def test_an_array_has_no_columns_of_a_table(trained: StoredRun, tmp_path: Path) -> None:
    rows = np.zeros((2, *trained_model(trained.path).rows.shape))
    np.save(tmp_path / "rows.npy", rows)
    for array in (rows, torch.from_numpy(rows), rows.tolist(), tmp_path / "rows.npy", sparse.csr_matrix(rows)):
        with pytest.raises(
            DataError, match=r"trained on the columns age, ward and admitted of a table, .* encoded=True"
        ):
            sb.predict(trained.path, array)
    assert len(sb.predict(trained.path, rows, encoded=True)) == 2
    np.savez(tmp_path / "other.npz", rows=rows)
    with pytest.raises(DataError, match=r"other.npz has no array x: save the rows as x"):
        sb.predict(trained.path, tmp_path / "other.npz")


def test_rows_of_zeros_are_rows_and_an_empty_table_is_one_sentence(trained: StoredRun, folder: Path) -> None:
    nothing = pd.read_csv(folder / "patients.csv")[:0]
    with pytest.raises(DataError, match="there are no rows to predict"):
        sb.predict(trained.path, nothing)
    x, y = sparse.csr_matrix(np.eye(20, 4, dtype=np.float32)), np.arange(20) % 2
    data = sb.from_arrays(x, y)
    federation, task = sb.federate(data, "iid", parties=2), sb.task("linear", data)
    *_, last = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(epochs=1)), federation, task, rounds=1)
    assert len(sb.predict(task, sparse.csr_matrix((3, 4)), state=last)) == 3
    with pytest.raises(DataError, match="there are no rows to predict"):
        sb.predict(task, sparse.csr_matrix((0, 4)), state=last)


def test_the_batches_of_sparse_rows_follow_from_the_training_rows() -> None:
    rng = np.random.default_rng(0)
    x = sparse.random(60, 400, density=0.5, format="csr", dtype=np.float32, random_state=rng)
    form = RowFormat.of(sb.from_arrays(x, np.arange(60) % 2))
    again = RowFormat.from_json(json.loads(json.dumps(form.as_json())), form.classes)
    assert again == form
    assert 150 < form.nonzero < 250
    one_number = sparse.csr_matrix(np.eye(1, 400, dtype=np.float32))
    assert numbers_per_row(one_number, again) == form.nonzero
    earlier = replace(form, nonzero=0)  # not recorded
    assert numbers_per_row(one_number, earlier) == 1
    assert numbers_per_row(one_number.toarray(), form) == 400


def test_an_array_file_is_read_for_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    text = 'dataset = "digits"\nmodel = "cnn"\nparties = 3\nsolver = "sgd(epochs=1)"\nrounds = 1\n'
    assert call(capsys, "run", write(tmp_path / "e.toml", text), "--workers", "1", "--out", out).code == 0
    data = sb.load("digits")
    np.save(tmp_path / "rows.npy", data.test.x[:5])
    assert sb.predict(out, tmp_path / "rows.npy").tolist() == sb.predict(out, data.test.x[:5]).tolist()
    assert sb.predict(out, data.test.x[:5].astype(np.float64)).tolist() == sb.predict(out, data.test.x[:5]).tolist()
    file = write(tmp_path / "rows.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match="does not store how the columns of a table become features, so it cannot read"):
        sb.predict(out, file)
    with pytest.raises(DataError, match="cannot be read as an array of numbers that NumPy saved"):
        sb.predict(out, write(tmp_path / "text.npy", "1,2"))


# --- runs that cannot answer -------------------------------------------------------------------------


def test_an_older_run_reads_its_data_again(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _run(folder, tmp_path / "runs", capsys)
    frame, data = _test_rows(run, folder)
    expected = sb.predict(run.path, frame)
    facts = json.loads((run.path / "run.json").read_text())
    for key in ("shape", "dtype"):
        del facts["dataset"][key]
    del facts["facts_sha256"]
    write(run.path / "run.json", json.dumps(facts))
    encoder_file(run.path).unlink()
    assert (sb.predict(run.path, frame) == expected).all()
    assert len(data.test) == len(expected)


def test_a_changed_encoder_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _run(folder, tmp_path / "runs", capsys)
    file = encoder_file(run.path)
    write(file, file.read_text().replace("lung", "eyes"))
    with pytest.raises(RecordError, match=r"encoder.json was changed: delete it"):
        sb.predict(run.path, folder / "patients.csv")
    file.unlink()
    assert len(sb.predict(run.path, folder / "patients.csv")) == 300


def test_changed_data_are_not_used_in_their_place(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "patients.csv", (folder / "patients.csv").read_text())
    run = _run(tmp_path, tmp_path / "runs", capsys)
    encoder_file(run.path).unlink()
    write(table, table.read_text().replace("heart", "brain"))
    with pytest.raises(DataError, match=r"has changed since .* was made: restore it as it was then"):
        sb.predict(run.path, table)


def test_runs_without_a_model_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _run(folder, tmp_path / "runs", capsys)
    (run.path / "checkpoint" / "state.safetensors").unlink()
    with pytest.raises(RecordError, match=r"has no model \(checkpoint/state.safetensors is missing, as"):
        sb.predict(run.path, folder / "patients.csv")
    with pytest.raises(RecordError, match="there is no directory"):
        sb.predict(tmp_path / "nowhere", folder / "patients.csv")


def test_a_changed_model_file_is_not_used(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "net.py", MODEL)
    run = _run(folder, tmp_path / "runs", capsys, model=f"module(path={file}:net)")
    trap = tmp_path / "executed"
    write(file, MODEL.replace("ReLU", "Tanh") + f"__import__('os').makedirs({str(trap)!r}, exist_ok=True)\n")
    with pytest.raises(ConfigError, match=r"net.py is not the model file that .* was made with"):
        sb.predict(run.path, folder / "patients.csv", model_file=file)
    assert not trap.exists()


@pytest.mark.parametrize("algorithm", ["fedavg", "finetune(fedavg, epochs=1)"])
def test_a_model_file_is_executed_only_if_the_user_names_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str
) -> None:
    trap, rows = tmp_path / "executed", folder / "patients.csv"
    file = write(tmp_path / "net.py", MODEL + f"__import__('os').makedirs({str(trap)!r}, exist_ok=True)\n")
    run = _run(folder, tmp_path / "runs", capsys, model=f"module(path={file}:net)", algorithm=algorithm)
    party = None if algorithm == "fedavg" else "site1"
    options = () if party is None else ("--party", party)
    _loaded.cache_clear()
    trap.rmdir()
    for command in (("predict", run.path, rows), ("model", run.path, "--out", tmp_path / "net.pt")):
        refused = call(capsys, *command, *options)
        assert refused.code == 2
        assert f"is Python code in the file {file}: if you trust this code" in " ".join(refused.err.split())
    assert not trap.exists()
    expected = sb.predict(run.path, rows, model_file=file, party=party)
    assert trap.exists()
    moved = file.rename(tmp_path / "moved.py")
    assert (sb.predict(run.path, rows, model_file=moved, party=party) == expected).all()
    result = call(capsys, "predict", run.path, rows, "--model-file", moved, *options, "--json")
    assert json.loads(result.out)["predictions"] == expected.tolist()


def test_a_file_for_a_model_without_one_is_refused(trained: StoredRun, folder: Path) -> None:
    with pytest.raises(ConfigError, match="is not in a file: leave out --model-file"):
        sb.predict(trained.path, folder / "patients.csv", model_file="net.py")
    data = sb.load("digits")
    with pytest.raises(ConfigError, match="a task has its network already: leave out plugins and model_file"):
        sb.predict(sb.task("linear", data), data.test.x, model_file="net.py")


# --- the command -------------------------------------------------------------------------------------


def _predict(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    return call(capsys, "predict", *arguments)


def test_the_command_prints_a_line_per_row(
    trained: StoredRun, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = folder / "patients.csv"
    expected = sb.predict(trained.path, table).tolist()
    result = _predict(capsys, trained.path, table)
    assert result.code == 0, result.err
    lines = list(csv.reader(result.out.splitlines()))
    assert lines[0] == ["row", "prediction"]
    assert [line[1] for line in lines[1:]] == expected
    assert [line[0] for line in lines[1:3]] == ["1", "2"]
    above = _predict(capsys, trained.path.parent, table)  # the only finished run there
    assert above.out == result.out


def test_the_command_writes_probabilities(
    trained: StoredRun, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = folder / "patients.csv", tmp_path / "answers.csv"
    result = _predict(capsys, trained.path, table, "--probabilities", "--out", out)
    assert result.code == 0, result.err
    assert result.out == f"predictions of 300 rows: {out}\n"
    written = pd.read_csv(out)
    assert list(written.columns) == ["row", "prediction", "p(alive)", "p(died)"]
    shares = sb.predict(trained.path, table, probabilities=True)
    assert (abs(written[["p(alive)", "p(died)"]].to_numpy() - shares) < 5.1e-7).all()  # six digits are written
    absent = _predict(capsys, trained.path, table, "--out", tmp_path / "absent" / "answers.csv")
    assert (absent.code, "No such file or directory" in absent.err) == (2, True)
    facts = json.loads(_predict(capsys, trained.path, table, "--probabilities", "--json").out)
    assert facts["classes"] == ["alive", "died"]
    assert facts["probabilities"] == shares.tolist()
    assert facts["predictions"] == written["prediction"].tolist()


def test_only_predictions_of_the_same_form_are_replaced(
    trained: StoredRun, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = folder / "patients.csv", tmp_path / "answers.csv"
    out.touch()  # an empty file has nothing to lose
    for options in ([], ["--probabilities"], []):
        assert _predict(capsys, trained.path, table, *options, "--out", out).code == 0
    assert _predict(capsys, trained.path, table, "--json", "--out", out).code == 2
    facts = tmp_path / 'answers "again".json'
    for options in (["--json"], ["--json", "--probabilities"], ["--json"]):
        assert _predict(capsys, trained.path, table, *options, "--out", facts).code == 0
    assert _predict(capsys, trained.path, table, "--out", facts).code == 2
    assert json.loads(facts.read_text())["predictions"] == pd.read_csv(out)["prediction"].tolist()


@pytest.mark.parametrize(
    ("header", "is_own"),
    [
        ("row,prediction\n", True),
        ("row,prediction 1,prediction 2\n", True),
        ('row,prediction,"p(a,\nb)",p(c)\n', True),
        ("row,prediction,truth\n", False),
        ("row,prediction 2\n", False),
        ("row,p(a),p(b)\n", False),
        ("row,age,outcome\n", False),
        ("prediction,row\n", False),
        ("\n\n", False),
        ('"row', False),
        ("row," + "x" * 200_000, False),
    ],
)
def test_predictions_are_known_by_their_header(tmp_path: Path, header: str, is_own: bool) -> None:
    assert _is_csv(write(tmp_path / "any.csv", header)) == is_own


def test_one_of_several_runs_is_chosen_by_its_name(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, out = folder / "patients.csv", tmp_path / "runs"
    text = f"""
dataset = "{CLASSES.format(folder=folder)}"
partition = "by-group"
algorithm = ["fedavg", "solo"]
model = "linear"
solver = "sgd(epochs=1)"
rounds = 1
trials = 2
"""
    assert call(capsys, "run", write(tmp_path / "e.toml", text), "--workers", "1", "--out", out).code == 0
    several = _predict(capsys, out, table)
    assert several.code == 2
    assert "has 4 finished runs: choose one with --only and a part of its name, such as --only '*" in several.err
    example = several.err.split("--only '")[1].split("'")[0]
    assert _predict(capsys, out, table, "--only", example).code in (0, 2)  # it names one run
    assert "finished runs" not in _predict(capsys, out, table, "--only", example).err
    assert _predict(capsys, out, table, "--only", "*fedavg / seed 1").code == 0
    personal = _predict(capsys, out, table, "--only", "*solo / seed 0")
    assert personal.code == 2
    assert "every party has its own model: choose one with --party" in personal.err
    assert _predict(capsys, out, table, "--only", "*solo / seed 0", "--party", "site1").code == 0
    nothing = _predict(capsys, out, table, "--only", "*scaffold*")
    assert nothing.code == 2
    assert "matches none of 4 finished runs, such as" in nothing.err


def test_a_damaged_run_does_not_hide_the_others(
    trained: StoredRun, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, table = tmp_path / "runs", folder / "patients.csv"
    shutil.copytree(trained.path, out / trained.path.name)
    shutil.copytree(trained.path, out / "damaged")
    write(out / "damaged" / "run.json", "{")
    result = _predict(capsys, out, table)
    assert result.code == 0, result.err
    assert result.out == _predict(capsys, trained.path, table).out
    assert "1 of 2 runs cannot be read: " in " ".join(result.err.split())
    shutil.rmtree(out / trained.path.name)
    nothing = _predict(capsys, out, table)
    assert nothing.code != 0
    assert "run.json is damaged" in " ".join(nothing.err.split())


def test_a_model_of_a_plugin_needs_the_plugin(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin, out = write(tmp_path / "mine.py", PLUGIN), tmp_path / "runs"
    text = f'dataset = "{CLASSES.format(folder=folder)}"\npartition = "by-group"\nmodel = "flat-of-mine"\nrounds = 1\n'
    experiment = write(tmp_path / "e.toml", text)
    table = folder / "patients.csv"
    try:
        result = call(capsys, "run", experiment, "--workers", "1", "--out", out, "--plugin", plugin)
        assert result.code == 0, result.err
        MODELS.factories.pop("flat-of-mine")  # another process does not know it
        without = _predict(capsys, out, table)
        assert without.code == 2
        assert "was made with the plugin mine.py, which is not loaded" in without.err
        assert "with --plugin FILE" in without.err
        assert _predict(capsys, out, table, "--plugin", plugin).code == 0
        write(plugin, PLUGIN + "# changed\n")
        assert "or has changed since" in _predict(capsys, out, table, "--plugin", plugin).err
    finally:
        MODELS.factories.pop("flat-of-mine", None)


REPLACED = """
import silobench as sb
from torch import nn

class Negative(nn.Linear):
    def forward(self, x):
        return -super().forward(x)

@sb.MODELS.register(replace=True)
def linear(inputs, outputs):
    return Negative(inputs, outputs)
"""


def test_a_part_that_a_plugin_replaced_is_not_the_one_of_silobench(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin, out, table = write(tmp_path / "mine.py", REPLACED), tmp_path / "runs", folder / "patients.csv"
    text = f'dataset = "{CLASSES.format(folder=folder)}"\npartition = "by-group"\nmodel = "linear"\nrounds = 2\n'
    before = {name: getattr(MODELS, name)["linear"] for name in ("factories", "added_later", "specs")}
    arguments = (write(tmp_path / "e.toml", text), "--workers", "1", "--out", out, "--plugin", plugin)
    try:
        result = call(capsys, "run", *arguments)
        assert result.code == 0, result.err
        expected = sb.predict(out, table)  # the plugin is loaded
        for name, value in before.items():  # another process
            getattr(MODELS, name)["linear"] = value
        with pytest.raises(ConfigError, match=r"was made with the plugin mine.py, which is not loaded"):
            sb.predict(out, table)
        refused = _predict(capsys, out, table)
        assert refused.code == 2
        assert "was made with the plugin mine.py" in refused.err
        assert (sb.predict(out, table, plugins=[plugin]) == expected).all()
    finally:
        for name, value in before.items():
            getattr(MODELS, name)["linear"] = value


OBJECTIVE = """
import silobench as sb
from silobench.tasks.objectives.cross_entropy import CrossEntropy
from silobench.tasks.metrics import ACCURACY

class WithSpare(CrossEntropy):  # an output that no class has
    name = "with-spare"

    def outputs(self, dataset):
        return len(dataset.classes) + 1

    def predictions(self, outputs):
        return outputs[:, :-1].argmax(1).numpy()

@sb.OBJECTIVES.register
def with_spare():
    return lambda dataset: WithSpare(ACCURACY, (ACCURACY,))
"""


def test_an_objective_may_need_other_outputs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin, out = write(tmp_path / "spare.py", OBJECTIVE), tmp_path / "runs"
    text = f'dataset = "{CLASSES.format(folder=folder)}"\npartition = "by-group"\nmodel = "linear"\nrounds = 1\n'
    file = write(tmp_path / "e.toml", text + 'objective = "with-spare"\n')
    try:
        result = call(capsys, "run", file, "--workers", "1", "--out", out, "--plugin", plugin)
        assert result.code == 0, result.err
        model = trained_model(out)
        assert model.sizes == sb.Sizes(model.rows.shape, 3)
        assert set(sb.predict(out, folder / "patients.csv")) <= {"alive", "died"}
        (run,) = read_runs(out)
        assert json.loads((run.path / "run.json").read_text())["objective"]["outputs"] == 3
    finally:
        sb.OBJECTIVES.factories.pop("with-spare", None)


def test_frozen_weights_come_back_with_the_seed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = MODEL + FROZEN
    file = write(tmp_path / "net.py", code)
    run = _run(folder, tmp_path / "runs", capsys, model=f"module(path={file}:frozen)", seed=5)
    frame, data = _test_rows(run, folder)
    assert _accuracy(sb.predict(run.path, frame, model_file=file), data) == run.rounds[-1].accuracy
    assert isinstance(trained_model(run.path, model_file=file).network.module, nn.Sequential)


def test_a_message_about_many_runs_suggests_a_name_that_one_of_them_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for partition in ("shards(per_party=1)", "label-dirichlet(beta=[0.1, 0.5])", "iid"):
        stored([0.5], out=tmp_path / "runs", partition=partition)
    several = call(capsys, "model", tmp_path / "runs")
    example = several.err.split("--only '")[1].split("'")[0]
    chosen = call(capsys, "model", tmp_path / "runs", "--only", example)
    assert "has no model (checkpoint/state.safetensors is missing" in chosen.err


def test_records_in_one_file_have_no_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored([0.5], out=tmp_path / "runs")
    file = tmp_path / "one.runs.xz"
    pack(records_of(tmp_path / "runs"), file)
    answer = call(capsys, "model", file)
    assert answer.code == 2
    assert f"{file} has records of runs without their models: run the experiment again" in answer.err
