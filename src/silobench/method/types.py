"""The nouns every layer shares. Values only: no training, no files, no randomness.

A model is one flat float32 vector and a `Layout` that knows what lies where, so an algorithm is plain
arithmetic on ``[..., d]``. Algorithms and transforms import this module and nothing else of silobench.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

# Passed on: an algorithm imports this module and nothing else.
from silobench.spec.ranges import BelowOne as BelowOne
from silobench.spec.ranges import Count as Count
from silobench.spec.ranges import Fraction as Fraction
from silobench.spec.ranges import NonNegative as NonNegative
from silobench.spec.ranges import Positive as Positive
from silobench.vectors import Layout as Layout
from silobench.vectors import Vector as Vector
from silobench.vectors import largest as largest
from silobench.vectors import pack

Memory: TypeAlias = Mapping[str, Vector]  # what a party keeps between rounds


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
            return sum(piece.nbytes for part in parts for piece in pack(part))
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
