"""One party's part of a round. Engines decide where it runs; the loop gathers what comes back."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from silobench.federation import Federation
from silobench.methods import Method
from silobench.rng import torch_seed
from silobench.solvers import Problem
from silobench.task import Task
from silobench.types import Context, Memory, PartyMemory, Reply, Server

BUFFERS = "network buffers"  # a part of every message beside the algorithm's own, averaged by samples


@dataclass(frozen=True)
class LocalRound:
    """One round as the parties live it: call it with a party, or take it apart and run it elsewhere."""

    method: Method
    federation: Federation
    task: Task
    server: Server  # what was broadcast
    seed: int

    def __call__(self, party: int, memory: PartyMemory) -> Reply:
        """Train, make a message, encode it."""
        algorithm, server, watch = self.method.algorithm, self.server, Stopwatch()
        own = memory["algorithm"] if "algorithm" in memory else algorithm.memory(self.task.initial)
        correct, drift, network = algorithm.correct, algorithm.drift, self.task.network
        network.buffers.copy_(memory["network"]["buffers"] if "network" in memory else server.buffers)
        with torch.random.fork_rng(devices=[]):  # a network that draws (dropout) draws from a stream of its own
            torch.manual_seed(torch_seed(self.seed, "forward", server.round, party))
            local, momentum = self.method.solver.train(
                Problem(self.task, self.federation, self.federation.parties[party], self.seed),
                algorithm.start(server, own),
                server,
                (lambda grad, here: correct(grad, here, server, own)) if correct else None,
                drift(server, own) if drift else None,
                memory.get("solver", {}),
            )
        buffers = network.buffers.clone()  # before a message that asks for a gradient runs the network again
        update, own = algorithm.message(local, server, own)
        watch.lap("train")
        kept: dict[str, Memory] = {"algorithm": own, "solver": momentum}
        context = Context(self.seed, server.round, party, self.task.network.layout, server.knobs)
        for place, transform in enumerate(() if algorithm.silent else self.method.transforms):
            owner = f"transform-{place}"
            update, kept[owner] = transform.encode(update, memory.get(owner, {}), context)
        if len(buffers) and algorithm.replica:
            kept["network"] = {"buffers": buffers}
        elif len(buffers):
            update = replace(update, total={**update.total, BUFFERS: buffers * update.weight})
        watch.lap("encode")
        return Reply(party, update, {owner: m for owner, m in kept.items() if m}, local.loss, local.steps, watch.laps)


Engine: TypeAlias = Callable[[LocalRound, Iterable[int], Mapping[int, PartyMemory]], Iterator[Reply]]


class Stopwatch:
    """Seconds by phase: `lap` ends one and begins the next."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._since
        self._since = now
