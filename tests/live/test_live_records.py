"""Reading of records that change: nothing is read twice without need, and nothing that changed is missed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from growing import GrowingRun
from silobench.live import records
from silobench.live.records import RecordReader, look_at
from silobench.runs.results import write_planned
from silobench.runs.stored import StoredRun, read_run
from stored import stored


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the directories that were parsed, in order."""
    names: list[str] = []

    def read(path: Path) -> StoredRun:
        names.append(path.name)
        return read_run(path)

    monkeypatch.setattr(records, "read_run", read)
    return names


def test_only_runs_that_changed_are_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    for seed in range(3):
        stored([0.5, 0.6], seed, out=tmp_path)
    growing = GrowingRun(tmp_path, [0.1, 0.2, 0.3], seed=3)
    reader = RecordReader(tmp_path)
    assert len(reader.read(look_at(tmp_path)).runs) == 4
    assert len(parsed) == 4
    reader.read(look_at(tmp_path))
    assert len(parsed) == 4
    for rounds in (1, 2, 3):
        growing.grow(rounds)
        (run,) = (run for run in reader.read(look_at(tmp_path)).runs if run.seed == 3)
        assert [row.accuracy for row in run.rounds] == [0.1, 0.2, 0.3][:rounds]
    growing.finish()
    assert reader.read(look_at(tmp_path)).unfinished == 0
    assert parsed[4:] == 4 * [growing.path.name]


def test_a_look_notices_every_kind_of_change(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    changes: dict[str, Callable[[], object]] = {
        "a round": lambda: growing.grow(1),
        "another": lambda: growing.grow(2),
        "the end": growing.finish,
        "another run": lambda: stored([0.5], 1, out=tmp_path),
        "a plan": lambda: write_planned(tmp_path, "plan", {"0" * 16: "a run"}, is_part=False),
        "a study in a folder": lambda: write_study(tmp_path / "tuned", "{}"),
        "a trial of it": lambda: write_study(tmp_path / "tuned", '{"trials": []}'),
        "a damage of the same size": lambda: damage(growing.path / "rounds.jsonl"),
        "a deleted run": lambda: shutil.rmtree(growing.path),
    }
    before = look_at(tmp_path)
    assert look_at(tmp_path) == before
    for name, change in changes.items():
        change()
        now = look_at(tmp_path)
        assert now != before, name
        before = now


def write_study(folder: Path, content: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "study.json").write_text(content)


def damage(file: Path) -> None:
    """Change bytes of a file in place; its size stays."""
    content = file.read_bytes()
    file.write_bytes(b"#" * 10 + content[10:])
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 1))  # also where the clock of the disk is coarse


def test_a_damaged_run_is_reported_and_not_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    stored([0.5], 0, out=tmp_path)
    growing = GrowingRun(tmp_path, [0.1, 0.2], seed=1)
    growing.grow(2)
    damage(growing.path / "rounds.jsonl")
    reader = RecordReader(tmp_path)
    for _ in range(2):
        results = reader.read(look_at(tmp_path))
        assert [run.seed for run in results.runs] == [0]
        assert [growing.path.name in problem for problem in results.problems] == [True]
    assert len(parsed) == 2
    growing.lines[0] = growing.lines[0].replace(b"0.1", b"0.4")
    (growing.path / "rounds.jsonl").unlink()
    growing.grow(2)
    assert len(reader.read(look_at(tmp_path)).runs) == 2


def test_a_change_between_look_and_reading_is_read_next_time(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    growing.grow(1)
    reader, early = RecordReader(tmp_path), look_at(tmp_path)
    growing.grow(2)
    assert len(reader.read(early).runs[0].rounds) == 2
    growing.lines[1] = growing.lines[1].replace(b"0.2", b"0.9")
    (growing.path / "rounds.jsonl").unlink()
    growing.grow(2)
    assert reader.read(look_at(tmp_path)).runs[0].rounds[1].accuracy == 0.9


def test_half_written_runs_are_notices(tmp_path: Path) -> None:
    stored([0.5], 0, out=tmp_path)
    young = GrowingRun(tmp_path, [0.1, 0.2], seed=1)  # run.json is there, and no round
    (young.path / "rounds.jsonl").write_bytes(young.lines[0])  # a round without its checkpoint does not count
    torn = GrowingRun(tmp_path, [0.1, 0.2], seed=2)
    torn.grow(2)
    (torn.path / "run.json").write_text(json.dumps(torn.facts)[:100])
    results = RecordReader(tmp_path).read(look_at(tmp_path))
    assert {run.seed: len(run.rounds) for run in results.runs} == {0: 1, 1: 0}
    assert len(results.problems) == 1
    assert torn.path.name in results.problems[0]


def test_a_directory_without_runs(tmp_path: Path) -> None:
    look = look_at(tmp_path)
    assert look.runs == {}
    results = RecordReader(tmp_path).read(look)
    assert (results.runs, results.problems) == ([], [])


def test_runs_that_are_deleted_after_the_look(tmp_path: Path) -> None:
    stored([0.5], 0, out=tmp_path)
    look = look_at(tmp_path)
    for path in look.runs:
        shutil.rmtree(path)
    assert RecordReader(tmp_path).read(look).runs == []
