"""Whether a check within a tolerance can fail: cells with a real change, which must be out of tolerance."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from determinism.check import out_of_tolerance, tolerance
from determinism.digests import Digest, losses_of
from determinism.suite_cells import SuiteCell
from silobench.engines import ENGINES
from silobench.method.solvers import SOLVERS, Solver
from silobench.runs.horizontal import HorizontalRun
from silobench.runs.prepare import prepare
from silobench.runs.runnable import Runnable
from silobench.runs.vertical import VerticalRun


def _times(factor: float) -> Callable[[Solver], Solver]:
    def change(solver: Solver) -> Solver:
        rate: Any = solver.lr
        return replace(solver, lr=(lambda server: factor * rate(server)) if callable(rate) else factor * rate)

    return change


def _other_sign(solver: Solver) -> Solver:
    return replace(solver, momentum=-solver.momentum)


CHANGES: dict[str, Callable[[Solver], Solver]] = {
    "a learning rate that is 1% larger": _times(1.01),
    "twice the learning rate": _times(2.0),
    "momentum with the wrong sign": _other_sign,
}


def may_change(cell: SuiteCell, change: Callable[[Solver], Solver]) -> bool:
    """Whether a change means anything for a cell: trees have no solver, and some solvers no momentum."""
    solver = SOLVERS.build(cell.plan.cell.solver)
    return "trees" not in cell.plan.cell.algorithm and cell.plan.origin is None and change(solver) != solver


def changed(run: Runnable, change: Callable[[Solver], Solver]) -> Runnable:
    """Return a run whose parties train with another solver."""
    if isinstance(run, HorizontalRun):
        method = replace(run.setting.method, solver=change(run.setting.method.solver))
        return replace(run, schedule=replace(run.schedule, setting=replace(run.setting, method=method)))
    assert isinstance(run, VerticalRun)
    return replace(run, problem=replace(run.problem, solver=change(run.problem.solver)))


def undetected(
    cell: SuiteCell, stored: Digest, sensitivity: tuple[float, ...], change: Callable[[Solver], Solver], runs: Path
) -> bool:
    """Whether the first two rounds of a changed cell are within the tolerance of the unchanged one."""
    run = changed(prepare(cell.plan), change)
    engine = run.settled(ENGINES.build("auto(workers=1)"), None)
    rows = [record.as_json() for record in islice(run.records(engine, runs, None), 2)]
    losses = dict(zip(("train_1", "loss_1", "train_2", "loss_2"), losses_of(rows), strict=True))
    return not out_of_tolerance(stored, replace(stored, **losses), tuple(map(tolerance, sensitivity)))
