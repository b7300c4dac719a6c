"""One party's part of a round. Engines decide where it runs; the loop gathers what comes back."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from silobench.federation import Federation, Party
from silobench.methods import Method, total
from silobench.rng import torch_seed
from silobench.solvers import Problem
from silobench.task import Task
from silobench.types import Context, Local, Memory, PartyMemory, Pull, Reply, Server, Update, Vector, send_delta

BUFFERS = "network buffers"  # a part of every message beside the algorithm's own, averaged by samples


@dataclass(frozen=True)
class Setting:
    """What stays the same in every round of a run, as parties see it. An engine ships it once."""

    method: Method
    federation: Federation
    task: Task
    seed: int


@dataclass(frozen=True)
class LocalRound:
    """One round as the parties live it: call it with a party, or take it apart and run it elsewhere."""

    setting: Setting
    server: Server  # what was broadcast

    def __call__(self, party: int, memory: PartyMemory) -> Reply:
        """Train, make a message, encode it."""
        method, task, server, watch = self.setting.method, self.setting.task, self.server, Stopwatch()
        own, network = self.own(memory), task.network
        network.buffers.copy_(memory["network"]["buffers"] if "network" in memory else server.buffers)
        with self.drawing(party):
            local, momentum = method.solver.train(
                self.problem(party),
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
        """What the algorithm has at a party: what it kept, or what it begins with."""
        return (
            memory["algorithm"]
            if "algorithm" in memory
            else self.setting.method.algorithm.memory(self.setting.task.initial)
        )

    def correct(self, own: Memory) -> Callable[[Vector, Vector], Vector] | None:
        correct, server = self.setting.method.algorithm.correct, self.server
        return (lambda grad, here: correct(grad, here, server, own)) if correct else None

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
        algorithm, server = self.setting.method.algorithm, self.server
        update, own = algorithm.message(local, server, own)
        watch.lap("train")
        kept: dict[str, Memory] = {"algorithm": own, "solver": momentum}
        context = Context(self.setting.seed, server.round, party, self.setting.task.network.layout, server.knobs)
        for place, transform in enumerate(() if algorithm.silent else self.setting.method.transforms):
            owner = f"transform-{place}"
            update, kept[owner] = transform.encode(update, memory.get(owner, {}), context)
        if buffers.numel() and algorithm.replica:
            kept["network"] = {"buffers": buffers}
        elif buffers.numel():
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
