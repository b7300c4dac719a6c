"""The index of a large directory: tables read no rounds with it, and nothing but the runs themselves decides them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import call
from silobench.analysis.cells import collect
from silobench.analysis.time_tables import decomposition_table, time_table
from silobench.runs import index as index_module
from silobench.runs.index import INDEX, RunIndex
from silobench.runs.results import read_results
from silobench.runs.stored import StoredRounds, read_run
from stored import stored

RUNS = 6
TIME = {"total": 2.0, "core": 3.0, "server": {"test": 0.5, "idle": 1.5}, "parties": {"train": 1.0, "idle": 1.0}}
EVERY = {"rows": 100, "dense_up": 20, "dense_down": 20, "time": TIME, "class_accuracy": [0.5, 0.75]}


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of finished runs that were not written a moment ago, and count as many."""
    monkeypatch.setattr("silobench.runs.results.FEWEST", RUNS)
    monkeypatch.setattr(index_module, "FEWEST", RUNS)
    monkeypatch.setattr(index_module, "_SETTLED", -(10**9))
    out = tmp_path / "runs"
    for seed in range(RUNS // 2):
        for algorithm in ("fedavg", "scaffold"):
            stored([0.1, 0.2, 0.3 + seed / 100], seed, every=EVERY, out=out, algorithm=algorithm)
    return out


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    names: list[str] = []
    real: Callable[[Path], bytes] = Path.read_bytes

    def reading(path: Path) -> bytes:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", reading)
    return names


def tables(out: Path) -> list[object]:
    cells = collect(read_results(out).runs)
    values = [
        (cell.label, cell.score, cell.curve, cell.bytes_up, cell.virtual_seconds, cell.diverged) for cell in cells
    ]
    return [*values, time_table(cells, by_partition=True).rows, decomposition_table(cells).rows]


def test_an_index_gives_the_same_tables_without_reading_a_round(runs: Path, opened: list[str]) -> None:
    plain = tables(runs)
    assert opened.count("rounds.jsonl") == opened.count("run.json") == RUNS  # each once
    assert (runs / INDEX).exists()
    opened.clear()
    assert tables(runs) == plain
    assert not opened


def test_show_and_a_leaderboard_read_no_round_with_an_index(
    runs: Path, opened: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silobench.report.leaderboard.MOST_WITH_BUDGETS", 1)  # a budget needs every round
    for command in (("show", runs), ("show", runs, "--details", "--time"), ("claims", runs), ("leaderboard", runs)):
        assert call(capsys, *command).code == 0
        opened.clear()
        assert call(capsys, *command).code == 0
        assert "rounds.jsonl" not in opened, command


def test_a_report_reads_the_rounds_of_each_run_with_a_page_once(
    runs: Path, opened: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("silobench.report.site", "silobench.report.pages.runs"):
        monkeypatch.setattr(f"{name}.MOST_PAGES", 2)
    read_results(runs)
    opened.clear()
    assert call(capsys, "report", runs, "--output", tmp_path / "site").code == 0
    assert opened.count("rounds.jsonl") == 2
    assert "Each of the first 2 runs" in (tmp_path / "site" / "runs.html").read_text()


def test_trials_of_a_cell_share_their_choices(runs: Path) -> None:
    plain = [(dict(run.config), dict(run.label), list(run.config)) for run in read_results(runs).runs]
    indexed = read_results(runs).runs
    assert [(dict(run.config), dict(run.label), list(run.config)) for run in indexed] == plain
    assert len({id(run.config.without("seed")) for run in indexed}) == 2  # of two algorithms


def test_all_rounds_are_still_there(runs: Path) -> None:
    plain = [list(read_run(run.path).rounds) for run in read_results(runs).runs]
    indexed = read_results(runs).runs
    assert all(isinstance(run.rounds, StoredRounds) for run in indexed)
    assert [list(run.rounds) for run in indexed] == plain
    assert [run.rounds[:2] for run in indexed] == [rows[:2] for rows in plain]
    assert [len(run.rounds) for run in indexed] == [3] * RUNS


def test_rounds_of_few_runs_stay_in_memory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collections import deque

    read_results(runs)
    monkeypatch.setattr("silobench.runs.stored._RECENT", deque(maxlen=2))
    indexed = [run.rounds for run in read_results(runs).runs]
    assert [len(list(rounds)) for rounds in indexed] == [3] * RUNS
    assert [rounds._rows is not None for rounds in indexed if isinstance(rounds, StoredRounds)] == [False] * 4 + [
        True
    ] * 2


def test_a_changed_run_is_read_again_and_refused(runs: Path) -> None:
    read_results(runs)
    path = sorted(runs.glob("*/rounds.jsonl"))[0]
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(content.replace(b"0.2", b"0.9"))  # as long as before
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # and as old
    (problem,) = read_results(runs).problems
    assert f"{path} is damaged" in problem


def test_a_deleted_run_is_gone_and_a_new_one_is_there(runs: Path) -> None:
    read_results(runs)
    shutil.rmtree(sorted(runs.glob("*/"))[0])
    stored([0.5], 9, out=runs, algorithm="fednova")
    assert sorted(run.label["algorithm"] for run in read_results(runs).runs).count("fednova") == 1
    assert len(read_results(runs).runs) == RUNS


def test_an_index_that_came_with_copied_runs_is_ignored(runs: Path, tmp_path: Path, opened: list[str]) -> None:
    read_results(runs)
    copy = tmp_path / "copy"
    shutil.copytree(runs, copy, copy_function=shutil.copy2)  # with the same times
    opened.clear()
    read_results(copy)
    assert opened.count("rounds.jsonl") == RUNS


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-10],
        lambda content: content.replace(b"0.3", b"0.9", 1),
        lambda content: b"",
        lambda content: b"\xff\n{}",
        lambda content: b"[" * 100_000,
    ],
)
def test_a_damaged_index_is_ignored(runs: Path, damage: Callable[[bytes], bytes]) -> None:
    plain = tables(runs)
    (runs / INDEX).write_bytes(damage((runs / INDEX).read_bytes()))
    assert tables(runs) == plain


@pytest.mark.parametrize("runs_of_index", [[], 5, {"NAME": 5}, {"NAME": {"0": []}}, {"NAME": []}])
def test_an_index_that_was_sealed_by_hand_is_ignored(runs: Path, runs_of_index: object) -> None:
    path = next(path for path in runs.iterdir() if path.is_dir())
    stored_runs = json.loads(json.dumps(runs_of_index).replace("NAME", path.name))
    content = json.dumps({"version": index_module._version(), "parts": [], "runs": stored_runs}).encode()
    (runs / INDEX).write_bytes(index_module.sha256(content).encode() + b"\n" + content)
    assert RunIndex.of(runs).read(path).facts == read_run(path).facts


def test_an_index_of_another_version_is_ignored(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_results(runs)
    assert RunIndex.of(runs).runs
    monkeypatch.setattr(index_module, "_version", lambda: "another")
    assert not RunIndex.of(runs).runs


def test_a_file_of_this_moment_is_not_indexed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_SETTLED", 10**18)
    read_results(runs)
    assert not RunIndex.of(runs).runs


def test_a_file_that_was_new_when_it_was_read_is_not_indexed_later(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have changed since, in the same tick of the clock that times files."""
    monkeypatch.setattr(index_module, "_SETTLED", 10**18)
    index = RunIndex.of(runs)
    for path in sorted(path for path in runs.iterdir() if path.is_dir()):
        index.read(path)
    monkeypatch.setattr(index_module, "_SETTLED", -(10**9))  # reading many runs takes long
    index.write()
    assert not RunIndex.of(runs).runs


def test_a_directory_that_cannot_be_written_is_read_all_the_same(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("silobench.atomic._opened", refuse)
    assert len(read_results(runs).runs) == RUNS
    assert not (runs / INDEX).exists()


def test_a_full_disk_leaves_no_half_of_an_index(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    assert len(read_results(runs).runs) == RUNS
    assert not list(runs.glob(f"{INDEX}*"))


def test_few_runs_have_no_index(tmp_path: Path) -> None:
    stored([0.5], out=tmp_path)
    assert len(read_results(tmp_path).runs) == 1
    assert not (tmp_path / INDEX).exists()


def test_an_index_shares_what_runs_share(runs: Path) -> None:
    read_results(runs)
    content = json.loads((runs / INDEX).read_bytes().partition(b"\n")[2])
    assert len(content["parts"]) == len({json.dumps(part) for part in content["parts"]})
    of_algorithms = [part for part in content["parts"] if "algorithm" in part]
    assert len(of_algorithms) == 2 * 2  # configuration and label of two algorithms, without seeds
    assert len(content["parts"]) < RUNS + len(of_algorithms)


def test_unfinished_runs_are_not_indexed(runs: Path) -> None:
    path = sorted(runs.glob("*/run.json"))[0]
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "status": "running"}))
    (path.parent / "rounds.jsonl").unlink()
    for seed in (7, 8):
        stored([0.5], seed, out=runs)
    read_results(runs)
    assert path.parent.name not in RunIndex.of(runs).runs
    assert len(RunIndex.of(runs).runs) == RUNS + 1
