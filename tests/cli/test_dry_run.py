"""`run --dry-run`: it says what would be done, and does nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from commands import call, write
from silobench.runs.execute import execute
from silobench.runs.experiment import plan, read_experiment
from silobench.runs.prepare import prepare

TINY = 'dataset = "fcube"\nmodel = "linear"\nparties = 2\nsolver = "sgd(steps=1)"\nalgorithm = ["fedavg", "fednova"]\n'


def test_a_preview_counts_and_lists_runs_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY + "rounds = 2\ntrials = 15\n"), tmp_path / "runs"
    result = call(capsys, "run", file, "--out", out, "--dry-run")
    assert result.code == 0, result.err
    first, second, *listed = result.out.splitlines()
    assert first == "30 runs: 0 finished, 0 begun, 30 missing"
    assert second == "60 rounds to do: the time can be estimated once a run is finished"
    assert len(listed) == 21
    assert listed[-1] == "  and 10 more; --json lists all of them"
    assert "fcube / iid / fedavg / seed 0" in listed[0]
    assert not out.exists()


GROUPS = 'dataset = "csv(path=good.csv, label=died, group=ward)"\nsolver = "sgd(steps=1)"\nrounds = 1\nparties = 2\n'
NOTE = (
    'note: good has groups (ward), but the partition is iid: write partition = "by-group" to make each group a party.'
)


def test_groups_that_no_partition_uses_are_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{row % 7},{'ab'[row % 2]},w{row % 3}" for row in range(60)]
    write(tmp_path / "good.csv", "\n".join(["age,died,ward", *lines]) + "\n")
    file = write(tmp_path / "tiny.toml", GROUPS)
    for more in (["--dry-run"], ["--dry-run", "--json", "--trials", "3"], ["--workers", "1"]):
        result = call(capsys, "run", file, *more)
        assert (result.code, result.err.splitlines().count(NOTE)) == (0, 1), result.err
    whole = "dataset=csv(path=good.csv, label=died, drop=ward)"
    for chosen in ("partition=iid", "partition=by-group", whole, "dataset=fcube"):
        result = call(capsys, "run", file, "--dry-run", "--set", chosen)
        assert (result.code, result.err) == (0, ""), result.err
    mixed = write(tmp_path / "mixed.toml", GROUPS + '[[grid]]\nrounds = 2\n[[grid]]\npartition = "by-group"\n')
    assert call(capsys, "run", mixed, "--dry-run").err == f"{NOTE}\n"
    assert call(capsys, "run", mixed, "--dry-run", "--only", "*by-group*").err == ""


def test_a_preview_knows_what_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY), tmp_path / "runs"
    common = ("run", file, "--out", out)
    assert call(capsys, *common, "--set", "rounds=2", "--workers", "1", "--only", "*fedavg*").code == 0
    facts = json.loads(call(capsys, *common, "--set", "rounds=[2, 3]", "--dry-run", "--json").out)
    assert {key: facts[key] for key in ("runs", "finished", "begun", "missing", "rounds", "skipped")} == {
        "runs": 4, "finished": 1, "begun": 0, "missing": 3, "rounds": 2 + 3 + 3, "skipped": {},
    }  # fmt: skip
    assert facts["seconds"] > 0
    assert [run["status"] for run in facts["list"]].count("finished") == 1
    assert {run["id"] for run in facts["list"] if run["status"] == "finished"} == {
        each.name for each in out.glob("[!.]*")
    }
    done = call(capsys, *common, "--set", "rounds=2", "--dry-run", "--only", "*fedavg*")
    assert done.out == "1 run: 1 finished, 0 begun, 0 missing\nnothing is left to do\n"


def test_a_preview_counts_only_the_rounds_that_a_begun_run_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY + "rounds = 5\n"), tmp_path / "runs"
    first, _ = plan(read_experiment(file))
    list(execute(prepare(replace(first, until=3)), out))
    result = call(capsys, "run", file, "--out", out, "--dry-run")
    assert result.out.splitlines()[:2] == [
        "2 runs: 0 finished, 1 begun, 1 missing",
        "7 rounds to do: the time can be estimated once a run is finished",
    ]


def test_a_preview_finds_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "tiny.toml", TINY + "participation = [1.0, 9]\n")
    result = call(capsys, "run", file, "--out", tmp_path / "runs", "--dry-run")
    assert result.code == 2
    assert "9" in result.err
