"""`Measure`: looks at every round of a run when it is over, and may remember what it saw."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from silobench.loop.prelude import with_prelude
from silobench.loop.schedule import Schedule
from silobench.method.types import Memory
from silobench.spec import Registry
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

Course: TypeAlias = Schedule  # its name for authors of measures
Findings: TypeAlias = dict[str, Any]  # numbers, None, and dictionaries of them: whatever JSON can hold
Observe: TypeAlias = Callable[[RoundRecord], tuple[Findings, Memory]]


@dataclass(frozen=True)
class Measure:
    """A measure of a run: `begin` is called once, and what it returns after every round."""

    begin: Callable[[Schedule, "State | None", Memory], Observe]
    """(schedule, state to resume from or None, memory at that time) -> observe(record) -> findings, memory"""
    check: Callable[[Setting, int], None] = lambda setting, cohort: None
    """(setting, parties in a round) -> None; raises an error if this cannot be measured in such a run."""
    refuses: Callable[[Schedule], str | None] = lambda schedule: None
    """(schedule) -> why this cannot be measured in such a run, or None: for what the setting does not state."""


MEASURES: Registry[Measure] = Registry("measure")


def measured(
    records: Iterable[RoundRecord], measures: Mapping[str, Measure], course: Schedule, state: State | None = None
) -> Iterator[RoundRecord]:
    """Yield the rounds of a run with the findings of measures; their memories join the state.

    `course` is the schedule of these rounds, and `state` the state that they resume from, if they do.
    """
    course, memories = with_prelude(course), state.measures if state else {}
    observers = {name: measure.begin(course, state, memories.get(name, {})) for name, measure in measures.items()}
    for record in records:
        start = time.perf_counter()
        results = {name: observe(record) for name, observe in observers.items()}
        findings = {name: _finite(some) for name, (some, _) in results.items() if some}
        after = replace(record.state, measures={name: memory for name, (_, memory) in results.items() if memory})
        seconds = {**record.seconds, "measure": time.perf_counter() - start}
        yield replace(record, measures={**record.measures, **findings}, state=after, seconds=seconds)


def _finite(value: Any) -> Any:
    """Return a value with None for numbers that are not finite: JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
