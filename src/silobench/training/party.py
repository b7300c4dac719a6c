"""One party's part of a round. Engines decide where it runs; the loop gathers what comes back."""

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
        watch: Stopwatch,
    ) -> Reply:
        """What comes of a finished training: the message through the transforms, and what the party keeps."""
        setting, algorithm, server = self.setting, self.setting.method.algorithm, self.server
        update, own = algorithm.message(local, server, own)
        update, shortened = setting.without_personal(update)
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
        return Reply(update, keeps, update.nbytes, update.nbytes, local.loss, local.steps, watch.laps, shortened)


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
