"""The value `Paper`: all that silobench has of one published study."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silobench.analysis.cells import FindAccuracy, FindCost, no_number
from silobench.analysis.claims import Finding
from silobench.analysis.groups import Cells
from silobench.analysis.tables import Table
from silobench.report.drawing import Section


def _no_sections(cells: Cells) -> Sequence[Section]:
    return ()


@dataclass(frozen=True)
class Paper:
    """A study, with what commands show of it. Commands loop over `silobench.papers.PAPERS` and know no study by name.

    `folder` has the experiments in ``suites/*.toml`` and the printed tables in ``published/*.csv``.
    """

    name: str  # as findings call it
    citation: str
    folder: Path
    findings: Sequence[Finding]
    accuracy: FindAccuracy = no_number
    """(label, number of parties) -> the accuracy that the paper prints for this setting; None for any other setting.

    It must check all that affects the number: dataset, partition, model, solver, algorithm, the number of parties,
    participation, and start (`published.is_usual` checks start and the server's choices, `published.participation` has
    the share of parties). What may differ from the paper, such as rounds, is stated in `Published.setting`.
    """
    replications: Sequence[FindAccuracy] = ()
    """The same for each independent replication of the paper: its number, with its short name in `Published.by`.

    Tables show them after the paper's number. Findings are never judged by them.
    """
    cost: FindCost = no_number
    """(label, number of parties) -> the cost of a round that the paper prints for this setting."""
    tables: Sequence[Callable[[Cells], Table]] = ()
    """Tables of `silobench show` of runs in which parties hold rows; those without rows are left out."""
    vertical_tables: Sequence[Callable[[Cells], Table]] = ()
    """Tables of runs in which parties hold columns; those without rows are left out. The HTML page has them, too."""
    measures: Sequence[str] = ()
    """Measures that these tables and sections show; those of others are shown in tables of their own."""
    facts: Mapping[str, Callable[[Cells], list[dict[str, Any]]]] = field(default_factory=dict)
    """Values that `silobench show --json` adds, by key."""
    sections: Callable[[Cells], Sequence[Section]] = _no_sections
    """Sections of the HTML page; those whose table has no rows are left out."""
    ropes: Mapping[str, float] = field(default_factory=dict)
    """Regions of practical equivalence by metric of `silobench compare`, for ``--rope`` with the name of the paper.

    They are differences in the unit of the metric, such as rows per second, and never relative.
    """
    vertical_ropes: Mapping[str, float] = field(default_factory=dict)
    """Those that are other ones where parties hold columns."""

    @property
    def suites(self) -> dict[str, Path]:
        """The experiment files by name."""
        return {file.stem: file for file in sorted(self.folder.glob("suites/*.toml"))}
