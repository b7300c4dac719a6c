"""Vertical runs from a file: resumed after kills, and read by every command."""

import csv
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from commands import call, run_killed, write
from laws import lasting
from silobench.runs.experiment import plan
from silobench.runs.stored import read_json, read_run, run_paths
from silobench.runs.vertical import prepare
from vertical_cases import COLUMNS, table

EXPERIMENT = """
dataset = "csv(path=PATH, label=label, test=0.3)"
partition = "columns(by=block, overlap=0.8, absent=embedding)"
model = "mlp(hidden=4, top=4)"
solver = "adam(lr=0.01, batch=32, epochs=1)"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> str:
    """Return an experiment on a table in a file."""
    split, file = table(120).train, tmp_path / "table.csv"
    with file.open("w", newline="") as rows:
        writer = csv.writer(rows)
        names = [name.replace("=", "_") for name in COLUMNS]
        writer.writerow([*names, "label"])
        writer.writerows([*x.tolist(), "yes" if y else "no"] for x, y in zip(split.x, split.y, strict=True))
    return EXPERIMENT.replace("PATH", f"'{file}'")


def facts(out: Path) -> list[tuple[object, ...]]:
    """Return everything of the runs but their timings."""
    runs = []
    for path in run_paths(out):
        stored, rounds = read_json(path)
        runs.append((path.name, stored["model_sha256"], stored["state_sha256"], list(map(lasting, rounds))))
    return runs


def test_a_killed_run_ends_as_one_that_was_never_interrupted(
    experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "e.toml", f'{experiment}rounds = 30\nparties = 3\ntransforms = "quantize(bits=8)"\n')
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for rounds in (2, 12):
        run_killed(killed, rounds, "run", file, "--workers", "1", "--out", killed)
    assert call(capsys, "run", file, "--workers", "1", "--out", killed).code == 0
    assert call(capsys, "run", file, "--workers", "2", "--out", whole).code == 0
    assert facts(killed) == facts(whole)


def test_every_command_reads_vertical_runs(experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    algorithms = 'algorithm = ["split", "combined", "solo"]\n'
    file = write(tmp_path / "e.toml", f"{experiment}{algorithms}rounds = 2\ntrials = 2\n")
    out = tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    again = call(capsys, "run", file, "--workers", "1", "--only", "*split*", "--out", out)
    assert again.code == 0
    rows = tmp_path / "rows.npy"
    np.save(rows, table().test.x[:3])
    commands = [
        ("show", out), ("show", out, "--details"), ("show", out, "--json"), ("show", out, "--time"),
        ("show", out, "--profile"), ("compare", out, "split", "combined"), ("compare", out, "split", "solo", "--json"),
        ("claims", out), ("claims", out, "--json"), ("report", out, "--out", tmp_path / "report.html"),
        ("predict", out, tmp_path / "table.csv", "--only", "*split / seed 0"), ("list", "vertical-models"),
    ]  # fmt: skip
    for command in commands:
        result = call(capsys, *command)
        assert (result.code, "Traceback" in result.err) == (0, False), (command, result.err)
    shown = json.loads(call(capsys, "show", out, "--json").out)
    assert "columns(" in json.dumps(shown)


def test_predictions_are_those_of_the_test(experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Predict the whole table by a model that has seen 70% of it: far more than a constant answer is right."""
    full = experiment.replace(", overlap=0.8, absent=embedding", "")
    file = write(tmp_path / "e.toml", f"{full}rounds = 60\neval_every = 60\n")
    out = tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    answers = call(capsys, "predict", out, tmp_path / "table.csv").out.splitlines()[1:]
    with (tmp_path / "table.csv").open() as rows:
        labels = [row["label"] for row in csv.DictReader(rows)]
    share = np.mean([line.split(",")[1] == label for line, label in zip(answers, labels, strict=True)])
    run = read_run(next(iter(run_paths(out))))
    assert share > 0.8
    assert (run.rounds[-1].accuracy or 0) > 0.7
    refused = call(capsys, "model", out, "--out", tmp_path / "model.pt")
    assert refused.code != 0
    assert "use --format onnx" in refused.err
    party = call(capsys, "predict", out, tmp_path / "table.csv", "--party", "party-0")
    assert "all parties share one model" in party.err


def test_facts_and_notes_are_those_of_parties_with_columns(experiment: str) -> None:
    choices = tomllib.loads(experiment.replace("overlap=0.8", "overlap=0.6"))
    choices |= {"algorithm": ["split", "solo"], "measure": "label-leakage", "rounds": 1}
    split, solo = sorted(
        map(prepare, plan(choices)), key=lambda run: str(run.plan.label.get("algorithm")), reverse=True
    )
    facts, federation = split.facts(), split.federation
    y = federation.test_y[federation.test_sets["aligned"]].numpy()
    largest = np.bincount(y).max() / len(y)
    (constant,) = (each["constant"] for each in facts["objective"]["metrics"] if each["name"] == "accuracy")
    assert constant == largest != np.bincount(federation.test_y.numpy()).max() / len(federation.test_y)
    notes = "\n".join(split.notes)
    assert facts["dataset"]["notes"] == list(split.notes[: len(facts["dataset"]["notes"])])
    assert "standardised by the training rows of their owner, so no other party needs their statistics" in notes
    assert "every party learns" not in notes
    assert "also by training rows that overlap takes from their owner" in notes
    assert "the accuracy of a model that sees only which party has a row is" in notes
    assert "label-leakage cannot be measured" not in notes
    assert "label-leakage cannot be measured with solo: no activations cross between parties" in solo.notes


def test_a_model_that_does_not_fit_stops_a_grid_before_its_first_run(
    experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line in experiment.splitlines() if not line.startswith("model")]
    text = "\n".join([*lines, 'model = ["linear", "ncf(user=people)"]', "rounds = 1", ""])
    result = call(capsys, "run", write(tmp_path / "e.toml", text), "--workers", "1", "--out", tmp_path / "runs")
    assert result.code != 0
    assert "ncf needs a party with the columns people and film" in result.err.replace("\n", " ")
    assert not list((tmp_path / "runs").glob("*/rounds.jsonl"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("participation = 0.5", "participation = 0.5 is for parties that hold rows"),
        ('server = "momentum"', "server = 'momentum' is for parties that hold rows"),
        ('start = "centralised(3)"', "is for parties that hold rows"),
        ('exchange = "gossip"', "exchange = 'gossip' is for parties that hold rows"),
        ('algorithm = "fedavg"', "algorithm = 'fedavg' is for parties that hold rows, but columns("),
        ('solver = "sgd(lr=plateau(0.1))"', "follows the loss on validation rows"),
        (
            'partition = "columns(by=block) + noise(0.1)"',
            "is a sum, but a partition that deals columns cannot be added",
        ),
        ('clock = "device(speed=[1, 2, 3])"', "the clock has speeds of 3 parties, but the federation has 2"),
        ('measure = ["label-leakage", "label-leakage"]', "measure has label-leakage twice"),
    ],
)
def test_wrong_choices(
    line: str, message: str, experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = line.split(" = ")[0]
    others = [each for each in experiment.splitlines() if not each.startswith(f"{key} ")]
    file = write(tmp_path / "e.toml", "\n".join([*others, line, "" if key == "rounds" else "rounds = 1"]))
    result = call(capsys, "run", file, "--out", tmp_path / "runs")
    assert result.code != 0
    assert message in result.err.replace("\n", " ")
    assert "Traceback" not in result.err


def test_default_values_of_keys_for_rows_may_be_written_out(
    experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = 'rounds = 1\nserver = "step(lr=1)"\nselection = "uniform"\nparticipation = 1\n'
    file = write(tmp_path / "e.toml", experiment + lines)
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0


def test_a_horizontal_run_cannot_start_from_a_vertical_one(
    experiment: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    assert call(capsys, "run", write(tmp_path / "e.toml", f"{experiment}rounds = 1\n"), "--out", out).code == 0
    (run,) = run_paths(out)
    first = experiment.splitlines()[1]
    file = write(tmp_path / "h.toml", f"{first}\nrounds = 1\nstart = \"run(path='{run}')\"\n")
    result = call(capsys, "run", file, "--out", out)
    assert result.code != 0
    assert "hold columns, and a model of such parties is not one for parties that hold rows" in result.err
