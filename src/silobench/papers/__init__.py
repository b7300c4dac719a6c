"""The published studies: one folder per paper with its suites, printed numbers, findings, tables and figures.

A paper is a folder that exports `PAPER`, and one line in `_FOLDERS`.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from silobench.analysis.attacks import CANARIES, MEMBERSHIP, attack_tables
from silobench.analysis.cells import CellResult, Published, PublishedCost, References, collect
from silobench.analysis.claims import Finding
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.inversion import INVERSION, inversion_tables
from silobench.analysis.measured import measure_tables
from silobench.analysis.quantities import Ropes
from silobench.analysis.tables import Table
from silobench.analysis.vertical import LEAKS
from silobench.errors import ConfigError
from silobench.papers.paper import Paper
from silobench.report.drawing import Section
from silobench.report.page import Page
from silobench.runs.label import Label
from silobench.runs.stored import StoredRun

_FOLDERS = (  # in the order in which tables and findings are shown
    "niid_bench",
    "zhao2018",
    "hsieh2020",
    "oarf",
)
PAPERS: tuple[Paper, ...] = tuple(import_module(f"{__name__}.{folder}").PAPER for folder in _FOLDERS)
FINDINGS: tuple[Finding, ...] = tuple(finding for paper in PAPERS for finding in paper.findings)


def published_accuracy(label: Label, parties: int) -> Published | None:
    """Return the accuracy that a paper prints for a setting; None if no paper has it."""
    studies = () if label.has_replaced_parts else PAPERS
    return next(filter(None, (paper.accuracy(label, parties) for paper in studies)), None)


def published_cost(label: Label, parties: int) -> PublishedCost | None:
    """Return the cost of a round that a paper prints for a setting; None if no paper has it."""
    studies = () if label.has_replaced_parts else PAPERS
    return next(filter(None, (paper.cost(label, parties) for paper in studies)), None)


def replicated_accuracies(label: Label, parties: int) -> list[Published]:
    """Return the accuracies that independent replications of papers have for a setting, in the order of papers."""
    studies = () if label.has_replaced_parts else PAPERS
    accuracies = [find(label, parties) for paper in studies for find in paper.replications]
    return [accuracy for accuracy in accuracies if accuracy is not None]


REFERENCES = References(published_accuracy, published_cost, replicated_accuracies)


def collect_cells(runs: Iterable[StoredRun]) -> list[CellResult]:
    """Return the cells of finished runs, with the papers' numbers and those of replications."""
    return collect(runs, REFERENCES)


def rope_option(text: str) -> float | Ropes:
    """Return what ``--rope`` means: a number, or the regions of practical equivalence of a paper by name."""
    for paper in PAPERS:
        if paper.ropes and text.lower() in (paper.name.lower(), paper.folder.name.lower()):
            return Ropes(paper.name, paper.ropes, paper.vertical_ropes)
    try:
        return float(text)
    except ValueError:
        names = ", ".join(paper.folder.name for paper in PAPERS if paper.ropes)
        more = f", or the name of a paper that states differences ({names})" if names else ""
        raise ConfigError(f"--rope must be a number{more}, but '{text}' was given.") from None


def _by_accuracy(cells: Cells) -> list[CellResult]:
    """Return the cells of parties that hold rows, which are judged by accuracy and have no replaced parts."""
    plain = [cell for cell in cells if not cell.label.has_replaced_parts]
    return [cell for cell in plain if cell.is_accuracy and not cell.is_vertical]


def _vertical(cells: Cells) -> list[CellResult]:
    """Return the cells of parties that hold columns, without those that have replaced parts."""
    return [cell for cell in cells if cell.is_vertical and not cell.label.has_replaced_parts]


def paper_tables(cells: Cells) -> list[Table]:
    """Return the papers' tables that have rows for these cells."""
    studied, vertical = _by_accuracy(cells), _vertical(cells)
    tables = [
        *(table(studied) for paper in PAPERS for table in paper.tables),
        *(table(vertical) for paper in PAPERS for table in paper.vertical_tables),
    ]
    return [table for table in tables if table.rows]


def _measures_shown(cell: CellResult) -> frozenset[str]:
    """Return the measures of a cell that other tables show: those of papers, of attacks and of leakage."""
    studied = bool(_by_accuracy([cell]))
    of_papers = frozenset(name for paper in PAPERS for name in paper.measures) if studied else frozenset()
    return of_papers | {MEMBERSHIP, CANARIES, INVERSION, *LEAKS}


def other_measures(cells: Cells) -> list[Table]:
    """Return tables of the measures that no table of a paper shows."""
    groups = grouped(cells, _measures_shown)
    tables = [table for group in groups for table in measure_tables(group, _measures_shown(group[0]))]
    return [*tables, *attack_tables(cells), *inversion_tables(cells)]


def other_measure_sections(cells: Cells) -> list[Section]:
    """Return sections of the report for the measures that no section of a paper shows, without attacks."""
    from silobench.report.colours import colours_of
    from silobench.report.measures import measure_sections

    groups, colours = grouped(cells, _measures_shown), colours_of(cells)
    return [section for group in groups for section in measure_sections(group, colours, _measures_shown(group[0]))]


def paper_pages(cells: Cells) -> list[Page]:
    """Return the pages of the report about papers and about measures."""
    return [
        Page("papers.html", "Papers", paper_sections(cells), "Tables and figures as the studies have them."),
        Page("measures.html", "Measures", other_measure_sections(cells), "What the runs measured about themselves."),
    ]


def paper_facts(cells: Cells) -> dict[str, list[dict[str, Any]]]:
    """Return what the papers' tables show as plain values, by name."""
    studied = _by_accuracy(cells)
    return {name: facts(studied) for paper in PAPERS for name, facts in paper.facts.items()}


def paper_sections(cells: Cells) -> list[Section]:
    """Return the papers' sections of the report that have rows for these cells."""
    studied = _by_accuracy(cells)
    sections = [section for paper in PAPERS for section in paper.sections(studied)]
    tables = [table(_vertical(cells)) for paper in PAPERS for table in paper.vertical_tables]
    sections += [Section(table.title, [], table) for table in tables]
    return [section for section in sections if section.table.rows]
