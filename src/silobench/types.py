"""The nouns every layer shares. Values only: no training, no files, no randomness.

A model is one flat float32 vector and a `Layout` that knows what lies where, so an algorithm is plain
arithmetic on ``[..., d]``. Algorithms and transforms import this module and nothing else of silobench.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

# Passed on: an algorithm imports this module and nothing else.
from silobench.ranges import BelowOne as BelowOne
from silobench.ranges import Count as Count
from silobench.ranges import Fraction as Fraction
from silobench.ranges import NonNegative as NonNegative
from silobench.ranges import Positive as Positive
from silobench.wire import largest as largest
from silobench.wire import packed

Vector: TypeAlias = Tensor  # [..., d]
Memory: TypeAlias = Mapping[str, Vector]  # what a party keeps between rounds


@dataclass(frozen=True)
class Layout:
    """Where each named tensor of a network lies in its flat vector: trainable ones first, buffers last.

    >>> layout = Layout(("weight", "bias"), (torch.Size([2, 3]), torch.Size([2])), trainable=8)
    >>> layout.size, layout.slices["bias"]
    (8, slice(6, 8, None))
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    trainable: int  # entries [trainable:] are buffers, such as BatchNorm statistics
    norms: frozenset[str] = frozenset()  # the tensors of normalisation layers: weights, biases and buffers

    @cached_property
    def size(self) -> int:
        return sum(shape.numel() for shape in self.shapes)

    @cached_property
    def slices(self) -> dict[str, slice]:
        found, start = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            found[name] = slice(start, start + shape.numel())
            start += shape.numel()
        return found

    def views(self, vector: Vector) -> dict[str, Tensor]:
        """The named tensors as views of a vector ``[..., d]``; one without buffers has views of the rest."""
        return {
            name: vector[..., place].view(vector.shape[:-1] + shape)
            for (name, place), shape in zip(self.slices.items(), self.shapes, strict=True)
            if place.stop <= vector.shape[-1]
        }

    def without(self, names: Collection[str]) -> "Layout":
        """The layout of vectors that lack these trainable tensors."""
        kept = [pair for pair in zip(self.names, self.shapes, strict=True) if pair[0] not in names]
        gone = sum(place.stop - place.start for name, place in self.slices.items() if name in names)
        return Layout(
            tuple(name for name, _ in kept),
            tuple(shape for _, shape in kept),
            self.trainable - gone,
            self.norms.difference(names),
        )


@dataclass(frozen=True)
class Update:
    """A weighted sum of contributions; one party's message is the sum of one.

    >>> both = Update.of(1.0, delta=torch.tensor([2.0])) + Update.of(3.0, delta=torch.tensor([6.0]))
    >>> both.mean()["delta"]
    tensor([5.])
    """

    total: Mapping[str, Vector]  # named parts, already multiplied by weight
    weight: float
    sums: Mapping[str, Vector] = field(default_factory=dict)  # parts added as they are, whatever the weights
    sparse: bool = False  # mostly zeros, which are not sent

    @classmethod
    def of(cls, weight: float, **parts: Vector) -> "Update":
        return cls({name: part * weight for name, part in parts.items()}, weight)

    def with_sums(self, **parts: Vector) -> "Update":
        """The same with parts that the server wants as plain sums over parties."""
        return replace(self, sums={**self.sums, **parts})

    def __add__(self, other: "Update") -> "Update":
        total = {name: part + other.total[name] for name, part in self.total.items()}
        sums = {name: part + other.sums[name] for name, part in self.sums.items()}
        return Update(total, self.weight + other.weight, sums, self.sparse and other.sparse)

    def mean(self) -> dict[str, Vector]:
        return {name: part / self.weight for name, part in self.total.items()}

    def vectors(self) -> dict[str, Vector]:
        """What a party says, part by part and without its weight; scalars (FedNova's reach) are no vectors."""
        return {name: part for name, part in {**self.mean(), **self.sums}.items() if part.dim() > 0}

    def map(self, change: Callable[[Vector], Vector]) -> "Update":
        """Every vector part changed; scalars stay as they are."""

        def apply(parts: Mapping[str, Vector]) -> dict[str, Vector]:
            return {name: change(part) if part.dim() > 0 else part for name, part in parts.items()}

        return replace(self, total=apply(self.total), sums=apply(self.sums))

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing to send: a round in which parties keep what they learnt to themselves."""
        return not (self.total or self.sums)

    @property
    def nbytes(self) -> int:
        """What crosses the wire. The weight does not: the server knows each party's size from enrolment."""
        parts = (*self.total.values(), *self.sums.values())
        if self.sparse:
            return sum(piece.nbytes for part in parts for piece in packed(part))
        return sum(part.nbytes for part in parts)


@dataclass(frozen=True)
class Server:
    """The state of the server at the beginning of a round.

    A party sees `params`, `buffers`, the broadcast `extras`, `round`, `parties` and `knobs`; never `optimizer`.
    """

    params: Vector  # what is trained
    extras: Mapping[str, Vector]
    optimizer: Mapping[str, Vector]
    round: int
    parties: int  # in the whole federation, not in the cohort
    knobs: Mapping[str, float]
    buffers: Vector = field(default_factory=lambda: torch.zeros(0))  # what is measured: normalisation statistics

    def broadcast(self, names: Iterable[str] | None) -> "Server":
        """What a party is sent: the named extras (all of them for None) and no optimizer state."""
        sent = self.extras if names is None else {name: self.extras[name] for name in names}
        return replace(self, extras=sent, optimizer={})

    @property
    def nbytes(self) -> int:
        return self.params.nbytes + self.buffers.nbytes + sum(extra.nbytes for extra in self.extras.values())


Knob: TypeAlias = float | Callable[[Server], float]  # constant, schedule or controlled: one type


@dataclass(frozen=True)
class Dial:
    """A knob that trades traffic for accuracy: its name, and settings from the most traffic to the least.

    Whoever has a dial reads it as ``knobs.get(name, ...)``: a controller may have set it, or not.
    """

    name: str
    grid: tuple[float, ...]
    waits: bool = False  # a setting is the number of rounds from one exchange to the next


def at(knob: Knob, server: Server) -> float:
    """The value of a knob in this round."""
    return knob(server) if callable(knob) else knob


@dataclass(frozen=True)
class Local:
    """One finished local training."""

    start: Vector
    end: Vector
    steps: int
    reach: float  # sum of the weights of its gradients: steps without momentum, more with it
    lr: float
    samples: int
    loss: float  # mean over the steps taken
    gradient: Callable[[Vector], Vector]  # full local gradient of the loss at a point
    layout: Layout  # of the vectors
    first_lr: float  # of the first round: a threshold may follow the learning rate
    momentum: float  # the solver's, whoever applies it
    in_a_pass: int  # steps that it takes to see all of the party's rows once

    @property
    def delta(self) -> Vector:
        return self.end - self.start


@dataclass(frozen=True)
class Batch:
    """What a loss sees in one step: some rows of a party, and the network that is trained."""

    x: Tensor
    y: Tensor
    held: Tensor  # [classes]: how many rows of each the party trains on
    network: Callable[[Vector | None], tuple[Tensor, Tensor]]
    """(None) -> representation and logits of x at the parameters in training; (params) -> at others, without gradient.

    A representation is what the last layer reads.
    """


# --- the method: an algorithm, a solver, transforms, a server optimizer -------------------------------


@dataclass(frozen=True)
class Pull:
    """An affine pull on every local step of a round: a value, so that every engine can apply it in its own way.

    The gradient gets strength · (x - anchor) + linear, before momentum; the model loses lr · drift, after it.

    >>> weights = torch.zeros(2)
    >>> fedprox = Pull(strength=0.01, anchor=weights)
    """

    strength: float = 0.0
    anchor: Vector | None = None  # None for the origin
    linear: Vector | None = None
    drift: Vector | None = None


def _no_extras(params: Vector) -> dict[str, Vector]:
    return {}


def _start_at_server(server: Server, memory: Memory) -> Vector:
    return server.params


def _no_pull(server: Server, memory: Memory) -> Pull:
    return Pull()


def send_delta(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
    """FedAvg's message. Engines know it, and add up the messages of many parties at once."""
    return Update.of(local.samples, delta=local.delta), memory


def _mean_delta(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
    return update.mean()["delta"], server.extras


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: a few hooks, each of which defaults to FedAvg's.

    >>> fedavg = Algorithm()
    >>> def pull(server, memory):
    ...     return Pull(strength=0.01, anchor=server.params)
    >>> fedprox = Algorithm(pull=pull)
    """

    extras: Callable[[Vector], Mapping[str, Vector]] = _no_extras
    """(params) -> server variables beyond the model."""
    memory: Callable[[Vector], Memory] = _no_extras
    """(initial params) -> what a party keeps between rounds, before its first."""
    start: Callable[[Server, Memory], Vector] = _start_at_server
    """(server, memory) -> where local training begins."""
    pull: Callable[[Server, Memory], Pull] = _no_pull
    """(server, memory) -> what is added to every step of a round."""
    correct: Callable[[Vector, Vector, Server, Memory], Vector] | None = None
    """(grad, at, server, memory) -> gradient of every step, before momentum: what no `Pull` can say. Run by PyTorch."""
    loss: Callable[[Batch, Server, Memory], Tensor] | None = None
    """(batch, server, memory) -> what a step minimises, where that is not the task's mean loss. Run by PyTorch."""
    message: Callable[[Local, Server, Memory], tuple[Update, Memory]] = send_delta
    """(local, server, memory) -> what the party sends, and what it keeps."""
    absorb: Callable[[Server, Update], tuple[Vector, Mapping[str, Vector]]] = _mean_delta
    """(server, summed update) -> direction for the server optimizer, and new extras."""
    replica: Callable[[Server, Memory], Vector] | None = None
    """(server, memory) -> a party's own model, where there is no shared one to evaluate."""
    personal: Callable[[Layout], Collection[str]] | None = None
    """(layout) -> the tensors that stay with each party, as normalisation statistics then do: never sent either way."""
    broadcast: tuple[str, ...] | None = None
    """The extras that parties are sent; None for all."""
    lockstep: bool = False
    """A round is one minibatch of every party, and what is sent back is what changed, not the whole model."""
    own_momentum: bool = False
    """The solver's momentum is applied by `message`; the steps have none."""
    apart: Callable[[Server, Memory], Vector] | None = None
    """(server, memory) -> the model of a party with all that it learnt alone; None for the one that it has."""
    apart_before: bool = False
    """`apart` is where a party was before the exchange of the round; else it is counted from the model after it."""
    dials: tuple[Dial, ...] = ()
    """What a controller may turn, the usual one first."""
    silent: bool = False
    """Nothing crosses the network (the baselines)."""
    pooled: bool = False
    """All rows at one party (the centralised baseline)."""

    @property
    def is_affine(self) -> bool:
        """Whether its steps are those of SGD on the task's loss with at most a pull: what needs no PyTorch."""
        return self.correct is None and self.loss is None


@dataclass(frozen=True)
class Context:
    """What a transform may know besides the update."""

    seed: int
    round: int
    party: int  # -1 at the server
    layout: Layout
    knobs: Mapping[str, float]


def _decode_nothing(update: Update, context: Context) -> Update:
    return update


@dataclass(frozen=True)
class Transform:
    """What happens to an update on the wire, both ends in one place.

    `encode` runs at the party in chain order; `decode` at the server, on the sum, in reverse.
    """

    encode: Callable[[Update, Memory, Context], tuple[Update, Memory]]
    decode: Callable[[Update, Context], Update] = _decode_nothing
    unsent: Callable[[Memory], Vector | None] = lambda memory: None
    """(memory) -> what a party still has to say of its model, where some is kept back."""
    dials: tuple[Dial, ...] = ()
    """What a controller may turn."""


@dataclass(frozen=True)
class ServerOptimizer:
    """How the server moves along a direction: `init` its state, `apply` (params, direction, state)."""

    init: Callable[[Vector], Mapping[str, Vector]]
    apply: Callable[[Vector, Vector, Mapping[str, Vector]], tuple[Vector, Mapping[str, Vector]]]


# --- one party's part of a round, and the record of a round -------------------------------------------

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


# --- who turns the knobs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Travel:
    """How parties' models do on their own training rows and on those of others: accuracies, [parties] each."""

    home: tuple[float, ...]
    away: tuple[float, ...]  # the mean over those it travelled to
    nbytes: int

    @property
    def loss(self) -> float:
        """The accuracy that a model loses away from home, on average."""
        return sum(a - b for a, b in zip(self.home, self.away, strict=True)) / len(self.home)


class Probe(Protocol):
    """What a controller can find out before a round."""

    @property
    def spent(self) -> int:
        """Bytes that all messages took so far, travelling included."""

    @property
    def whole(self) -> int:
        """Bytes that a round takes in which everything is exchanged."""

    def travel(self, sample: int, trips: int) -> Travel:
        """Let every party's model be tested on `sample` training rows at home, and of `trips` other parties."""

    def draw(self, count: int) -> Sequence[float]:
        """Numbers from 0 to 1, the same whenever this round is run."""


@dataclass(frozen=True)
class Orders:
    """What a controller wants for a round, what it has to remember, and what it tells of a decision."""

    knobs: Mapping[str, float] = field(default_factory=dict)
    memory: Memory = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)  # nothing where nothing was decided


def _leave(server: Server, memory: Memory, probe: Probe) -> Orders:
    return Orders()


@dataclass(frozen=True)
class Controller:
    """Chooses knobs between rounds, which travel in the broadcast: no algorithm knows who turned them."""

    steer: Callable[[Server, Memory, Probe], Orders] = _leave
    """(server, what it remembers, what it can find out) -> orders for the round that begins"""
    dialled: Callable[[Sequence[Dial]], "Controller"] | None = None
    """(dials of the method) -> the controller for these; raises if it cannot turn any."""


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
