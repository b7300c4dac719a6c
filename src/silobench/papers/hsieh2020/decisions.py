"""Decisions of a controller, round by round, with their reasons (SkewScout: Hsieh et al., 2020, section 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, label_json
from silobench.analysis.tables import Table, entries, method_choices, shown_choices
from silobench.papers.hsieh2020.matching import method_name
from silobench.runs.report_types import is_decision
from silobench.runs.stored import StoredRun

_MOST_STEPS = 8  # of a knob's path that a table shows


@dataclass(frozen=True)
class Decision:
    """One decision: what a setting of the knob gave, and the next setting."""

    round: int  # the first round of the next setting
    knob: str
    theta: float
    accuracy_loss: float
    cost: float  # of whole models
    objective: float
    travelled: int  # bytes
    then: float
    reason: str


def decisions(run: StoredRun) -> list[Decision]:
    """Return the decisions of a run, in their order."""
    if not run.totals.has_control:
        return []
    return [_decision(row.round, row.control) for row in run.rounds if is_decision(row.control)]


def _decision(round: int, report: Mapping[str, Any]) -> Decision:
    names = ("knob", "theta", "accuracy_loss", "cost", "objective", "travelled", "reason")
    return Decision(round, then=report["next"], **{name: report[name] for name in names})


def controlled_cells(cells: Cells) -> list[CellResult]:
    """Return the cells in which a controller decided something."""
    return [cell for cell in cells if any(decisions(run) for run in cell.runs)]


def decisions_json(cells: Cells) -> list[dict[str, Any]]:
    """Return the decisions of every trial as plain values."""
    return [
        {**label_json(cell), "controller": cell.label["controller"], "seed": seed, **vars(decision)}
        for cell in controlled_cells(cells)
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
        for decision in decisions(run)
    ]


# --- tables -------------------------------------------------------------------------------------------


def steering_table(cells: Cells) -> Table:
    """Return one row per cell: decisions of the first trial, the path of its knob, and the accuracy loss on it."""
    controlled = controlled_cells(cells)
    names = method_choices(controlled)
    rows = []
    for cell in controlled:
        path = decisions(cell.runs[0])
        losses = [100 * decision.accuracy_loss for decision in path]
        texts = (
            method_name(cell), str(len(path)), f"{path[0].knob} {_path_text(path)}",
            f"{fmean(losses):.1f} ({min(losses):.1f} to {max(losses):.1f})", path[-1].reason,
        )  # fmt: skip
        rows.append([*shown_choices(cell, names, cells), *entries(*texts)])
    note = "the first trial; accuracy loss: what models lose on other parties' data, points of training accuracy"
    columns = [*names, "method", "decisions", "the knob", "accuracy loss", "the last reason"]
    return Table("Decisions of the controller", columns, rows, note)


def _path_text(path: list[Decision]) -> str:
    """Return the settings in order, with the number of periods at each; the middle of a long path is left out."""
    settings = [path[0].theta, *(decision.then for decision in path)]
    runs = [(theta, len(list(periods))) for theta, periods in groupby(settings)]
    steps = [f"{theta:g}" + (f" (x{count})" if count > 1 else "") for theta, count in runs]
    if len(steps) > _MOST_STEPS:
        half = _MOST_STEPS // 2
        steps = [*steps[:half], "...", *steps[-half:]]
    return " > ".join(steps)


def decisions_table(cells: Cells) -> Table:
    """Return one row per decision of each cell's first trial that changed the setting, and one for the last."""
    controlled = controlled_cells(cells)
    names = method_choices(controlled)
    rows = [
        [
            *shown_choices(cell, names, cells),
            *entries(method_name(cell), str(one.round), f"{one.knob} {one.theta:g} > {one.then:g}", one.reason),
            *entries(f"{one.cost:.3f}", f"{one.objective:.3f}"),
        ]
        for cell in controlled
        for one in _changes(decisions(cell.runs[0]))
    ]
    columns = [*names, "method", "round", "the knob", "reason", "cost", "objective"]
    note = (
        "decisions of the first trial that changed the setting, and its last; cost: traffic of the period as a share "
        "of whole models; objective: equation (1) of the quagmire study"
    )
    return Table("Decisions", columns, rows, note)


def _changes(path: list[Decision]) -> list[Decision]:
    return [decision for decision in path if decision.then != decision.theta or decision is path[-1]]
