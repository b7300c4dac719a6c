"""Cells that differ only in the communication method."""

from collections.abc import Hashable

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.papers.hsieh2020.communication import IID, NONIID, Exchange, exchange_of

_TESTING = ("measure", "eval_every", "eval_on")  # how a run is tested


def contest_key(cell: CellResult, *but: str) -> Hashable:
    """Return a key of all choices except the communication method, how the run is tested, and some others."""
    label = cell.label.without("algorithm", "transforms", "controller", "parties", *_TESTING, *but)
    return label, cell.parties


def exchanging(cells: Cells, *methods: str) -> list[tuple[CellResult, Exchange]]:
    """Return the cells of some methods, or of all that communicate after minibatches."""
    every = ((cell, exchange_of(cell.label)) for cell in cells)
    return [(cell, how) for cell, how in every if how and (not methods or how.method in methods)]


def fixed(cells: Cells, *methods: str) -> list[tuple[CellResult, Exchange]]:
    """Return the cells whose knob no controller turns."""
    return [(cell, how) for cell, how in exchanging(cells, *methods) if not how.controlled]


def method_name(cell: CellResult) -> str:
    """Return the communication method with its setting; the algorithm for any other kind of training."""
    return str(exchange_of(cell.label) or cell.label["algorithm"])


def is_iid(cell: CellResult) -> bool:
    return bool(cell.label["partition"] == IID)


def is_split(cell: CellResult) -> bool:
    """Whether each class is at one party."""
    return bool(cell.label["partition"] == NONIID)


def sent(cell: CellResult) -> float:
    """Return the bytes of a run, both ways."""
    return cell.bytes_up + cell.bytes_down
