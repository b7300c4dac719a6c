"""`Contents`: what the pages of a site are made from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Finding
from silobench.analysis.methods import Setting, settings
from silobench.report.colours import colours_of
from silobench.report.page import Page
from silobench.runs.stored import StoredRun


@dataclass(frozen=True)
class Contents:
    """Runs and cells of a study, what papers say about them, and what is missing."""

    title: str
    cells: Sequence[CellResult]
    runs: Sequence[StoredRun]  # finished and unfinished ones
    findings: Sequence[Finding] = ()
    more: Sequence[Page] = ()  # pages from outside this package, such as those of papers
    not_started: int = 0
    problems: Sequence[str] = ()  # what is wrong with runs that cannot be read
    live: bool = False
    is_alone: bool = False  # all pages are in one file

    @cached_property
    def settings(self) -> list[Setting]:
        """The methods of each setting."""
        return settings(self.cells)

    @cached_property
    def colours(self) -> dict[str, int]:
        """The place of each method in the palette."""
        return colours_of(self.cells)

    @cached_property
    def unfinished(self) -> list[StoredRun]:
        return [run for run in self.runs if not run.complete]
