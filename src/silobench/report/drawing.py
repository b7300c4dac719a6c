"""What a part of the page is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

from silobench.analysis import CellResult, Table
from silobench.analysis.tables import shown


@dataclass(frozen=True)
class Drawing:
    """A figure and what it is of."""

    name: str
    svg: str


@dataclass(frozen=True)
class Section:
    """Figures, and the table below them."""

    title: str
    drawings: Sequence[Drawing]
    table: Table


def named(cell: CellResult, names: Sequence[str], cells: Sequence[CellResult]) -> str:
    """Some of a cell's choices, to call a figure by."""
    return " · ".join(filter(None, (choice(cell, name, cells) for name in names)))


def choice(cell: CellResult, name: str, cells: Sequence[CellResult]) -> str:
    """A number does not say what it is of."""
    said = shown(cell, name, cells)
    return said if isinstance(cell.label.get(name, ""), str) else f"{name} {said}"
