"""`Measure`: looks at every round of a run when it is over, and may remember what it saw."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from silobench.loop.prelude import with_prelude
from silobench.loop.schedule import Schedule
from silobench.method.checks import pair, sentence, tensors
from silobench.method.types import Memory
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described
from silobench.spec.registry import need_part
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
    plant: Callable[[Setting], Setting] | None = None
    """(setting) -> the setting with what an audit adds to it, before the first round; None for a measure that only
    looks."""


def _is_observe(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if callable(value) else f"{described(value)}, but a function observe(record) is expected"


def _is_setting(value: Any, arguments: Sequence[Any]) -> str | None:
    return (
        None
        if isinstance(value, Setting)
        else f"{described(value)}, but a setting is expected: write replace(setting, ...)"
    )


def _is_observed(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check what a function `observe` returns."""
    problem = pair(value, "a pair (findings, memory)")
    return problem or _not_json(value[0], "the findings") or tensors(value[1], "the memory")


def _not_json(value: Any, what: str) -> str | None:
    """Return what is wrong with findings; None for numbers, texts, None, and dictionaries and lists of them."""
    if isinstance(value, Mapping):
        unnamed = [name for name in value if not isinstance(name, str)]
        if unnamed:
            return f"{described(unnamed[0])} as a name in {what}, but names are texts: write str(...)"
        return next(filter(None, (_not_json(inner, f"'{name}' of {what}") for name, inner in value.items())), None)
    if what == "the findings":
        return f"{described(value)}, but findings are expected: a dictionary of numbers by name"
    if isinstance(value, list | tuple):
        return next(filter(None, (_not_json(inner, f"an entry of {what}") for inner in value)), None)
    if value is None or isinstance(value, str | int | float):
        return None
    return f"{described(value)} as {what}, but a number is expected: write float(...)"


MEASURES: Registry[Measure] = Registry(
    "measure",
    Contract(
        Measure,
        "an sb.Measure(begin, ...)",
        {
            "begin": Form("course, state, memory", _is_observe, inner=("observe", Form("record", _is_observed))),
            "check": Form("setting, cohort"),
            "refuses": Form("course", sentence),
            "plant": Form("setting", _is_setting),
        },
    ),
)


def planted(course: Schedule, measures: Mapping[str, Measure]) -> Schedule:
    """Return the schedule of a run with what its measures add to the setting, such as canaries."""
    setting = course.setting
    for measure in measures.values():
        setting = setting if measure.plant is None else measure.plant(setting)
    return course if setting is course.setting else replace(course, setting=setting)


def measured(
    records: Iterable[RoundRecord], measures: Mapping[str, Measure], course: Schedule, state: State | None = None
) -> Iterator[RoundRecord]:
    """Yield the rounds of a run with the findings of measures; their memories join the state.

    `course` is the schedule of these rounds, and `state` the state that they resume from, if they do.
    """
    need_part(course, Schedule, "the course of measures", "the schedule of the rounds")
    for measure in measures.values():
        need_part(measure, Measure, "a measure", "{'replicas': sb.replicas()}")
    course, memories = planted(with_prelude(course), measures), state.measures if state else {}
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
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
