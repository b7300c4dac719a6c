"""One party's part of a round. Engines decide where it runs; the loop adds up the replies."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from silobench.errors import ConfigError
from silobench.federation import Party
from silobench.method.chain import Sent, send
from silobench.method.solvers import Problem
from silobench.method.types import (
    ENCRYPT,
    Batch,
    Direction,
    Layout,
    Local,
    Memory,
    Pull,
    Server,
    Train,
    Update,
    Vector,
    send_delta,
)
from silobench.models.devices import seeded
from silobench.rng import torch_seed
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import PartyMemory, Reply, Work
from silobench.training.stopwatch import Stopwatch
from silobench.vectors import moved

Trainings: TypeAlias = Callable[[Train, Server, Memory], tuple[Local, Memory]]


@dataclass(frozen=True)
class LocalRound:
    """The local part of one round. Calling it trains one party; engines may also call its methods one by one."""

    setting: Setting
    server: Server  # as it was broadcast
    cohort: tuple[int, ...] = ()  # the parties of this round

    def __call__(self, party: int, memory: PartyMemory) -> Reply:
        """Train a party, compute its message and encode it."""
        return self.at(memory)._train(party, memory)

    def at(self, memory: PartyMemory) -> "LocalRound":
        """Return the round as a party sees it: with its personal parameters, or with its own model."""
        if self.setting.starts_from_broadcast:
            return self
        return replace(self, server=replace(self.server, params=self.setting.params_at(self.server.params, memory)))

    def _train(self, party: int, memory: PartyMemory) -> Reply:
        if self.setting.method.algorithm.trainings is not None:
            return self._train_several(party, memory, self.setting.method.algorithm.trainings)
        method, task, server, watch = self.setting.method, self.setting.task, self.server, Stopwatch()
        algorithm_memory, network = self.setting.algorithm_memory(memory), task.network
        network.buffers.copy_(self.setting.buffers_at(server, memory))
        with self.seeded(party):
            local, momentum = self.setting.solver.train(
                replace(self.problem(party), other_loss=self.loss(algorithm_memory)),
                method.algorithm.start(server, algorithm_memory),
                server,
                self.correct(algorithm_memory),
                self.pull(algorithm_memory),
                memory.get("solver", {}),
            )
            buffers = network.buffers.clone().cpu()  # before a message that asks for a gradient runs the network again
            return self.reply(party, memory, algorithm_memory, local, momentum, buffers, watch)

    def _train_several(self, party: int, memory: PartyMemory, trainings: Trainings) -> Reply:
        """Run the trainings of an algorithm that has several in a round, or another than the usual one."""
        watch, trainer = Stopwatch(), _Trainer(self, party, memory)
        local, algorithm_memory = trainings(trainer, self.server, self.setting.algorithm_memory(memory))
        solvers = dict(trainer.solvers)
        with self.seeded(party):
            momentum, buffers = solvers.pop(_solver_key(""), {}), trainer.buffers
            reply = self.reply(party, memory, algorithm_memory, local, momentum, buffers, watch)
        kept = {key: each for key, each in solvers.items() if each}
        return replace(reply, memory={party: {**reply.memory[party], **kept}}) if kept else reply

    @contextmanager
    def seeded(self, party: int, training: str = "") -> Iterator[None]:
        """Seed torch's random numbers (dropout, augmentation) for this party and round, and a training within it."""
        purpose = f"forward {training}" if training else "forward"
        seed = torch_seed(self.setting.seed, purpose, self.server.round, party)
        with seeded(seed, self.setting.task.network.params.device):
            yield

    def problem(self, party: int) -> Problem:
        setting, canaries = self.setting, self.setting.canaries
        planted = canaries if canaries is not None and canaries.party == party else None
        return Problem(setting.task, setting.federation, self.party(party), setting.seed, canaries=planted)

    def party(self, party: int) -> Party:
        return self.setting.federation.parties[party]

    def correct(self, algorithm_memory: Memory) -> Callable[[Vector, Vector], Vector] | None:
        correct = self.setting.method.algorithm.correct
        if correct is None:
            return None
        server, memory = self._on_device(algorithm_memory)
        return lambda grad, params: correct(grad, params, server, memory)

    def loss(self, algorithm_memory: Memory) -> Callable[[Batch], Tensor] | None:
        loss = self.setting.method.algorithm.loss
        if loss is None:
            return None
        server, memory = self._on_device(algorithm_memory)
        return lambda batch: loss(batch, server, memory)

    def _on_device(self, algorithm_memory: Memory) -> tuple[Server, Memory]:
        """Return the server and a memory for hooks that are called in every step, where the network is."""
        device = self.setting.task.network.params.device
        return moved(self.server, device), moved(algorithm_memory, device)

    def pull(self, algorithm_memory: Memory) -> Pull:
        return self.setting.method.algorithm.pull(self.server, algorithm_memory)

    def reply(
        self,
        party: int,
        memory: PartyMemory,
        algorithm_memory: Memory,
        local: Local,
        momentum: Memory,
        buffers: Vector,
        watch: Stopwatch,
    ) -> Reply:
        """Build the reply of a party: run its message through the transforms and collect its memory."""
        setting, algorithm, server = self.setting, self.setting.method.algorithm, self.server
        update, algorithm_memory = algorithm.message(local, server, algorithm_memory)
        update, model_parts = setting.without_personal(update)
        if party in setting.malicious and setting.adversary.message is not None:
            update = setting.adversary.message(update, self.setting.context(self.server, party, self.cohort))
        watch.lap("train")
        memories: dict[str, Memory] = {"algorithm": algorithm_memory, "solver": momentum}
        if setting.personal is not None:
            memories["personal"] = {"params": local.end[setting.personal]}
        if buffers.numel() and setting.buffers == "local":
            memories["network"] = {"buffers": buffers}
        sent, transform_memories = self._sent(update, party, memory, buffers, local.loss)
        watch.lap("encode")
        memory_by_party = {party: {key: each for key, each in {**memories, **transform_memories}.items() if each}}
        report, train, encode = dict(sent.report), watch.laps["train"], watch.laps["encode"] - sent.unpacking
        encrypt = report.pop(ENCRYPT, 0.0)
        return Reply(
            sent.arrived,
            memory_by_party,
            {party: sent.message.nbytes},
            math.nan if setting.method.hides else local.loss,
            local.steps,
            {"train": train, "encode": encode},
            train,
            {name: (value, 1) for name, value in report.items()},
            model_parts,
            {party: Work(sent.dense, train, max(0.0, encode - encrypt), encrypt, sent.unpacking)},
            sent.message if setting.keeps_messages else None,
        )

    def _sent(
        self, update: Update, party: int, memory: PartyMemory, buffers: Vector, loss: float
    ) -> tuple[Sent, Mapping[str, Memory]]:
        """Send a message and its statistics through the chain of transforms; one that is empty passes by.

        Return also the memories of the transforms, by owner.
        """
        setting, server, transforms = self.setting, self.server, self.setting.method.transforms
        memories = {key: memory.get(key, {}) for key in map(transform_key, range(len(transforms)))}
        context = setting.context(server, party, self.cohort)
        passes_by = setting.method.algorithm.silent or update.is_empty
        if buffers.numel() and setting.buffers == "average":
            update = setting.with_buffers(update, buffers, server)
            passes_by = passes_by and not setting.method.hides
        if passes_by:
            return send(update, (), (), context), memories
        servers = [memory.get(server_key(place), {}) for place in range(len(transforms))]
        sent = send(update, transforms, tuple(memories.values()), context, servers, loss)
        # Statistics are sent anew in every round: what was held back of them is out of date by the next.
        kept = [{name: value for name, value in after.items() if name != BUFFERS} for after in sent.memories]
        return sent, dict(zip(memories, kept, strict=True))


@dataclass
class _Trainer:
    """Runs the trainings of one party in a round, and collects what each of them leaves: a `Train`."""

    local_round: LocalRound
    party: int
    memory: PartyMemory
    solvers: dict[str, Memory] = field(default_factory=dict)  # memories of the solver, by owner
    buffers: Vector = field(default_factory=lambda: torch.zeros(0))  # statistics after the last training

    @property
    def layout(self) -> Layout:
        return self.local_round.setting.task.network.layout

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
        key, server, setting = _solver_key(name), self.local_round.server, self.local_round.setting
        if "/" in name:  # a checkpoint names the memory of a training by it
            raise ConfigError(f"a training of a round has the name '{name}': leave out the slash.")
        if key in self.solvers:
            raise ConfigError(f"two trainings of a round have the name '{name}': give each another name.")
        solver = setting.solver if epochs is None else replace(setting.solver, epochs=epochs, steps=None)
        problem = replace(self.local_round.problem(self.party), training=name)
        state, network = self.memory.get(key, {}), setting.task.network
        network.buffers.copy_(setting.buffers_at(server, self.memory))
        with self.local_round.seeded(self.party, name):
            if direction is None:
                places = setting.places(frozen).to(network.params.device) if frozen else None
                local, state = solver.train(problem, start, server, None, pull, state, places)
            elif frozen or pull != Pull():
                raise ConfigError(
                    "a training has a direction besides a pull or frozen tensors: write these into the direction."
                )
            else:
                local, state = solver.follow(problem, start, server, direction, scratch or {}, state)
        self.solvers[key], self.buffers = state, network.buffers.clone().cpu()
        return local


def _solver_key(training: str) -> str:
    """Return the owner of the solver's memory at a party, by the name of a training."""
    return f"solver-{training}" if training else "solver"


def transform_key(place: int) -> str:
    """Return the owner of a transform's memory at a party, by its place in the chain."""
    return f"transform-{place}"


def server_memories(extra: Mapping[str, Memory], setting: Setting) -> list[Memory]:
    """Return the memory of each transform at the server, from `State.extra`."""
    return [extra.get(transform_key(place), {}) for place in range(len(setting.method.transforms))]


def server_key(place: int) -> str:
    """Return the owner of what a party was sent of a transform's memory at the server."""
    return f"server-transform-{place}"


def sends_only_deltas(setting: Setting) -> bool:
    """Whether the server needs only the sum of the deltas, so that engines can add them while they train."""
    method = setting.method
    plain = setting.needs_only_sum and method.algorithm.message is send_delta
    is_honest = setting.adversary.message is None or not setting.malicious
    return plain and is_honest and not (method.transforms or method.solver.keep_momentum)


def reply_of_deltas(
    delta: Vector,
    weight: float,
    memories: Mapping[int, Memory],
    loss: float,
    steps: int,
    seconds: Mapping[int, float],
) -> Reply:
    """Return one reply for several parties.

    `delta` and `loss` are sums by weight, `memories` are the algorithm's memories by party, and `seconds` are what each
    party took.
    """
    by_party: dict[int, PartyMemory] = {party: {"algorithm": each} if each else {} for party, each in memories.items()}
    update, spent = Update({"delta": delta}, weight), {"train": sum(seconds.values()), "encode": 0.0}
    sizes, work = dict.fromkeys(memories, delta.nbytes), {p: Work(delta.nbytes, each) for p, each in seconds.items()}
    return Reply(update, by_party, sizes, loss / weight, steps, spent, max(seconds.values()), work=work)
