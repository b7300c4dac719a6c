"""One party's part of a round. Engines decide where it runs; the loop adds up the replies."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from silobench.federation import Party
from silobench.method.method import Method, total
from silobench.method.solvers import Problem
from silobench.method.types import Batch, Context, Local, Memory, Pull, Server, Update, Vector, send_delta
from silobench.rng import torch_seed
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import PartyMemory, Reply
from silobench.training.stopwatch import Stopwatch


@dataclass(frozen=True)
class LocalRound:
    """One round from the side of the parties: call it with a party, or use its parts in an engine."""

    setting: Setting
    server: Server  # as it was broadcast

    def __call__(self, party: int, memory: PartyMemory) -> Reply:
        """Train a party, compute its message and encode it."""
        received = replace(self.server, params=self.setting.params_at(self.server.params, memory))
        return replace(self, server=received)._train(party, memory)

    def _train(self, party: int, memory: PartyMemory) -> Reply:
        method, task, server, watch = self.setting.method, self.setting.task, self.server, Stopwatch()
        algorithm_memory, network = self.setting.algorithm_memory(memory), task.network
        network.buffers.copy_(self.setting.buffers_at(server, memory))
        with self.drawing(party):
            local, momentum = self.setting.solver.train(
                replace(self.problem(party), other_loss=self.loss(algorithm_memory)),
                method.algorithm.start(server, algorithm_memory),
                server,
                self.correct(algorithm_memory),
                self.pull(algorithm_memory),
                memory.get("solver", {}),
            )
            buffers = network.buffers.clone()  # before a message that asks for a gradient runs the network again
            return self.reply(party, memory, algorithm_memory, local, momentum, buffers, watch)

    @contextmanager
    def drawing(self, party: int) -> Iterator[None]:
        """Let torch draw from the party's own stream meanwhile, as dropout and augmentation do."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(self.setting.seed, "forward", self.server.round, party))
            yield

    def problem(self, party: int) -> Problem:
        return Problem(self.setting.task, self.setting.federation, self.party(party), self.setting.seed)

    def party(self, party: int) -> Party:
        return self.setting.federation.parties[party]

    def correct(self, algorithm_memory: Memory) -> Callable[[Vector, Vector], Vector] | None:
        correct, server = self.setting.method.algorithm.correct, self.server
        return (lambda grad, params: correct(grad, params, server, algorithm_memory)) if correct else None

    def loss(self, algorithm_memory: Memory) -> Callable[[Batch], Tensor] | None:
        loss, server = self.setting.method.algorithm.loss, self.server
        return (lambda batch: loss(batch, server, algorithm_memory)) if loss else None

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
        """Return the reply of a finished training: the message after the transforms, and the party's memory."""
        setting, algorithm, server = self.setting, self.setting.method.algorithm, self.server
        update, algorithm_memory = algorithm.message(local, server, algorithm_memory)
        update, shortened = setting.without_personal(update)
        watch.lap("train")
        after: dict[str, Memory] = {"algorithm": algorithm_memory, "solver": momentum}
        if setting.personal is not None:
            after["personal"] = {"params": local.end[setting.personal]}
        context = Context(setting.seed, server.round, party, setting.shared, server.knobs)
        quiet = algorithm.silent or update.is_empty
        for place, transform in enumerate(setting.method.transforms):
            owner = f"transform-{place}"
            after[owner] = memory.get(owner, {})
            if not quiet:
                update, after[owner] = transform.encode(update, after[owner], context)
        if buffers.numel() and setting.buffers == "local":
            after["network"] = {"buffers": buffers}
        elif buffers.numel() and setting.buffers == "average":
            update = replace(update, total={**update.total, BUFFERS: buffers * update.weight})
        watch.lap("encode")
        memories = {party: {owner: each for owner, each in after.items() if each}}
        size = update.nbytes
        return Reply(update, memories, size, size, local.loss, local.steps, watch.laps, shortened)


def sends_only_deltas(method: Method) -> bool:
    """Whether the server only needs the sum of FedAvg's messages: engines can then add these up as they come."""
    plain = method.aggregate is total and method.algorithm.message is send_delta
    return plain and not (method.transforms or method.solver.keep_momentum)


def reply_of_deltas(
    delta: Vector, weight: float, owns: Mapping[int, Memory], loss: float, steps: int, seconds: float
) -> Reply:
    """Return one reply for several parties.

    `delta` and `loss` are sums by weight, `owns` are the algorithm's memories by party.
    """
    memory: dict[int, PartyMemory] = {party: {"algorithm": each} if each else {} for party, each in owns.items()}
    update, spent = Update({"delta": delta}, weight), {"train": seconds, "encode": 0.0}
    return Reply(update, memory, len(owns) * delta.nbytes, delta.nbytes, loss / weight, steps, spent)
