"""The published studies: one folder per paper with its suites, printed numbers, findings, tables and figures.

A paper is a folder that exports `PAPER`, and one line in `_FOLDERS`.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from silobench.analysis.cells import CellResult, Published, PublishedCost, collect
from silobench.analysis.claims import Finding
from silobench.analysis.groups import Cells
from silobench.analysis.tables import Table
from silobench.papers.paper import Paper
from silobench.report.drawing import Section
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

_FOLDERS = (  # in the order in which tables and findings are shown
    "niid_bench",
    "zhao2018",
    "hsieh2020",
)
PAPERS: tuple[Paper, ...] = tuple(import_module(f"{__name__}.{folder}").PAPER for folder in _FOLDERS)
FINDINGS: tuple[Finding, ...] = tuple(finding for paper in PAPERS for finding in paper.findings)


def published_accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that a paper prints for a setting; None if no paper has it."""
    return next(filter(None, (paper.accuracy(label, parties) for paper in PAPERS)), None)


def published_cost(label: Label, parties: int) -> PublishedCost | None:
    """Return the cost of a round that a paper prints for a setting; None if no paper has it."""
    return next(filter(None, (paper.cost(label, parties) for paper in PAPERS)), None)


def collect_cells(runs: Iterable[StoredRun]) -> list[CellResult]:
    """Return the cells of finished runs, with the papers' numbers."""
    return collect(runs, published_accuracy, published_cost)


def _by_accuracy(cells: Cells) -> list[CellResult]:
    """Return the cells that are judged by accuracy: papers state nothing about other metrics."""
    return [cell for cell in cells if cell.is_accuracy]


def paper_tables(cells: Cells) -> list[Table]:
    """Return the papers' tables that have rows for these cells."""
    studied = _by_accuracy(cells)
    tables = (table(studied) for paper in PAPERS for table in paper.tables)
    return [table for table in tables if table.rows]


def paper_facts(cells: Cells) -> dict[str, list[dict[str, Any]]]:
    """Return what the papers' tables show as plain values, by name."""
    studied = _by_accuracy(cells)
    return {name: facts(studied) for paper in PAPERS for name, facts in paper.facts.items()}


def paper_sections(cells: Cells) -> list[Section]:
    """Return the papers' sections of the HTML page that have rows for these cells."""
    studied = _by_accuracy(cells)
    sections = (section for paper in PAPERS for section in paper.sections(studied))
    return [section for section in sections if section.table.rows]
