"""What a controller decided, round by round, and why (SkewScout: Hsieh et al., 2020, section 7)."""

from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells
from silobench.analysis.tables import Entry, Table, shown, told_choices
from silobench.papers.hsieh2020.communication import exchange_of
from silobench.papers.zhao2018.emd import of_label
from silobench.runs.record import StoredRun

_MOST_STEPS = 8  # of a path that a line shows


@dataclass(frozen=True)
class Decision:
    """One decision: what was seen at a setting of the knob, and where it went."""

    round: int  # the first round of what was decided
    knob: str
    theta: float
    accuracy_loss: float
    cost: float  # of whole models
    objective: float
    travelled: int  # bytes
    then: float
    reason: str


def decisions(run: StoredRun) -> list[Decision]:
    """Those of a run, in their order."""
    return [_decision(row["round"], row["control"]) for row in run.rounds if row.get("control")]


def _decision(round: int, told: dict[str, Any]) -> Decision:
    names = ("knob", "theta", "accuracy_loss", "cost", "objective", "travelled", "reason")
    return Decision(round, then=told["next"], **{name: told[name] for name in names})


def steered(cells: Cells) -> list[CellResult]:
    """The cells in which something was decided."""
    return [cell for cell in cells if any(decisions(run) for run in cell.runs)]


def method_of(cell: CellResult) -> str:
    how = exchange_of(cell.label)
    return str(how) if how else str(cell.label["algorithm"])


def decisions_json(cells: Cells) -> list[dict[str, Any]]:
    """All of them, of every trial."""
    return [
        {**of_label(cell), "controller": cell.label["controller"], "seed": seed, **vars(made)}
        for cell in steered(cells)
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
        for made in decisions(run)
    ]


# --- what a person sees -------------------------------------------------------------------------------


def steering_table(cells: Cells) -> Table:
    """One row a cell: how often it decided, the way of its knob and the accuracy loss on it, in its first trial."""
    found = steered(cells)
    names = told_choices(found)
    rows = []
    for cell in found:
        made = decisions(cell.runs[0])
        losses = [100 * one.accuracy_loss for one in made]
        said = (
            method_of(cell), str(len(made)), f"{made[0].knob} {_way(made)}",
            f"{fmean(losses):.1f} ({min(losses):.1f} to {max(losses):.1f})", made[-1].reason,
        )  # fmt: skip
        rows.append([*(Entry(shown(cell, name, cells)) for name in names), *map(Entry, said)])
    note = "the first trial; accuracy loss: what models lose away from home, points of training accuracy"
    columns = [*names, "method", "decisions", "the knob", "accuracy loss", "the last reason"]
    return Table("What the controller decided", columns, rows, note)


def _way(made: list[Decision]) -> str:
    """The settings one after the other, with how many periods each was kept; the middle of a long way is left out."""
    path = [made[0].theta, *(one.then for one in made)]
    runs = [(theta, len(list(kept))) for theta, kept in groupby(path)]
    steps = [f"{theta:g}" + (f" (x{count})" if count > 1 else "") for theta, count in runs]
    if len(steps) > _MOST_STEPS:
        half = _MOST_STEPS // 2
        steps = [*steps[:half], "...", *steps[-half:]]
    return " > ".join(steps)


def decisions_table(cells: Cells) -> Table:
    """One row a decision of each cell's first trial that changed something, and the last, with its reason."""
    found = steered(cells)
    names = told_choices(found)
    rows = [
        [
            *(Entry(shown(cell, name, cells)) for name in names),
            *map(Entry, (method_of(cell), str(one.round), f"{one.knob} {one.theta:g} > {one.then:g}", one.reason)),
            *map(Entry, (f"{one.cost:.3f}", f"{one.objective:.3f}")),
        ]
        for cell in found
        for one in _turns(decisions(cell.runs[0]))
    ]
    columns = [*names, "method", "round", "the knob", "reason", "cost", "objective"]
    note = (
        "the first trial, where a decision changed the setting, and its last; cost: traffic of the "
        "period as a share of whole models; objective: equation (1) of the quagmire study"
    )
    return Table("Decisions", columns, rows, note)


def _turns(made: list[Decision]) -> list[Decision]:
    return [one for one in made if one.then != one.theta or one is made[-1]]
