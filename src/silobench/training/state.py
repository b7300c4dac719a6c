"""The values of a round: replies of parties, the state of the run after it, and its record."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from silobench.method.types import Memory, Message, Server, Update

SLOWEST = "slowest"  # the party that computed longest, among the seconds of a round: part of the phase "train"
END = "end"  # the owner of a memory in `State.extra` after the last round of a run that ends early
BUDGET = "budget"  # in the memory of `END`, if the run ended because the next round would exceed its privacy budget
PartyMemory: TypeAlias = Mapping[str, Memory]  # by owner: algorithm, solver, transform-0, ...


class Work(NamedTuple):
    """A party's part of a round: bytes of its message as the algorithm produced it, and measured seconds."""

    dense: int  # bytes without transforms, every number as it is
    train: float = 0.0
    encode: float = 0.0  # transforms and packing, without encryption
    encrypt: float = 0.0
    decode: float = 0.0  # what the server takes to unpack the message


@dataclass(frozen=True)
class Reply:
    """The result of a party's training, or of several parties' added up."""

    update: Update
    memory: Mapping[int, PartyMemory]  # by party
    sizes: Mapping[int, int]  # bytes of the message of each party
    loss: float  # mean by weight
    steps: int
    seconds: Mapping[str, float]  # by phase
    slowest: float = 0.0  # seconds of the party that took longest
    reports: Mapping[str, tuple[float, int]] = field(default_factory=dict)  # of transforms: sum and number of values
    model_parts: frozenset[str] = frozenset()  # parts of the update from which personal entries were removed
    work: Mapping[int, Work] = field(default_factory=dict)  # by party
    message: Message | None = None  # as it is sent, if the setting keeps messages; `update` is how it arrives

    def __add__(self, other: "Reply") -> "Reply":
        tally = Tally()
        tally.add(self)
        tally.add(other)
        return tally.reply(self.update + other.update)


class Tally:
    """The sum of replies, besides their updates."""

    def __init__(self) -> None:
        self.memory: dict[int, PartyMemory] = {}
        self.seconds: dict[str, float] = {"train": 0.0, "encode": 0.0}
        self.sizes: dict[int, int] = {}
        self.work: dict[int, Work] = {}
        self.reports: dict[str, tuple[float, int]] = {}
        self.steps, self.slowest = 0, 0.0
        self.model_parts: frozenset[str] = frozenset()
        self._loss = self._weight = 0.0

    @property
    def loss(self) -> float:
        """The mean by weight; not a number if there was no reply."""
        return self._loss / self._weight if self._weight else math.nan

    @property
    def report(self) -> dict[str, float]:
        """The mean of each value that transforms reported."""
        return {name: total / count for name, (total, count) in self.reports.items()}

    def add(self, reply: Reply) -> None:
        self.sizes |= reply.sizes
        self.work |= reply.work
        self.steps += reply.steps
        self.slowest = max(self.slowest, reply.slowest)
        for name, (total, count) in reply.reports.items():
            before, number = self.reports.get(name, (0.0, 0))
            self.reports[name] = (before + total, number + count)
        self._loss += reply.loss * reply.update.weight
        self._weight += reply.update.weight
        self.memory |= reply.memory
        self.model_parts |= reply.model_parts
        for phase, spent in reply.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent

    def decoded(self, loss: float, weight: float, reports: Mapping[str, float]) -> None:
        """Add what replies hide and only their sum shows: mean loss, weight, and sums of what transforms reported."""
        self._loss, self._weight = loss * weight, weight
        self.reports |= {name: (total, len(self.sizes)) for name, total in reports.items()}

    def updates(self, replies: Iterable[Reply]) -> Iterator[Update]:
        """Yield the updates of replies while adding up the rest."""
        for reply in replies:
            self.add(reply)
            yield reply.update

    def reply(self, update: Update) -> Reply:
        """Return the sum as one reply, with the sum of the updates."""
        return Reply(
            update, self.memory, self.sizes, self.loss, self.steps, self.seconds, self.slowest, self.reports,
            self.model_parts, self.work,
        )  # fmt: skip


@dataclass(frozen=True)
class State:
    """Everything that a run needs to continue bit for bit after a round."""

    server: Server
    memory: Mapping[int, PartyMemory] = field(default_factory=dict)  # only parties that have any
    clock: float = 0.0  # virtual seconds
    spent: int = 0  # bytes of all rounds, including travelling models but not rows that were shared before round 0
    controller: Memory = field(default_factory=dict)
    measures: Mapping[str, Memory] = field(default_factory=dict)  # memories of measures, by name
    extra: Mapping[str, Memory] = field(default_factory=dict)  # of other parts of the loop, by name: work in flight

    @property
    def has_ended(self) -> bool:
        """Whether the run ends after this round, though it may have more: its learning rate or its budget says so."""
        return END in self.extra


@dataclass(frozen=True)
class RoundRecord:
    """The record of one round. `state` is for the checkpoint; everything else is one line of rounds.jsonl."""

    round: int
    accuracy: float | None  # None in a round that was not tested, and without classes
    loss: float | None
    train_loss: float
    class_accuracy: tuple[float | None, ...] | None  # by class; None for one without test rows
    accuracy_std: float | None  # of the main metric over parties' own models, where they have any
    validation: float | None  # main metric on validation rows, where parties have any
    party_accuracy: tuple[float | None, ...] | None  # main metric on each party's validation rows
    cohort: tuple[int, ...]
    steps: int
    bytes_up: int
    bytes_down: int
    clock: float
    knobs: Mapping[str, float]
    engine: str  # how parties were trained
    workers: int  # number of worker processes; does not affect results
    seconds: Mapping[str, float]  # wall-clock time by phase, and that of the slowest party
    state: State
    measures: Mapping[str, Any] = field(default_factory=dict)  # findings by name of the measure
    control: Mapping[str, Any] = field(default_factory=dict)  # the controller's report of its decision
    reports: Mapping[str, float] = field(default_factory=dict)  # of transforms and the pace: means over parties
    replied: tuple[int, ...] | None = None  # parties that answered; None if all of the cohort did
    computing: float | None = None  # virtual seconds that the slowest party computed; None if that is measured
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # on test rows, unless accuracy is the only one
    validation_loss: float | None = None  # on validation rows, where parties have any
    final: Mapping[str, Any] = field(default_factory=dict)  # the final test, only after the last round: `final_test`
    rows: int = 0  # row visits of training, by the parties that replied
    dense_up: int = 0  # `bytes_up` without transforms
    dense_down: int = 0
    converged: bool = False  # whether the learning rate's schedule ended the run after this round
    time: Mapping[str, Any] = field(default_factory=dict)  # seconds by part, of the server and the mean party
    privacy: Mapping[str, Any] = field(default_factory=dict)  # what was spent until now, by unit: examples and parties
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # messages of a secure sum: `phases_of`

    @property
    def total_seconds(self) -> float:
        """Wall-clock time of all phases."""
        return sum(spent for phase, spent in self.seconds.items() if phase != SLOWEST)

    def as_json(self) -> dict[str, Any]:
        optional = ("measures", "control", "reports", "metrics", "final", "converged", "time", "privacy", "phases")
        values = ("replied", "computing", "validation_loss")
        left_out = {"state", *(name for name in optional if not getattr(self, name))}
        left_out |= {name for name in values if getattr(self, name) is None}
        row = {
            name: value if name in _ALWAYS_FINITE else _finite(value)
            for name, value in vars(self).items()
            if name not in left_out
        }
        shares = ("class_accuracy", "party_accuracy") if self.accuracy is not None else ()  # else in a target's units
        short = {name: _rounded(getattr(self, name)) for name in shares}
        return row | short | {"cohort": list(self.cohort), "knobs": dict(self.knobs), "seconds": dict(self.seconds)}


_ALWAYS_FINITE = {
    "round",
    "cohort",
    "steps",
    "bytes_up",
    "bytes_down",
    "clock",
    "engine",
    "workers",
    "seconds",
    "rows",
    "dense_up",
    "dense_down",
    "time",
    "phases",
}


def _rounded(shares: Iterable[float | None] | None) -> list[float | None] | None:
    """Round shares to five digits: a file has one line of them per round."""
    return None if shares is None else [share if share is None else round(share, 5) for share in shares]


def _finite(value: Any) -> Any:
    """Return None for a diverged loss, also inside reports: JSON has no NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, tuple | list) else value
