"""What a round hands on: a party's reply, the state of a run after a round, and the round's record."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from silobench.method.types import Memory, Server, Update

PartyMemory: TypeAlias = Mapping[str, Memory]  # by owner: algorithm, solver, transform-0, ...


@dataclass(frozen=True)
class Reply:
    """What comes back from a party, or from several that were added up on the way."""

    update: Update
    memory: Mapping[int, PartyMemory]  # by party
    sent: int  # bytes, of all
    largest: int  # bytes, of the party that sent most
    loss: float  # mean by weight
    steps: int
    seconds: Mapping[str, float]

    def __add__(self, other: "Reply") -> "Reply":
        update = self.update + other.update
        return Reply(
            update,
            {**self.memory, **other.memory},
            self.sent + other.sent,
            max(self.largest, other.largest),
            (self.loss * self.update.weight + other.loss * other.update.weight) / update.weight,
            self.steps + other.steps,
            {phase: spent + other.seconds[phase] for phase, spent in self.seconds.items()},
        )


@dataclass(frozen=True)
class State:
    """Everything a run needs to go on bit for bit from the end of a round."""

    server: Server
    memory: Mapping[int, PartyMemory] = field(default_factory=dict)  # only parties that have any
    clock: float = 0.0  # virtual seconds spent on the network
    spent: int = 0  # bytes of all messages
    controller: Memory = field(default_factory=dict)
    measures: Mapping[str, Memory] = field(default_factory=dict)  # what measures remember, by name


@dataclass(frozen=True)
class RoundRecord:
    """One round, measured. `state` is what to checkpoint; everything else is one line of rounds.jsonl."""

    round: int
    accuracy: float | None  # None in a round that was not evaluated
    loss: float | None
    train_loss: float
    class_accuracy: tuple[float | None, ...] | None  # by class; None for one without test rows
    accuracy_std: float | None  # over parties' own models, where there are such
    validation: float | None  # accuracy on the rows that parties keep aside, where they do
    party_accuracy: tuple[float | None, ...] | None  # the same for each party, by its own model where it has one
    cohort: tuple[int, ...]
    steps: int
    bytes_up: int
    bytes_down: int
    clock: float
    knobs: Mapping[str, float]
    engine: str  # how parties were trained
    workers: int  # in so many processes, which bears on no bit
    seconds: Mapping[str, float]  # of the clock, by phase
    state: State
    measures: Mapping[str, Any] = field(default_factory=dict)  # what was measured besides, by name
    control: Mapping[str, Any] = field(default_factory=dict)  # what a controller decided before it, and why

    def as_json(self) -> dict[str, Any]:
        unsaid = {"state", *(name for name in ("measures", "control") if not getattr(self, name))}
        row = {name: _finite(value) for name, value in vars(self).items() if name not in unsaid}
        short = {name: _rounded(getattr(self, name)) for name in ("class_accuracy", "party_accuracy")}
        return row | short | {"cohort": list(self.cohort), "knobs": dict(self.knobs), "seconds": dict(self.seconds)}


def _rounded(shares: Iterable[float | None] | None) -> list[float | None] | None:
    """Short in a file, of which there is a line a round."""
    return None if shares is None else [share if share is None else round(share, 5) for share in shares]


def _finite(value: Any) -> Any:
    """A diverged loss is null in JSON, which has no NaN."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
