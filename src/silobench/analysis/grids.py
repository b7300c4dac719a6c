"""FedProx over a grid of mu: one method, at its best mu in each setting."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import settings_of

GRID = "fedprox (best mu)"


def best_of_grids(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells, with FedProx only at the mu that has the best mean score in each setting."""
    chosen = []
    for setting in settings_of(cells):
        proxes = [cell for cell in setting if is_fedprox(cell)]
        best = max(proxes, key=lambda cell: cell.metric.gain(cell.score.mean, 0.0), default=None)
        chosen += [cell for cell in setting if cell is best or not is_fedprox(cell)]
    places = {id(cell): place for place, cell in enumerate(cells)}
    return sorted(chosen, key=lambda cell: places[id(cell)])


def folded(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return the best of grids; where there is a grid of mu, FedProx has one name in all settings."""
    column = column_of(cells)
    return [replace(cell, label=cell.label.replace(algorithm=column(cell))) for cell in best_of_grids(cells)]


def is_fedprox(cell: CellResult) -> bool:
    return cell.label.algorithm.name == "fedprox"


def column_of(cells: Sequence[CellResult], every: bool = False) -> Callable[[CellResult], str]:
    """Return a function from a cell to its column: the algorithm, or one for FedProx where there are several mu."""
    one = not every and len({cell.label["algorithm"] for cell in cells if is_fedprox(cell)}) > 1
    return lambda cell: GRID if one and is_fedprox(cell) else str(cell.label["algorithm"])
