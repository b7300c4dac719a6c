"""`Measure`: something that looks at every round of a run when it is over, and may remember what it saw."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from silobench.engines import Engine, inline
from silobench.method.selection import cohort_size
from silobench.method.types import Memory
from silobench.spec import Registry
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State


@dataclass(frozen=True)
class Course:
    """How a run goes, as a measure may want to know; the arguments are those of `rounds`."""

    setting: Setting
    rounds: int = 50
    participation: float | int = 1.0
    eval_every: int = 1
    eval_on: float | int = 1.0
    engine: Engine = field(default_factory=inline)

    @property
    def cohort(self) -> int:
        """How many parties take part in a round."""
        return cohort_size(len(self.setting.federation.parties), self.participation)


Findings: TypeAlias = dict[str, Any]  # numbers, None, and dictionaries of them: what JSON can say
Observe: TypeAlias = Callable[[RoundRecord], tuple[Findings, Memory]]


@dataclass(frozen=True)
class Measure:
    """What a name in `measure` stands for."""

    begin: Callable[[Course, "State | None", Memory], Observe]
    """(course, state to go on from or None, what it remembered then) -> observe(round) -> findings, what to remember"""
    check: Callable[[Setting, int], None] = lambda setting, cohort: None
    """(setting, parties in a round): raises where it cannot be measured."""


MEASURES: Registry[Measure] = Registry("measure")


def measured(
    records: Iterable[RoundRecord], measures: Mapping[str, Measure], course: Course, state: State | None = None
) -> Iterator[RoundRecord]:
    """The rounds of a run with what is measured of each; the state remembers what measures do.

    `state` is where the rounds go on from, if they do.
    """
    kept = state.measures if state else {}
    observers = {name: measure.begin(course, state, kept.get(name, {})) for name, measure in measures.items()}
    for record in records:
        began = time.perf_counter()
        seen = {name: observe(record) for name, observe in observers.items()}
        found = {name: _finite(findings) for name, (findings, _) in seen.items() if findings}
        remembered = replace(record.state, measures={name: memory for name, (_, memory) in seen.items() if memory})
        seconds = {**record.seconds, "measure": time.perf_counter() - began}
        yield replace(record, measures={**record.measures, **found}, state=remembered, seconds=seconds)


def _finite(value: Any) -> Any:
    """The same with null for what is no number: JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
