"""Runs that are written on another machine: what arrives here is a run directory like any other, at every moment."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from silobench.engines import EXECUTORS, Engine, Executor, Job, News
from silobench.engines.cluster.executor import Cluster
from silobench.engines.executor import InProcess, InState, executor_of
from silobench.engines.shipping import packed, unpacked
from silobench.errors import ConfigError, RecordError
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.mirror import RunFiles, Seen, changed_files, write_changes, write_files
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.runs.sweep import sweep
from silobench.runs.writer import locked, open_run

CHOICES = {"dataset": "fcube", "partition": "octants", "algorithm": "scaffold", "solver": "sgd(epochs=1)", "rounds": 4}


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def sent(path: Path) -> dict[str, bytes]:
    """The files of a run as another process gets them."""
    files: dict[str, bytes] = unpacked(packed(RunFiles(path)))
    return files


@pytest.fixture
def each() -> Any:
    (only,) = plan(CHOICES)
    return only


def test_every_commit_that_arrives_is_a_run_that_can_be_resumed(each, tmp_path: Path, monkeypatch) -> None:
    """The machine is lost after each of its rounds in turn, and another one goes on with what had arrived."""
    monkeypatch.setattr("silobench.runs.writer._COMMIT_EVERY", 0)  # commit each round
    expected = tmp_path / "expected"
    list(execute(prepare(each), expected, "inline"))
    for lost_after in range(1, 5):
        here = tmp_path / f"here-{lost_after}" / each.id
        (here / "checkpoint").mkdir(parents=True)
        for attempt, rounds in enumerate((lost_after, 4)):
            there = tmp_path / f"there-{lost_after}-{attempt}"
            write_files(there / each.id, sent(here))
            seen: Seen = {}
            records = execute(prepare(each), there, "inline")
            for record in records:
                changes, seen = changed_files(there / each.id, seen)
                write_changes(here, changes)
                if record.round == rounds and attempt == 0:
                    assert read_run(here).rounds[-1].round == lost_after
                    shutil.copytree(there, tmp_path / f"gone-{lost_after}")
                    break
            records.close()
            if attempt:
                write_changes(here, changed_files(there / each.id, seen)[0])
        ours, theirs = read_run(here), read_run(expected / each.id)
        assert ours.complete
        assert ours.facts.state_sha256 == theirs.facts.state_sha256
        assert [row.accuracy for row in ours.rounds] == [row.accuracy for row in theirs.rounds]


def test_only_what_changed_is_sent_and_records_as_they_grow(each, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("silobench.runs.writer._COMMIT_EVERY", 0)
    path, here = tmp_path / "there" / each.id, tmp_path / "here"
    (here / "checkpoint").mkdir(parents=True)
    seen: Seen = {}
    sizes = []
    for _ in execute(prepare(each), tmp_path / "there", "inline"):
        changes, seen = changed_files(path, seen)
        sizes.append({change.name: (change.offset, len(change.content)) for change in changes})
        write_changes(here, changes)
        assert contents(here) == contents(path)
    assert changed_files(path, {**seen})[1] == changed_files(path, seen)[1]
    assert list(sizes[0]) == ["rounds.jsonl", "checkpoint/state.safetensors", "run.json"]
    assert list(sizes[1]) == ["rounds.jsonl", "checkpoint/state.safetensors"]
    assert sizes[1]["rounds.jsonl"][0] == sizes[0]["rounds.jsonl"][1]
    last = changed_files(path, seen)[0]
    assert [change.name for change in last] == ["run.json"]  # it is complete


def test_facts_come_first_where_there_are_none(each, tmp_path: Path, monkeypatch) -> None:
    """A directory with rounds and without facts is damaged; one with facts and without rounds begins anew."""
    list(execute(prepare(each), tmp_path, "inline"))
    changes, _ = changed_files(tmp_path / each.id, {})
    here = tmp_path / "here"
    (here / "checkpoint").mkdir(parents=True)
    names = []
    monkeypatch.setattr(
        "silobench.runs.mirror.replace_atomically",
        lambda file, _, **options: names.append(file.relative_to(here).as_posix()),
    )
    write_changes(here, changes)
    assert names == ["run.json", "rounds.jsonl", "checkpoint/state.safetensors"]


def test_a_run_that_is_made_elsewhere_is_locked_here(tmp_path: Path) -> None:
    with locked(tmp_path / "run"):
        with pytest.raises(RecordError, match="is being written by another process"):
            open_run(tmp_path / "run", {}, dict)
        assert sent(tmp_path / "run") == {}
    with locked(tmp_path / "run"):
        pass


class Far:
    """An executor of a machine with another processor: jobs and news are copies.

    Every job is lost once, after its third value.
    """

    workers, memories, is_remote, gpus = 2, InState(), True, 0.0
    device_workers = Cluster.device_workers

    def __init__(self) -> None:
        self.lost: set[int] = set()

    def start(self) -> None:
        pass

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        return (unpacked(packed(job))() for job in jobs)

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        with pytest.MonkeyPatch.context() as machine:
            machine.setattr("silobench.engines.kernel.cpu_type", lambda: "another processor")
            for place in (*range(len(jobs)), *range(len(jobs))):
                job = unpacked(packed(jobs[place]))
                for count, news in enumerate(InProcess().news([job])):
                    yield unpacked(packed(replace(news, job=place)))
                    if count == 2 and place not in self.lost:
                        self.lost.add(place)
                        break


@pytest.fixture
def far(monkeypatch) -> Iterator[Far]:
    """Register the executor `elsewhere` for a test."""
    monkeypatch.setattr(EXECUTORS, "factories", dict(EXECUTORS.factories))
    executor = Far()

    @EXECUTORS.register
    def elsewhere(workers: int = 2) -> Executor:
        return executor

    executor_of.cache_clear()
    yield executor
    executor_of.cache_clear()


def test_a_sweep_on_other_machines_writes_the_runs_of_this_one(far: Far, tmp_path: Path, monkeypatch) -> None:
    """Each job is lost and sent again: it goes on after the rounds that had arrived, with the bits of inline.

    The first two runs were begun here. One of them was cut off within a line, which no checkpoint counts.
    """
    monkeypatch.setattr("silobench.runs.writer._COMMIT_EVERY", 0)
    plans = plan(CHOICES | {"algorithm": ["fedavg", "scaffold"], "trials": 4})
    for each in plans[:2]:
        with closing(execute(prepare(each), tmp_path / "many", "inline")) as records:
            next(records)
    lines = tmp_path / "many" / plans[0].id / "rounds.jsonl"
    lines.write_bytes(lines.read_bytes() + lines.read_bytes()[:-40])
    events = list(sweep(plans, tmp_path / "many", "pool(workers=2, executor=elsewhere)", workers=2))
    list(sweep(plans, tmp_path / "alone", "inline"))
    assert far.lost == set(range(8))
    for each in plans:
        ours, theirs = (read_run(tmp_path / out / each.id) for out in ("many", "alone"))
        assert ours.facts.state_sha256 == theirs.facts.state_sha256
        assert ours.facts.environment == theirs.facts.environment  # also their processor
        numbers = [event.round for event in events if event.id == each.id and event.kind == "round"]
        assert numbers == ([2, 3, 4] if each in plans[:2] else [1, 2, 3, 4])  # none is done twice


def test_a_device_needs_gpus_of_the_cluster(far: Far) -> None:
    engine = Engine(("inline",), workers=2, executor="elsewhere")
    setting: Any = SimpleNamespace(task=SimpleNamespace(device="cuda"))
    with pytest.raises(ConfigError, match="reserves no GPU for a party: give --gpus-per-party"):
        engine.settled(setting)
    far.gpus = 1.0
    assert engine.settled(setting).workers == 2
    assert str(engine) == "elsewhere"
