"""The pages of a report for the live view: those of `silobench report`, or one that waits for the first round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from silobench.live.site import Render
from silobench.papers import FINDINGS, collect_cells, paper_pages
from silobench.report.page import Page
from silobench.report.rendering import Frame, Link, assets, render
from silobench.report.site import contents_of, run_files, site_files
from silobench.report.study import study_pages
from silobench.runs.results import Results
from silobench.runs.stored import StoredRun


@dataclass
class RunPages:
    """The files of runs, which are made again only if the run or the frame around its page changed.

    A reader of records returns the same value for a run that did not change, so runs are compared by identity.
    """

    _files: dict[Path, tuple[StoredRun, Frame, Mapping[str, bytes]]] = field(default_factory=dict)

    def __call__(self, run: StoredRun, frame: Frame) -> Mapping[str, bytes]:
        earlier = self._files.get(run.path)
        if earlier is None or earlier[0] is not run or earlier[1] != frame:
            earlier = self._files[run.path] = (run, frame, run_files(run, frame))
        return earlier[2]


def live_pages(title: str) -> Render:
    """Return the function that makes the pages of runs, with the title of their site."""
    of_run = RunPages()

    def pages(results: Results) -> Mapping[str, bytes]:
        if not any(run.rounds for run in results.runs):
            return waiting_page(title)
        cells = collect_cells(results.runs)
        more = [*paper_pages(cells), *study_pages(results.runs)]
        contents = contents_of(results, title, cells, FINDINGS, more, live=True)
        return dict(site_files(contents, of_run))

    return pages


def waiting_page(title: str) -> dict[str, bytes]:
    """Return the site of a directory in which no round is recorded yet."""
    page = Page("index.html", "Overview", template="waiting.html")
    frame = Frame(title, [Link("index.html", "Overview")], "index.html", live=True)
    files = {path: text.encode() for path, text in assets().items()}
    return {"index.html": render(page, frame).encode(), **files}
