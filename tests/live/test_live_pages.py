"""Pages of the live view: those of the report, and nothing is made twice without need."""

from pathlib import Path

import pytest

from growing import GrowingRun
from silobench.cli.report import write_report
from silobench.live import pages
from silobench.live.pages import live_pages
from silobench.live.records import RecordReader, look_at
from silobench.report.rendering import Frame
from silobench.runs.results import read_results
from silobench.runs.stored import StoredRun
from stored import stored


def test_the_pages_are_those_of_the_report(tmp_path: Path) -> None:
    for seed in range(2):
        stored([0.5, 0.6], seed, out=tmp_path / "runs")
    results = read_results(tmp_path / "runs")
    live = live_pages("a study")(results)
    folder = write_report(results, tmp_path / "site", "a study", live=True).parent
    written = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {name: written.get(name) for name in live} == live
    assert {name for name in written if name.endswith(".html")} == {name for name in live if name.endswith(".html")}


def test_before_the_first_round_one_page_waits(tmp_path: Path) -> None:
    render = live_pages("a study")
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    files = render(read_results(tmp_path))
    assert [name for name in files if name.endswith(".html")] == ["index.html"]
    assert b"Waiting for the first round" in files["index.html"]
    growing.grow(1)
    assert f"runs/{growing.path.name}.html" in render(read_results(tmp_path))


def test_only_pages_of_runs_that_changed_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = pages.run_files

    def counted(run: StoredRun, frame: Frame) -> dict[str, bytes]:
        made.append(run.seed)
        return original(run, frame)

    monkeypatch.setattr(pages, "run_files", counted)
    for seed in range(3):
        stored([0.5, 0.6], seed, out=tmp_path)
    growing = GrowingRun(tmp_path, [0.1, 0.2, 0.3], seed=3)
    growing.grow(2)
    reader, render = RecordReader(tmp_path), live_pages("a study")
    render(reader.read(look_at(tmp_path)))
    assert sorted(made) == [0, 1, 2, 3]
    growing.grow(3)
    files = render(reader.read(look_at(tmp_path)))
    assert made[4:] == [3]
    assert len([name for name in files if name.startswith("runs/") and name.endswith(".html")]) == 4
    assert files == live_pages("a study")(read_results(tmp_path))  # as if everything were made anew
