"""From a trained stack to the replies of its parties."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Protocol

import torch

from silobench.engines.stacks.members import Member, members_of
from silobench.method.solvers import Solver
from silobench.method.types import Local, Memory, Vector
from silobench.training.party import LocalRound, reply_of_deltas, sends_only_deltas
from silobench.training.state import PartyMemory, Reply
from silobench.training.stopwatch import Stopwatch


class Trained(Protocol):
    """A stack after its last step, with the mean loss and the number of steps of each party."""

    @property
    def losses(self) -> list[float]: ...

    @property
    def steps(self) -> list[int]: ...

    def local(self, place: int, member: Member, solver: Solver) -> tuple[Local, Memory]:
        """Return the result of one party's training, and the momentum that it keeps."""

    def sum_of_deltas(self, members: Sequence[Member], weights: Sequence[float]) -> Vector:
        """Return Σ weight · (end - start) over the parties."""


def train_together(
    local_round: LocalRound, memory: Mapping[int, PartyMemory], train: Callable[[LocalRound, list[Member]], Trained]
) -> list[Reply]:
    """Train the parties in `memory` together; return their replies, as one reply if only their sum is needed."""
    watch, members = Stopwatch(), members_of(local_round, memory)
    with torch.no_grad():
        trained = train(local_round, members)
    setting, solver = local_round.setting, local_round.setting.solver
    watch.lap("train")
    if sends_only_deltas(setting):
        return [_sum_of_deltas(members, trained, watch)]
    of_a_step = watch.laps["train"] / sum(trained.steps)
    replies = []
    for place, member in enumerate(members):
        party, spent = member.problem.party.id, of_a_step * trained.steps[place]
        local, momentum = trained.local(place, member, solver)
        memories, buffers = (memory[party], member.memory), local_round.server.buffers
        seen = local_round.at(memory[party])
        replies.append(seen.reply(party, *memories, local, momentum, buffers, Stopwatch(spent)))
    return [reduce(add, replies)] if setting.needs_only_sum else replies


def _sum_of_deltas(members: Sequence[Member], trained: Trained, watch: Stopwatch) -> Reply:
    """Return the sum of FedAvg's messages as one reply."""
    weights = [float(member.problem.party.samples) for member in members]
    delta = trained.sum_of_deltas(members, weights)
    loss = sum(loss * weight for loss, weight in zip(trained.losses, weights, strict=True))
    memories = {member.problem.party.id: member.memory for member in members}
    watch.lap("message")
    steps = sum(trained.steps)
    of_a_step = (watch.laps["train"] + watch.laps["message"]) / steps  # parties share the time by their steps
    seconds = {party: of_a_step * count for party, count in zip(memories, trained.steps, strict=True)}
    return reply_of_deltas(delta, sum(weights), memories, loss, steps, seconds)
