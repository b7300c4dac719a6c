"""Findings of measures, over rounds and trials."""

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any, TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, by_seed
from silobench.analysis.statistics import Spread, spread
from silobench.runs.stored import StoredRun

Findings: TypeAlias = Mapping[str, Any]  # of one measure after one round
Pick: TypeAlias = Callable[[Findings], float | None]


def known(values: Iterable[float | None]) -> list[float]:
    """Return the numbers that are not None."""
    return [value for value in values if value is not None]


def cells_with(cells: Cells, measure: str) -> list[CellResult]:
    """Return the cells of which every trial has a measure."""
    return [cell for cell in cells if all(run.measured(measure) for run in cell.runs)]


def measured_rounds(cell: CellResult, measure: str) -> list[int]:
    """Return the rounds after which every trial was measured."""
    return sorted(set.intersection(*(set(run.measured(measure)) for run in cell.runs)))


def over_rounds(cell: CellResult, measure: str, pick: Pick) -> list[tuple[int, Spread]]:
    """Return a number over trials, after every round in which all of them were measured."""
    trials = [run.measured(measure) for run in cell.runs]
    every = ((at, spread(known(pick(rows[at]) for rows in trials))) for at in measured_rounds(cell, measure))
    return [(at, over) for at, over in every if over]


def averages(cell: CellResult, measure: str, pick: Pick) -> dict[int, float]:
    """Return the mean of a number over all measured rounds, by seed."""

    def average(run: StoredRun) -> float | None:
        values = known(pick(row) for row in run.measured(measure).values())
        return fmean(values) if values else None

    return by_seed(cell, average)
