"""How much rounding can change the first rounds of a cell: its losses after a start that differs in the last bit.

Every weight of the start is moved up or down by one unit in the last place, which is the size of a rounding. What that
does to the losses is what the steps of the cell make of a rounding: the growth of differences, measured on this machine
and without another one to compare with. A run that starts from another run, or over columns, is moved after round 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from silobench.engines import ENGINES
from silobench.runs.horizontal import HorizontalRun
from silobench.runs.plan import Plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_json
from silobench.training.state import RoundRecord

_DRAWS = (1, 2)  # of the directions
_UNIT = 2.0**-23


def sensitivity(planned: Plan, runs: Path) -> tuple[float, float]:
    """Return the largest relative change of a loss in rounds 1 and 2, against the finished run in `runs`."""
    rows = read_json(runs / planned.id)[1]
    changes = [_changes(rows, _moved_rounds(planned, runs, draw)) for draw in _DRAWS]
    first, second = (max(values) for values in zip(*changes, strict=True))
    return first, second


def _moved_rounds(planned: Plan, runs: Path, draw: int) -> list[RoundRecord]:
    """Return the rounds, up to round 2, that follow a start moved in its last bits."""
    run = prepare(planned)
    engine = run.settled(ENGINES.build("auto(workers=1)"), None)
    if isinstance(run, HorizontalRun) and planned.origin is None:
        task = run.setting.task
        setting = replace(run.setting, task=replace(task, initial=moved(task.initial, draw)))
        moved_run = replace(run, schedule=replace(run.schedule, setting=setting))
        return list(islice(moved_run.records(engine, runs, None), 2))
    state = next(iter(run.records(engine, runs, None))).state
    server = replace(state.server, params=moved(state.server.params, draw))
    return list(islice(run.records(engine, runs, replace(state, server=server)), 1))


def moved(vector: Tensor, draw: int) -> Tensor:
    """Return a vector of which each entry is one unit in the last place higher or lower."""
    generator = torch.Generator().manual_seed(draw)
    ups = torch.rand(vector.shape, generator=generator) < 0.5
    return (vector * torch.where(ups, 1 + _UNIT, 1 - _UNIT)).to(vector.dtype)


def _changes(rows: Sequence[dict[str, Any]], records: Sequence[RoundRecord]) -> tuple[float, float]:
    """Return the relative change of the losses of rounds 1 and 2; a round that was not moved has that of the other."""
    changes = {}
    for record in records:
        row, repeated = rows[record.round - 1], record.as_json()
        pairs = [(row.get(key), repeated.get(key)) for key in ("train_loss", "loss")]
        changes[record.round] = max((relative(*pair) for pair in pairs if None not in pair), default=0.0)
    known = next(reversed(changes.values()), 0.0)
    return changes.get(1, known), changes.get(2, known)


def relative(one: float, other: float) -> float:
    """Return how far two numbers are apart, relative to the larger one.

    >>> relative(2.0, 1.5), relative(0.0, 0.0)
    (0.25, 0.0)
    """
    return abs(one - other) / max(abs(one), abs(other), 1e-12)
