"""Cells of methods that exchange after minibatches: those that differ in how they do alone, and what they sent."""

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells, rest_of
from silobench.papers.hsieh2020.communication import IID, NONIID, Exchange, exchange_of

_TESTING = ("measure", "eval_every", "eval_on")  # how a run is looked at


def of_cell(cell: CellResult) -> Exchange | None:
    return exchange_of(cell.label)


def alike(cell: CellResult, *but: str) -> str:
    """What two cells share that differ in how they exchange, and in some other choices, alone."""
    return rest_of(cell, "algorithm", "transforms", "controller", "parties", *_TESTING, *but) + str(cell.parties)


def exchanging(cells: Cells, *methods: str) -> list[tuple[CellResult, Exchange]]:
    """The cells of some methods, or of all that exchange after minibatches."""
    found = ((cell, of_cell(cell)) for cell in cells)
    return [(cell, how) for cell, how in found if how and (not methods or how.method in methods)]


def fixed(cells: Cells, *methods: str) -> list[tuple[CellResult, Exchange]]:
    """Those whose knob nobody turns."""
    return [(cell, how) for cell, how in exchanging(cells, *methods) if not how.controlled]


def is_iid(cell: CellResult) -> bool:
    return bool(cell.label["partition"] == IID)


def is_split(cell: CellResult) -> bool:
    """Whether each class is at one party."""
    return bool(cell.label["partition"] == NONIID)


def sent(cell: CellResult) -> float:
    """Bytes of a run, both ways."""
    return cell.bytes_up + cell.bytes_down
