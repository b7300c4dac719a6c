"""Parts of pages: drawings and sections."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Table, shown
from silobench.report.charts.values import Chart, Heatmap

_MANY = 10  # columns of a heatmap


@dataclass(frozen=True)
class Drawing:
    """A chart with its title on the page, and a note on how to read it."""

    name: str
    chart: Chart
    note: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it needs the room of two small figures."""
        return isinstance(self.chart, Heatmap) and len(self.chart.columns) > _MANY


@dataclass(frozen=True)
class Section:
    """A part of a page: what it shows in words, figures, and tables below them."""

    title: str
    drawings: Sequence[Drawing] = ()
    table: Table = field(default_factory=lambda: Table("", [], []))
    lead: Sequence[str] = ()  # sentences below the title
    facts: Sequence[tuple[str, str]] = ()  # names and values
    more: Sequence[Table] = ()  # further tables
    is_folded: bool = False  # opened by the reader
    is_stacked: bool = False  # on a phone, rows of the table are cards
    is_dense: bool = False  # small figures, several in a row


def caption(cell: CellResult, names: Sequence[str], cells: Sequence[CellResult]) -> str:
    """Return the caption of a figure: some of a cell's choices."""
    return " · ".join(filter(None, (_choice(cell, name, cells) for name in names)))


def _choice(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """Return a choice; a number has its name beside it."""
    text = shown(cell, name, cells)
    if name == "parties":
        return f"{text} {'party' if cell.parties == 1 else 'parties'}"
    return text if isinstance(cell.label.get(name, ""), str) else f"{name} {text}"
