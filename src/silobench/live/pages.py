"""The pages of a report for the live view: those of `silobench report`, or one that waits for the first round."""

from collections.abc import Mapping

from silobench.live.site import Render
from silobench.papers import FINDINGS, collect_cells, paper_pages
from silobench.report.page import Page
from silobench.report.rendering import Frame, Link, assets, render
from silobench.report.site import contents_of, site_files
from silobench.runs.results import Results


def live_pages(title: str) -> Render:
    """Return the function that makes the pages of runs, with the title of their site."""

    def pages(results: Results) -> Mapping[str, bytes]:
        if not any(run.rounds for run in results.runs):
            return waiting_page(title)
        cells = collect_cells(results.runs)
        return dict(site_files(contents_of(results, title, cells, FINDINGS, paper_pages(cells), live=True)))

    return pages


def waiting_page(title: str) -> dict[str, bytes]:
    """Return the site of a directory in which no round is recorded yet."""
    page = Page("index.html", "Overview", template="waiting.html")
    frame = Frame(title, [Link("index.html", "Overview")], "index.html", live=True)
    files = {path: text.encode() for path, text in assets().items()}
    return {"index.html": render(page, frame).encode(), **files}
