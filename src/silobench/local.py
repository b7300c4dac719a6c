"""One party's part of a round. Engines decide where it runs; the loop gathers what comes back."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from silobench.errors import ConfigError, suggest
from silobench.federation import Federation, Party
from silobench.methods import Buffers, Method, total
from silobench.models import OwnLoss
from silobench.rng import torch_seed
from silobench.solvers import Problem, Solver
from silobench.task import Task, Weights
from silobench.types import (
    Batch,
    Context,
    Layout,
    Local,
    Memory,
    PartyMemory,
    Pull,
    Reply,
    Server,
    Update,
    Vector,
    send_delta,
)

BUFFERS = "network buffers"  # a part of every message beside the algorithm's own, averaged by its weights


@dataclass(frozen=True)
class Setting:
    """What stays the same in every round of a run, as parties see it. An engine ships it once."""

    method: Method
    federation: Federation
    task: Task
    seed: int

    def __post_init__(self) -> None:
        if self.method.algorithm.loss is not None and isinstance(self.task.network.module, OwnLoss):
            raise ConfigError(
                "this algorithm has a loss of its own (as moon and fedrs have), and so has this model (as face-cnn): "
                "take an algorithm without, such as fedavg, or a model without, such as cnn."
            )

    @cached_property
    def personal(self) -> Tensor | None:
        """Which of the parameters stay with each party, [d] of booleans; None where there are none."""
        algorithm, layout = self.method.algorithm, self.task.network.layout
        names = frozenset(algorithm.personal(layout) if algorithm.personal else ())
        for name in names.difference(layout.names):
            raise ConfigError(f"the network has no tensor '{name}' to stay with parties: {suggest(name, layout.names)}")
        places = torch.zeros(layout.trainable, dtype=torch.bool)
        for name in names:
            places[layout.slices[name]] = True  # of a buffer there is nothing here: that stays anyway
        return places if places.any() else None

    @cached_property
    def shared(self) -> Layout:
        """What lies where in a message: everything but what stays with the parties."""
        layout, personal = self.task.network.layout, self.personal
        if personal is None:
            return layout
        return layout.without([name for name in layout.names if personal[layout.slices[name]].any()])

    @cached_property
    def solver(self) -> Solver:
        """How parties take their steps: as the method has it, but for a momentum that the algorithm applies itself."""
        solver = self.method.solver
        return solver.leaving_momentum() if self.method.algorithm.own_momentum else solver

    @property
    def buffers(self) -> Buffers:
        """What becomes of normalisation statistics: parties with something of their own have their own of these too."""
        algorithm = self.method.algorithm
        return self.method.buffers if algorithm.replica is None and algorithm.personal is None else "local"

    @property
    def own_models(self) -> bool:
        """Whether every party has a model of its own, and there is no shared one to test."""
        own_buffers = self.buffers == "local" and self.task.buffers.numel() > 0
        return self.method.algorithm.replica is not None or self.personal is not None or own_buffers

    @property
    def is_affine(self) -> bool:
        """Whether all that parties do is SGD on the task's loss with at most a pull, from the broadcast model."""
        return self.method.algorithm.is_affine and self.personal is None

    def sent(self, server: Server) -> Server:
        """What is broadcast: no more of model and statistics than is shared."""
        params = server.params if self.personal is None else server.params[~self.personal]
        buffers = server.buffers if self.buffers == "average" else server.buffers[:0]
        return replace(server.broadcast(self.method.algorithm.broadcast), params=params, buffers=buffers)

    def without_personal(self, update: Update) -> Update:
        """What a party may say of it: vectors as long as the model without what stays with the party."""
        personal = self.personal
        if personal is None:
            return update
        return update.map(lambda part: part[~personal] if part.shape == personal.shape else part)

    def with_personal(self, update: Update) -> Update:
        """The same at the other end, where zeros stand for what was not said."""
        personal = self.personal
        if personal is None:
            return update
        return update.map(lambda part: filled(personal, part) if len(part) == self.shared.trainable else part)

    def params_at(self, shared: Vector, memory: PartyMemory) -> Vector:
        """The shared entries and a party's own in one vector."""
        if self.personal is None:
            return shared
        own = memory["personal"]["params"] if "personal" in memory else self.task.initial[self.personal]
        return filled(self.personal, shared, own)

    def buffers_at(self, server: Server, memory: PartyMemory) -> Vector:
        """The statistics with which a party goes on."""
        if self.buffers == "average":
            return server.buffers
        return memory["network"]["buffers"] if "network" in memory else self.task.buffers

    def model_at(self, server: Server, memory: PartyMemory) -> Weights:
        """A party's own model, from what the server has and what the party keeps."""
        algorithm = self.method.algorithm
        if algorithm.replica is not None:
            server = replace(server, params=algorithm.replica(server, self.own(memory)))
        shared = server.params if self.personal is None else server.params[~self.personal]
        return self.params_at(shared, memory), self.buffers_at(server, memory)

    def apart_at(self, server: Server, memory: PartyMemory) -> Weights:
        """A party's model with all that it learnt alone: also what it has not told the others yet."""
        algorithm = self.method.algorithm
        params, buffers = self.model_at(server, memory)
        if algorithm.apart is not None:
            params = algorithm.apart(server, self.own(memory))
        for place, transform in enumerate(self.method.transforms):
            unsent = transform.unsent(memory.get(f"transform-{place}", {}))
            if unsent is not None:
                params = params + (unsent if self.personal is None else filled(self.personal, unsent))
        return params, buffers

    def moved_at(self, before: Vector, server: Server, memory: PartyMemory) -> Vector:
        """Return what a party learnt alone; `before` is the shared model before the last round."""
        start = before if self.method.algorithm.apart_before else server.params
        return self.apart_at(server, memory)[0] - start

    def own(self, memory: PartyMemory) -> Memory:
        """What the algorithm has at a party: what it kept, or what it begins with."""
        return memory["algorithm"] if "algorithm" in memory else self.method.algorithm.memory(self.task.initial)


def filled(places: Tensor, rest: Vector, own: Vector | None = None) -> Vector:
    """A vector with `own` entries (None for zeros) at some places, and the rest elsewhere."""
    whole = rest.new_zeros(places.shape)
    whole[~places] = rest
    if own is not None:
        whole[places] = own
    return whole


@dataclass(frozen=True)
class LocalRound:
    """One round as the parties live it: call it with a party, or take it apart and run it elsewhere."""

    setting: Setting
    server: Server  # what was broadcast

    def __call__(self, party: int, memory: PartyMemory) -> Reply:
        """Train, make a message, encode it."""
        received = replace(self.server, params=self.setting.params_at(self.server.params, memory))
        return replace(self, server=received)._train(party, memory)

    def _train(self, party: int, memory: PartyMemory) -> Reply:
        method, task, server, watch = self.setting.method, self.setting.task, self.server, Stopwatch()
        own, network = self.own(memory), task.network
        network.buffers.copy_(self.setting.buffers_at(server, memory))
        with self.drawing(party):
            local, momentum = self.setting.solver.train(
                replace(self.problem(party), other_loss=self.loss(own)),
                method.algorithm.start(server, own),
                server,
                self.correct(own),
                self.pull(own),
                memory.get("solver", {}),
            )
            buffers = network.buffers.clone()  # before a message that asks for a gradient runs the network again
            return self.reply(party, memory, own, local, momentum, buffers, watch)

    @contextmanager
    def drawing(self, party: int) -> Iterator[None]:
        """What torch draws meanwhile, for dropout or augmentation, comes from a stream of the party's own."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(self.setting.seed, "forward", self.server.round, party))
            yield

    def problem(self, party: int) -> Problem:
        return Problem(self.setting.task, self.setting.federation, self.party(party), self.setting.seed)

    def party(self, party: int) -> Party:
        return self.setting.federation.parties[party]

    def own(self, memory: PartyMemory) -> Memory:
        return self.setting.own(memory)

    def correct(self, own: Memory) -> Callable[[Vector, Vector], Vector] | None:
        correct, server = self.setting.method.algorithm.correct, self.server
        return (lambda grad, here: correct(grad, here, server, own)) if correct else None

    def loss(self, own: Memory) -> Callable[[Batch], Tensor] | None:
        loss, server = self.setting.method.algorithm.loss, self.server
        return (lambda batch: loss(batch, server, own)) if loss else None

    def pull(self, own: Memory) -> Pull:
        return self.setting.method.algorithm.pull(self.server, own)

    def reply(
        self,
        party: int,
        memory: PartyMemory,
        own: Memory,
        local: Local,
        momentum: Memory,
        buffers: Vector,
        watch: "Stopwatch",
    ) -> Reply:
        """What comes of a finished training: the message through the transforms, and what the party keeps."""
        setting, algorithm, server = self.setting, self.setting.method.algorithm, self.server
        update, own = algorithm.message(local, server, own)
        update = setting.without_personal(update)
        watch.lap("train")
        kept: dict[str, Memory] = {"algorithm": own, "solver": momentum}
        if setting.personal is not None:
            kept["personal"] = {"params": local.end[setting.personal]}
        context = Context(setting.seed, server.round, party, setting.shared, server.knobs)
        quiet = algorithm.silent or update.says_nothing
        for place, transform in enumerate(setting.method.transforms):
            owner = f"transform-{place}"
            kept[owner] = memory.get(owner, {})
            if not quiet:
                update, kept[owner] = transform.encode(update, kept[owner], context)
        if buffers.numel() and setting.buffers == "local":
            kept["network"] = {"buffers": buffers}
        elif buffers.numel() and setting.buffers == "average":
            update = replace(update, total={**update.total, BUFFERS: buffers * update.weight})
        watch.lap("encode")
        keeps = {party: {owner: m for owner, m in kept.items() if m}}
        return Reply(update, keeps, update.nbytes, update.nbytes, local.loss, local.steps, watch.laps)


def sends_deltas_alone(method: Method) -> bool:
    """Whether all that is asked of parties is the sum of FedAvg's messages: engines can add these up as they come."""
    plain = method.aggregate is total and method.algorithm.message is send_delta
    return plain and not (method.transforms or method.solver.keep_momentum)


def reply_of_deltas(
    delta: Vector, weight: float, owns: Mapping[int, Memory], loss: float, steps: int, seconds: float
) -> Reply:
    """One reply for several parties; deltas and losses are sums by weight, `owns` is what the algorithm has at each."""
    memory: dict[int, PartyMemory] = {party: {"algorithm": own} if own else {} for party, own in owns.items()}
    update, spent = Update({"delta": delta}, weight), {"train": seconds, "encode": 0.0}
    return Reply(update, memory, len(owns) * delta.nbytes, delta.nbytes, loss / weight, steps, spent)


class Stopwatch:
    """Seconds by phase: `lap` ends one and begins the next."""

    def __init__(self, spent: float = 0.0) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter() - spent

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._since
        self._since = now
