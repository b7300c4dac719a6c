"""A trained model answers new rows as it answered the test rows, whoever trained it and however rows are given."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import torch
from torch import nn

import silobench as sb
from commands import Result, call, write
from silobench.errors import ConfigError, DataError, RecordError
from silobench.models import MODELS
from silobench.runs.predict import trained_model
from silobench.runs.stored import StoredRun, encoder_file, read_runs

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
    outputs = trained_model(run.path).outputs(data.test.x).double()
    margins = outputs.sort(1).values.diff(dim=1)[:, -1]
    assert margins.min() > 1e-5 * outputs.abs().max()  # rounding decides no answer, whichever engine tested
    for rows in (data.test.x, frame, tmp_path / "new.csv", str(tmp_path / "new.csv"), dict(frame)):
        assert _accuracy(sb.predict(run.path, rows), data) == run.rounds[-1].accuracy
    assert run.rounds[-1].accuracy is not None
    assert run.rounds[-1].accuracy > 0.7


@pytest.mark.parametrize("algorithm", ["fedbn", "solo", "finetune(fedavg, epochs=2)", "ditto"])
@pytest.mark.parametrize("engine", ["inline", "auto"])
def test_the_models_of_parties_are_those_that_were_tested(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str, engine: str
) -> None:
    write(folder / "net.py", MODEL)
    model = f"module(path={folder}/net.py:net)"
    run = _run(folder, tmp_path / "runs", capsys, algorithm=algorithm, model=model, engine=engine)
    frame, data = _test_rows(run, folder)
    names = run.partition.parties
    assert names == ("site0", "site1", "site2")
    by_party = [_accuracy(sb.predict(run.path, frame, party=name), data) for name in names]
    assert np.array(by_party).mean() == run.rounds[-1].accuracy
    assert np.array(by_party).std() == run.rounds[-1].accuracy_std
    with pytest.raises(ConfigError, match=r"every party has its own model: choose one with --party .* site0, site1"):
        sb.predict(run.path, frame)
    with pytest.raises(ConfigError, match="there is no party 'site9': did you mean site"):
        sb.predict(run.path, frame, party="site9")


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
    _, data = _test_rows(run, folder)
    by_party = [_accuracy(sb.predict(run.path, data.test.x, party=name), data) for name in run.partition.parties]
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
        (np.full((1, 7), np.nan), "the rows have NaN or infinite values"),
        (np.array([["a"]]), "the rows are an array of type <U1, but numbers are needed"),
        (pd.DataFrame({"age": [50]}), "has no column .*admitted"),
        ("nowhere.csv", "there is no file .*nowhere.csv"),
    ],
)
def test_rows_that_do_not_fit_are_one_sentence(trained: StoredRun, rows: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        sb.predict(trained.path, rows)


def test_an_array_file_is_read_for_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    text = 'dataset = "digits"\nmodel = "cnn"\nparties = 3\nsolver = "sgd(epochs=1)"\nrounds = 1\n'
    assert call(capsys, "run", write(tmp_path / "e.toml", text), "--workers", "1", "--out", out).code == 0
    data = sb.load("digits")
    np.save(tmp_path / "rows.npy", data.test.x[:5])
    assert sb.predict(out, tmp_path / "rows.npy").tolist() == sb.predict(out, data.test.x[:5]).tolist()
    assert sb.predict(out, data.test.x[:5].astype(np.float64)).tolist() == sb.predict(out, data.test.x[:5]).tolist()
    file = write(tmp_path / "rows.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match="was not trained on a table with named columns, so it cannot read"):
        sb.predict(out, file)
    with pytest.raises(DataError, match="is not an array of numbers that NumPy saved"):
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
    with pytest.raises(RecordError, match=r"was deleted \(--records-only\)"):
        sb.predict(run.path, folder / "patients.csv")
    with pytest.raises(RecordError, match="there is no directory"):
        sb.predict(tmp_path / "nowhere", folder / "patients.csv")


def test_a_changed_model_file_is_not_used(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "net.py", MODEL)
    run = _run(folder, tmp_path / "runs", capsys, model=f"module(path={file}:net)")
    write(file, MODEL.replace("ReLU", "Tanh"))
    with pytest.raises(ConfigError, match=r"the file of module\(path=.*\) has changed since"):
        sb.predict(run.path, folder / "patients.csv")


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
    table, out = folder / "patients.csv", tmp_path / "new" / "answers.csv"
    result = _predict(capsys, trained.path, table, "--probabilities", "--out", out)
    assert result.code == 0, result.err
    assert result.out == f"predictions of 300 rows: {out}\n"
    written = pd.read_csv(out)
    assert list(written.columns) == ["row", "prediction", "p(alive)", "p(died)"]
    shares = sb.predict(trained.path, table, probabilities=True)
    assert (written[["p(alive)", "p(died)"]].to_numpy() == shares).all()
    facts = json.loads(_predict(capsys, trained.path, table, "--probabilities", "--json").out)
    assert facts["classes"] == ["alive", "died"]
    assert facts["probabilities"] == shares.tolist()
    assert facts["predictions"] == written["prediction"].tolist()


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
        assert "comes from a plugin (mine.py " in without.err
        assert "load it with --plugin FILE" in without.err
        assert _predict(capsys, out, table, "--plugin", plugin).code == 0
        write(plugin, PLUGIN + "# changed\n")
        assert "which has changed since or is missing" in _predict(capsys, out, table, "--plugin", plugin).err
    finally:
        MODELS.factories.pop("flat-of-mine", None)


def test_frozen_weights_come_back_with_the_seed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = MODEL + FROZEN
    file = write(tmp_path / "net.py", code)
    run = _run(folder, tmp_path / "runs", capsys, model=f"module(path={file}:frozen)", seed=5)
    frame, data = _test_rows(run, folder)
    assert _accuracy(sb.predict(run.path, frame), data) == run.rounds[-1].accuracy
    assert isinstance(trained_model(run.path).network.module, nn.Sequential)
