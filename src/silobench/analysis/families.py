"""Cells side by side: those that differ in one choice alone, and their numbers by seed. What findings are made of."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.statistics import curve_of, stability
from silobench.analysis.tables import best_of_grids, is_fedprox
from silobench.runs.record import StoredRun

Cells: TypeAlias = Sequence[CellResult]
Family: TypeAlias = dict[Any, CellResult]
FOUR = ("fedavg", "fedprox", "scaffold", "fednova")
SETTLED = 15  # rounds
_MEASURABLE = 1.0  # seconds


def four(cells: Cells) -> list[CellResult]:
    """The cells of the paper's four algorithms; FedProx once a setting, at its best mu, and by that name."""
    return [
        replace(cell, label={**cell.label, "algorithm": name_of(cell)})
        for cell in best_of_grids(cells)
        if name_of(cell) in FOUR
    ]


def chosen(cells: Cells, *algorithms: str) -> list[CellResult]:
    return [cell for cell in cells if cell.label["algorithm"] in algorithms]


def name_of(cell: CellResult) -> str:
    return "fedprox" if is_fedprox(cell) else str(cell.label["algorithm"])


def by_algorithm(setting: Cells) -> dict[str, CellResult]:
    return {cell.label["algorithm"]: cell for cell in setting}


def families(cells: Cells, choice: str, part: str = "") -> Iterator[Family]:
    """Cells that differ in one choice alone, by what they have there; two at least, in the order of the cells.

    Of a solver it is one of its numbers, `part`; of `parties` how many there really are.
    """
    found: dict[str, Family] = {}
    for cell in cells:
        solver = str(cell.runs[0].facts["config"]["solver"]) if part else ""
        number = re.search(rf"\b{part}=(\d+)", solver) if part else None
        if part and number is None:  # a number of steps, or all rows at once
            continue
        value = int(number[1]) if number else cell.parties if choice == "parties" else cell.label[choice]
        same = solver.replace(number[0], "") if number else ""
        found.setdefault(rest_of(cell, choice) + same, {})[value] = cell
    yield from (family for family in found.values() if len(family) > 1)


def rest_of(cell: CellResult, *but: str) -> str:
    """All choices but some, to tell cells apart by."""
    return repr({name: value for name, value in cell.label.items() if name not in but})


def where(cell: CellResult) -> str:
    return f"{place(cell)} {cell.label['partition']}"


def place(cell: CellResult) -> str:
    return str(cell.runs[0].facts["dataset"]["name"])


def mean(cell: CellResult) -> float:
    return cell.accuracy.mean


def percent(cell: CellResult) -> str:
    spread = "" if cell.accuracy.std is None else f" ± {100 * cell.accuracy.std:.1f}"
    return f"{100 * cell.accuracy.mean:.1f}{spread}"


def by_seed(cell: CellResult, of: Callable[[StoredRun], float | None]) -> dict[int, float]:
    values = {seed: of(run) for seed, run in zip(cell.seeds, cell.runs, strict=True)}
    return {seed: value for seed, value in values.items() if value is not None}


def last(run: StoredRun) -> float:
    return curve_of(run)[-1][1]


def unrest(run: StoredRun) -> float | None:
    """How much the accuracy still moves over the last 10 tests; None of a run that is too short to have settled."""
    return stability(curve_of(run)) if len(run.rounds) >= SETTLED else None


def training_seconds(run: StoredRun) -> float | None:
    """What parties took; None where that is too short to be measured, or was shared out among workers."""
    seconds = float(sum(row["seconds"]["train"] for row in run.rounds))
    return seconds if seconds >= _MEASURABLE and all(row["workers"] == 1 for row in run.rounds) else None


def engines_of(cell: CellResult) -> set[str]:
    return {row["engine"] for run in cell.runs for row in run.rounds}


def differences(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    return {seed: a[seed] - b[seed] for seed in a.keys() & b.keys()}
