"""Editions of the site: written when records changed, complete, and never in the directory of the runs."""

import json
import threading
from pathlib import Path

import pytest

from growing import GrowingRun
from silobench.errors import RecordError
from silobench.live.site import LiveSite
from silobench.runs.results import Results
from stored import stored

PAGE = b"<html><head></head><body>%s</body></html>"


class Renderer:
    """Makes a page that shows the number of rounds; counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def __call__(self, results: Results) -> dict[str, bytes]:
        self.calls += 1
        if self.error:
            raise self.error
        rounds = sum(len(run.rounds) for run in results.runs)
        return {"index.html": PAGE % f"{rounds} rounds".encode(), "runs/one.html": PAGE % b"one"}


def files_of(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_pages_are_written_only_when_records_changed(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    site = LiveSite(tmp_path, render := Renderer())
    versions = []
    for rounds in (0, 1, 2):
        if rounds:
            growing.grow(rounds)
        before = files_of(tmp_path)
        assert site.refresh()
        assert f"{rounds} rounds".encode() in site.edition.files["index.html"]
        assert not site.refresh()
        assert files_of(tmp_path) == before
        versions.append(site.edition.version)
    assert render.calls == 3
    assert len(set(versions)) == 3


def test_every_page_knows_its_version_and_loads_the_script(tmp_path: Path) -> None:
    stored([0.5], out=tmp_path)
    site = LiveSite(tmp_path, Renderer())
    site.refresh()
    edition = site.edition
    assert sorted(edition.files) == ["index.html", "live.css", "live.js", "runs/one.html"]
    for page in ("index.html", "runs/one.html"):
        assert f'<script src="/live.js" data-version="{edition.version}" defer>'.encode() in edition.files[page]
    assert json.loads(edition.state())["version"] == edition.version


def test_a_change_that_no_page_shows_keeps_the_version(tmp_path: Path) -> None:
    """A reader's page is then not fetched again."""
    stored([0.5], out=tmp_path)
    site = LiveSite(tmp_path, Renderer())
    site.refresh()
    version = site.edition.version
    (tmp_path / "note.json").write_text("{}")
    assert site.refresh()
    assert site.edition.version == version


@pytest.mark.parametrize("error", [RecordError("no disk space is left."), KeyError("a fact")])
def test_pages_that_cannot_be_written_leave_the_last_ones(tmp_path: Path, error: Exception) -> None:
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    growing.grow(1)
    site = LiveSite(tmp_path, render := Renderer())
    site.refresh()
    render.error = error
    growing.grow(2)
    assert site.refresh()
    assert b"1 rounds" in site.edition.files["index.html"]
    assert str(error).strip("'.") in site.edition.problems[0]
    render.error = None
    growing.finish()
    site.refresh()
    assert b"2 rounds" in site.edition.files["index.html"]
    assert site.edition.problems == ()


def test_pages_that_cannot_be_written_at_all_still_load_the_script(tmp_path: Path) -> None:
    render = Renderer()
    render.error = KeyError("a fact")
    site = LiveSite(tmp_path, render)
    site.refresh()
    assert b"/live.js" in site.edition.files["index.html"]
    assert len(site.edition.problems) == 1


def test_damaged_runs_are_problems_of_the_edition(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path, [0.1])
    growing.grow(1)
    (growing.path / "run.json").write_text("{")
    site = LiveSite(tmp_path, Renderer())
    site.refresh()
    assert [growing.path.name in problem for problem in site.edition.problems] == [True]


def test_it_stays_fresh_until_it_is_over(tmp_path: Path) -> None:
    growing = GrowingRun(tmp_path, [0.1, 0.2])
    over = threading.Event()

    def render(results: Results) -> dict[str, bytes]:
        if (rounds := len(results.runs[0].rounds)) < 2:
            growing.grow(rounds + 1)
        else:
            over.set()
        return {"index.html": str(rounds).encode()}

    site = LiveSite(tmp_path, render)
    site.refresh()
    site.keep_fresh(0.001, over)
    assert site.edition.files["index.html"] == b"2"
