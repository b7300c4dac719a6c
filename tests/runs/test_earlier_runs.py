"""Runs that an earlier version recorded: their ids are still planned, and every command still reads them."""

import json
import shutil
from pathlib import Path

import pytest

from commands import call
from silobench.runs.experiment import plan, read_experiment

EARLIER = Path(__file__).with_name("earlier")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a copy of the earlier runs, because a report is written beside them."""
    return Path(shutil.copytree(EARLIER / "runs", tmp_path / "runs"))


@pytest.mark.parametrize(("file", "folder"), [("earlier.toml", "runs"), ("cut.toml", "cut")])
def test_the_same_experiment_has_the_same_ids(file: str, folder: str) -> None:
    ids = {planned.id for planned in plan(read_experiment(EARLIER / file))}
    assert ids == {path.name for path in (EARLIER / folder).iterdir()}


def test_every_run_is_shown(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(call(capsys, "show", stored, "--json").out)["cells"]
    last = {
        run.name: json.loads((run / "rounds.jsonl").read_text().splitlines()[-1])["accuracy"]
        for run in stored.iterdir()
    }
    assert len(cells) == len(last)
    assert {Path(cell["runs"][0]).name: cell["accuracy"]["mean"] for cell in cells} == last


@pytest.mark.parametrize("command", [("show",), ("show", "--details"), ("claims", "--evidence"), ("report",)])
def test_every_command_reads_them(command: tuple[str, ...], stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = call(capsys, command[0], stored, *command[1:])
    assert result.code == 0, result.err
    assert result.out


def test_a_finished_run_is_not_run_again(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in stored.rglob("rounds.jsonl")}
    assert call(capsys, "run", EARLIER / "earlier.toml", "--out", stored, "--workers", "1").code == 0
    assert {path: path.read_bytes() for path in stored.rglob("rounds.jsonl")} == before


def test_an_interrupted_run_does_not_get_in_the_way(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not shown before it is finished, and the others still are."""
    shutil.copytree(EARLIER / "cut", stored / "cut")
    assert len(json.loads(call(capsys, "show", stored, "--json").out)["cells"]) == len(list(EARLIER.glob("runs/*")))
