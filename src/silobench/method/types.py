"""The values that algorithms and transforms are made of. There is no training and no file access here.

A model is one flat float32 vector, and a `Layout` knows the position of each tensor in it, so an algorithm is plain
arithmetic on ``[..., d]``. Algorithms and transforms import nothing else from silobench.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

# "X as X" exports X again: an algorithm imports only this module.
from silobench.errors import ConfigError as ConfigError
from silobench.errors import RunError as RunError
from silobench.method.codecs import DENSE as DENSE
from silobench.method.codecs import SPARSE as SPARSE
from silobench.method.codecs import Bits as Bits
from silobench.method.codecs import Codec as Codec
from silobench.method.codecs import Factoring as Factoring
from silobench.method.codecs import Form as Form
from silobench.method.codecs import Index as Index
from silobench.method.codecs import quantized as quantized
from silobench.method.codecs import random_subset as random_subset
from silobench.method.codecs import signs as signs
from silobench.method.codecs import sparse as sparse
from silobench.method.dial import Dial as Dial
from silobench.method.transform import ENCRYPT as ENCRYPT
from silobench.method.transform import LARGEST_SCALAR as LARGEST_SCALAR
from silobench.method.transform import TRANSFORMS as TRANSFORMS
from silobench.method.transform import Context as Context
from silobench.method.transform import Encoded as Encoded
from silobench.method.transform import LostRoundError as LostRoundError
from silobench.method.transform import Packs as Packs
from silobench.method.transform import Phase as Phase
from silobench.method.transform import Report as Report
from silobench.method.transform import Transform as Transform
from silobench.method.transform import placed as placed
from silobench.method.updates import STATISTICS as STATISTICS
from silobench.method.updates import Message as Message
from silobench.method.updates import Update as Update
from silobench.spec import Registry
from silobench.spec.ranges import BelowOne as BelowOne
from silobench.spec.ranges import Count as Count
from silobench.spec.ranges import CountOrZero as CountOrZero
from silobench.spec.ranges import Fraction as Fraction
from silobench.spec.ranges import NonNegative as NonNegative
from silobench.spec.ranges import Positive as Positive
from silobench.spec.ranges import Share as Share
from silobench.spec.renaming import renamed
from silobench.vectors import Layout as Layout
from silobench.vectors import Memory as Memory
from silobench.vectors import Vector as Vector
from silobench.vectors import largest as largest


@dataclass(frozen=True)
class Server:
    """The state of the server at the start of a round.

    A party receives `params`, `buffers`, the broadcast `extras`, `round`, `parties` and `knobs`, but not `optimizer`.
    """

    params: Vector  # the trainable parameters of the model
    extras: Mapping[str, Vector]  # variables of the algorithm besides the model
    optimizer: Mapping[str, Vector]  # state of the server optimizer
    round: int  # counted from 0
    parties: int  # in the whole federation, not in the cohort
    knobs: Mapping[str, float]  # values that a controller has set
    buffers: Vector = field(default_factory=lambda: torch.zeros(0))  # statistics of normalisation layers

    def broadcast(self, names: Iterable[str] | None) -> "Server":
        """Return what a party is sent: the named extras (all if None), without the optimizer state."""
        sent = self.extras if names is None else {name: self.extras[name] for name in names}
        return replace(self, extras=sent, optimizer={})

    @property
    def nbytes(self) -> int:
        """The bytes that a party is sent."""
        return self.params.nbytes + self.buffers.nbytes + sum(extra.nbytes for extra in self.extras.values())


Knob: TypeAlias = float | Callable[[Server], float]  # a constant, or a function of the server: a schedule


def at(knob: Knob, server: Server) -> float:
    """Return the value of a knob in this round."""
    return knob(server) if callable(knob) else knob


@renamed(in_a_pass="steps_per_epoch")
@dataclass(frozen=True)
class Local:
    """A finished local training."""

    start: Vector
    end: Vector
    steps: int
    reach: float  # sum of the weights of the gradients in `delta`: `steps` without momentum, more with it
    lr: float
    samples: int
    loss: float  # mean over the steps
    gradient: Callable[[Vector], Vector]  # (params) -> gradient of the loss over all rows of the party
    layout: Layout  # of the vectors
    first_lr: float  # learning rate of the first round: a threshold may follow the learning rate
    momentum: float  # of the solver, also if the algorithm applies it
    steps_per_epoch: int  # steps in one pass over the rows of the party
    scratch: Memory = field(default_factory=dict)  # after the last step, where a `Direction` has any

    @property
    def delta(self) -> Vector:
        """The change by training: end - start."""
        return self.end - self.start


@renamed(held="class_counts")
@dataclass(frozen=True)
class Batch:
    """The input of a custom loss in one step: some rows of a party, and the network in training."""

    x: Tensor
    y: Tensor
    class_counts: Tensor  # [classes]: the party's training rows of each class
    network: Callable[[Vector | None], tuple[Tensor, Tensor]]
    """(None) -> representation and logits of x at the current parameters; (params) -> at others, without gradient.

    The representation is the input of the last layer.
    """


# --- the method: an algorithm, a solver, transforms, a server optimizer -------------------------------


@dataclass(frozen=True)
class Pull:
    """An affine term in every local step of a round. It is a value, so every engine can apply it in its own way.

    Before momentum, strength · (x - anchor) + linear is added to the gradient. After momentum, lr · drift is subtracted
    from the model.

    >>> weights = torch.zeros(2)
    >>> fedprox = Pull(strength=0.01, anchor=weights)
    """

    strength: float = 0.0
    anchor: Vector | None = None  # None for the origin
    linear: Vector | None = None
    drift: Vector | None = None


@dataclass(frozen=True)
class Step:
    """One step of a local training that follows a `Direction`."""

    params: Vector  # [d], or [models, d] where several models train side by side
    gradient: Callable[..., Vector]
    """(params, draw=0) -> gradient of the loss, with weight decay, on a batch of this step. Batches of different draws
    are independent. Random numbers (dropout, augmentation) are the same in all gradients of a step, and only the first
    of them counts for the loss of the round and for normalisation statistics."""
    scratch: Memory  # passed on from step to step
    lr: float


Direction: TypeAlias = Callable[[Step], tuple[Vector, Memory]]  # (step) -> the solver's gradient, and the next scratch


class Train(Protocol):
    """Runs a local training of one party in one round. Each call is a training of its own."""

    @property
    def layout(self) -> Layout:
        """The tensors of the model."""

    def __call__(
        self,
        start: Vector,
        name: str = "",
        *,
        pull: Pull = Pull(),  # noqa: B008  # it is a constant
        direction: Direction | None = None,
        scratch: Memory | None = None,
        frozen: Collection[str] = (),
        epochs: int | None = None,
    ) -> Local:
        """Train from `start` with the solver, and return the finished training.

        The name decides the order of rows and the random numbers; without one they are those of FedAvg. A `direction`
        replaces the gradient of each step, and gets `scratch`. Tensors in `frozen` stay as they are. `epochs` replaces
        the solver's.
        """


@dataclass(frozen=True)
class Adaptation:
    """A training of each party on its own rows before its model is tested. Rounds and messages do not know it.

    It has the steps of the solver; with `lr`, an epoch is one step of gradient descent on all rows of the party.
    """

    epochs: int = 1
    lr: float | None = None


def _no_extras(params: Vector) -> dict[str, Vector]:
    return {}


def _start_at_server(server: Server, memory: Memory) -> Vector:
    return server.params


def _no_pull(server: Server, memory: Memory) -> Pull:
    return Pull()


def send_delta(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
    """Return FedAvg's message. Engines recognise this function, and sum the messages of many parties at once."""
    return Update.of(local.samples, delta=local.delta), memory


def _mean_delta(server: Server, update: Update) -> tuple[Vector, Mapping[str, Vector]]:
    return update.mean()["delta"], server.extras


@renamed(own_momentum="applies_momentum", apart="local_model", apart_before="local_model_before")
@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: a few functions (hooks), each with FedAvg's as its default.

    >>> fedavg = Algorithm()
    >>> def pull(server, memory):
    ...     return Pull(strength=0.01, anchor=server.params)
    >>> fedprox = Algorithm(pull=pull)
    """

    extras: Callable[[Vector], Mapping[str, Vector]] = _no_extras
    """(params) -> initial server variables besides the model."""
    memory: Callable[[Vector], Memory] = _no_extras
    """(initial params) -> memory of a party before its first round."""
    start: Callable[[Server, Memory], Vector] = _start_at_server
    """(server, memory) -> parameters at which local training starts."""
    pull: Callable[[Server, Memory], Pull] = _no_pull
    """(server, memory) -> term that is added to every step of a round."""
    correct: Callable[[Vector, Vector, Server, Memory], Vector] | None = None
    """(grad, params, server, memory) -> gradient of a step, before momentum, if a `Pull` cannot express it. Slower:
    only PyTorch runs it."""
    loss: Callable[[Batch, Server, Memory], Tensor] | None = None
    """(batch, server, memory) -> loss of a step, if it is not the task's mean loss. Slower: only PyTorch runs it."""
    message: Callable[[Local, Server, Memory], tuple[Update, Memory]] = send_delta
    """(local, server, memory) -> message to the server, and new memory of the party."""
    absorb: Callable[[Server, Update], tuple[Vector, Mapping[str, Vector]]] = _mean_delta
    """(server, summed update) -> direction for the server optimizer, and new extras."""
    replica: Callable[[Server, Memory], Vector] | None = None
    """(server, memory) -> model of a party, to be evaluated if there is no shared model."""
    personal: Callable[[Layout], Collection[str]] | None = None
    """(layout) -> tensors that are never sent: each party keeps its own, and its normalisation statistics too."""
    broadcast: tuple[str, ...] | None = None
    """Names of the extras that parties are sent; None for all."""
    lockstep: bool = False
    """A round is one minibatch of every party, and the server sends back only what changed, not the whole model."""
    applies_momentum: bool = False
    """`message` applies the solver's momentum; the local steps have none."""
    local_model: Callable[[Server, Memory], Vector] | None = None
    """(server, memory) -> model of a party with the local changes it has not sent; None if it has no such changes."""
    local_model_before: bool = False
    """`local_model` is a party's model before the round's exchange; otherwise it is relative to the model after it."""
    dials: tuple[Dial, ...] = ()
    """Knobs that a controller may set; the first is its default."""
    silent: bool = False
    """Nothing is sent (the baselines)."""
    pooled: bool = False
    """All rows are at one party (the centralised baseline)."""
    mostly_zeros: bool = False
    """Messages are mostly zeros, at other places for each party."""
    weighs_rows: bool = True
    """The weight of a message is the number of a party's rows; otherwise it is 1."""
    refuses: Callable[[Any], str | None] = lambda method: None
    """(method) -> why the algorithm cannot be combined with the other parts of the method, or None."""
    trainings: Callable[[Train, Server, Memory], tuple[Local, Memory]] | None = None
    """(train, server, memory) -> what `message` gets: a finished local training, and the memory. It calls `train` once
    for each training of the round; `start`, `pull`, `correct` and `loss` are not used then. Only PyTorch runs it."""
    effort: Callable[[float], float] | None = None
    """(passes of the solver over a party's rows) -> passes of all trainings of a round together, for the virtual clock;
    None if there is only the solver's training."""
    adaptation: Adaptation | None = None
    """How each party trains its model before it is tested; None if models are tested as they are."""

    @property
    def is_affine(self) -> bool:
        """Whether its steps are SGD on the task's loss plus a `Pull`, which does not need PyTorch."""
        return self.correct is None and self.loss is None and self.trainings is None


def last_layers(layout: Layout, count: int) -> frozenset[str]:
    """Return the tensors of the last layers, for `Algorithm.personal`; refuse to leave nothing that is shared."""
    layers = list(layout.layers.values())
    if count >= len(layers):
        raise ConfigError(
            f"layers={count} would stay with each party, but the network has {len(layers)}, so nothing would be "
            "shared: give fewer layers, or use a network with more."
        )
    return frozenset(name for names in layers[len(layers) - count :] for name in names)


def needs_linear_steps(reason: str) -> Callable[[Any], str | None]:
    """Return a check for `Algorithm.refuses`: a party's change must be a weighted sum of gradients, as SGD's is."""

    def refuses(method: Any) -> str | None:
        if method.solver.is_linear:
            return None
        return f"{reason}, but the solver is {method.solver.kind}: use sgd, or another algorithm such as fedavg."

    return refuses


ALGORITHMS: Registry[Algorithm] = Registry("algorithm")
ALGORITHMS.nested = ALGORITHMS  # as in finetune(fedavg)


@dataclass(frozen=True)
class ServerOptimizer:
    """How the server moves along a direction."""

    init: Callable[[Vector], Mapping[str, Vector]]
    """(params) -> initial state."""
    apply: Callable[[Vector, Vector, Mapping[str, Vector]], tuple[Vector, Mapping[str, Vector]]]
    """(params, direction, state) -> new params, new state."""


@dataclass(frozen=True)
class Aggregate:
    """How the server combines the messages of a round into one.

    >>> both = [Update.of(1.0, delta=torch.tensor([2.0])), Update.of(3.0, delta=torch.tensor([6.0]))]
    >>> last = Aggregate(lambda updates: list(updates)[-1])
    >>> last.combine(both).mean()["delta"]
    tensor([6.])
    """

    combine: Callable[[Iterable[Update]], Update]
    """(messages, at least one) -> one update, which the algorithm absorbs like a sum."""
    adds: bool = False
    """Whether it is the plain sum. Engines may then add messages while they train."""
    least: int = 1
    """The number of messages that it needs. A round with fewer leaves the model as it is."""
    refuses: Callable[[Any], str | None] = lambda method: None
    """(method) -> why it cannot be combined with the other parts of the method, or None."""
    advice: Callable[[int], str | None] = lambda messages: None
    """(messages in a round) -> a note if its arguments have no effect on this number of messages, or None."""


AGGREGATES: Registry[Aggregate] = Registry("aggregate")
