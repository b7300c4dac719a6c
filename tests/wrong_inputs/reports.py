"""Places where a report cannot be written."""

from pathlib import Path

from wrong_inputs.case import damaged
from wrong_inputs.results import intact


def with_home_page(runs: Path) -> None:
    """Put a page that silobench did not write where a report is to be."""
    (runs / "report").mkdir()
    (runs / "report/index.html").write_text("<p>mine</p>")


def with_file(runs: Path) -> None:
    """Put a file where the folder of a report is to be."""
    (runs / "report").write_text("mine")


def with_page_of_somebody(runs: Path) -> None:
    """Put a page that silobench did not write where a report of one file is to be."""
    (runs.parent / "mine.html").write_text("<p>mine</p>")


CASES = [
    damaged(
        "intact results",
        intact,
        "runs holds runs, and a report needs a folder of its own: choose another place, such as runs/report.",
        "report runs --output runs",
    ),
    damaged(
        "a page of somebody in runs/report",
        with_home_page,
        "runs/report/index.html exists and was not written by `silobench report`: move it away, or choose another "
        "place with --out.",
        "report runs",
    ),
    damaged(
        "a page of somebody in mine.html",
        with_page_of_somebody,
        "mine.html exists and is not a page of silobench: choose another name with --out, or delete it.",
        "report runs --output mine.html",
    ),
    damaged("a file runs/report", with_file, "cannot be written", "report runs"),
]
