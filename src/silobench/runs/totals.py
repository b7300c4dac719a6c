"""Totals of a run: sums over its rounds, and its scores after each test, which is all that most tables need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from silobench.runs.facts import RoundRow

COMPUTING = ("train", "encode", "idle", "aggregate")  # phases of a round, without tests, files and loading


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the rounds of a run. What some round has not recorded is None, as in runs of earlier versions."""

    bytes_up: int
    bytes_down: int
    seconds: float  # of all phases, loading and recording included
    computing: float  # of the phases of `COMPUTING`
    training: float | None  # of the phase "train"
    slowest: float | None  # of the party that computed longest in each round
    lost: int  # rounds that left the model as it was
    rows: int | None  # row visits of training
    dense_up: int | None
    dense_down: int | None
    time: float | None  # virtual seconds of rounds
    core: float | None
    parts: Mapping[str, Mapping[str, float]]  # of `time`, by server and parties; empty if some round has none
    engines: tuple[str, ...]
    workers: tuple[int, ...]
    measures: tuple[str, ...]  # those that have findings in some round
    has_phases: bool  # whether some round has messages by phase
    has_control: bool  # whether a controller decided something in some round
    has_privacy: bool  # whether some round states what was spent of a privacy budget
    has_classes: bool  # whether some test has the accuracy by class
    tested: tuple[int, ...]  # rounds after which the model was tested
    scores: Mapping[str, Sequence[float | None]]  # by metric, after these rounds

    @classmethod
    def of(cls, rounds: Sequence[RoundRow], tested: Sequence[RoundRow], metrics: Iterable[str]) -> "Totals":
        """Add up rounds; `tested` are those after which the model was tested."""
        times = [row.time for row in rounds]
        known = [time for time in times if time is not None]
        is_timed = len(known) == len(times)
        return cls(
            bytes_up=sum(row.bytes_up for row in rounds),
            bytes_down=sum(row.bytes_down for row in rounds),
            seconds=sum(row.total_seconds for row in rounds),
            computing=sum(sum(row.seconds.get(phase, 0.0) for phase in COMPUTING) for row in rounds),
            training=_sum([row.seconds.get("train") for row in rounds]),
            slowest=_sum([row.seconds.get("slowest") for row in rounds]),
            lost=sum(row.is_lost for row in rounds),
            rows=_sum([row.rows for row in rounds]),
            dense_up=_sum([row.dense_up for row in rounds]),
            dense_down=_sum([row.dense_down for row in rounds]),
            time=sum(float(time["total"]) for time in known) if is_timed else None,
            core=_sum([time.get("core") for time in known]) if is_timed else None,
            parts=_parts(known) if is_timed else {},
            engines=tuple(dict.fromkeys(row.engine for row in rounds)),
            workers=tuple(dict.fromkeys(row.workers for row in rounds)),
            measures=tuple(dict.fromkeys(name for row in rounds for name, found in row.measures.items() if found)),
            has_phases=any(row.phases for row in rounds),
            has_control=any(row.control for row in rounds),
            has_privacy=any(row.privacy for row in rounds),
            has_classes=any(row.class_accuracy for row in tested),
            tested=tuple(row.round for row in tested),
            scores={name: [row.score(name) for row in tested] for name in metrics},
        )

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Totals":
        tuples = {name: tuple(facts[name]) for name in ("engines", "workers", "measures", "tested")}
        return cls(**{**facts, **tuples})

    def as_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _sum(values: Sequence[Any]) -> Any:
    """Return a sum; None if some value is."""
    return None if any(value is None for value in values) else sum(values)


def _parts(times: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the seconds by bar (server, mean party) and part."""
    sums: dict[str, dict[str, float]] = {"server": {}, "parties": {}}
    for bar, parts in sums.items():
        for time in times:
            for part, seconds in time.get(bar, {}).items():
                parts[part] = parts.get(part, 0.0) + float(seconds)
    return {bar: parts for bar, parts in sums.items() if parts}
