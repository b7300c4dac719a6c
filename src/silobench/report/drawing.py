"""Parts of pages: drawings and sections."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from silobench.analysis.tables import Table
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
