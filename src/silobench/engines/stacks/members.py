"""The parties of a stack before their first step, and the rows of every step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from silobench.method.solvers import Problem
from silobench.method.types import Memory, Pull, Vector
from silobench.training.party import LocalRound
from silobench.training.state import PartyMemory

_WINDOW = 1 << 18  # numbers of a kind prepared at a time, so that they stay in the processor's cache


@dataclass(frozen=True)
class Member:
    """One party of a stack, before its first step."""

    problem: Problem
    memory: Memory  # of the algorithm
    start: Vector
    velocity: Vector | None  # None for zero
    pull: Pull

    @classmethod
    def of(cls, local_round: LocalRound, party: int, memory: PartyMemory) -> "Member":
        local_round = local_round.at(memory)
        algorithm, algorithm_memory = local_round.setting.method.algorithm, local_round.setting.algorithm_memory(memory)
        start, velocity = (
            algorithm.start(local_round.server, algorithm_memory),
            memory.get("solver", {}).get("momentum"),
        )
        problem, pull = local_round.problem(party), local_round.pull(algorithm_memory)
        return cls(problem, algorithm_memory, start, velocity, pull)


def members_of(local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> list[Member]:
    """Return the parties in `memory`, those with most steps first: active parties are then always a prefix."""
    solver = local_round.setting.solver
    parties = sorted(memory, key=lambda party: -solver.count(local_round.party(party).samples))
    return [Member.of(local_round, party, memory[party]) for party in parties]


@dataclass(frozen=True)
class Schedule:
    """The rows of every step; active parties come first."""

    rows: Tensor  # [steps, parties, batch]
    weights: Tensor  # [steps, parties, 1, batch]: one over the size of the batch, 0 for padding
    steps: list[int]  # by party
    active: list[int]  # by step: the number of active parties

    @classmethod
    def of(cls, local_round: LocalRound, members: Sequence[Member]) -> "Schedule":
        solver, number = local_round.setting.solver, local_round.server.round
        orders = [solver.order(member.problem, number) for member in members]
        width, steps = max(max(sizes) for _, sizes in orders), [len(sizes) for _, sizes in orders]
        weights = torch.full((steps[0], len(orders), 1, width), 1 / width)
        if all(order.numel() == steps[0] * width for order, _ in orders):  # no padding is needed
            rows = torch.stack([order.view(-1, width) for order, _ in orders], 1)
            return cls(rows, weights, steps, [len(orders)] * steps[0])
        rows = torch.zeros(steps[0], len(orders), width, dtype=torch.int64)
        for place, (order, sizes) in enumerate(orders):
            if order.numel() == len(sizes) * width:
                rows[: len(sizes), place] = order.view(-1, width)
                continue
            lengths = torch.tensor(sizes).unsqueeze(1)
            inside = torch.arange(width)
            starts = lengths.cumsum(0) - lengths
            rows[: len(sizes), place] = order[starts + torch.minimum(inside, lengths - 1)]
            weights[: len(sizes), place, 0] = (inside < lengths) / lengths
        active = (torch.tensor(steps) > torch.arange(steps[0]).unsqueeze(1)).sum(1)
        return cls(rows, weights, steps, active.tolist())

    def windows(self, numbers: int) -> "list[tuple[int, int, int]]":
        """Split the steps into windows (begin, end, active) that fit the cache, with `numbers` for each row."""
        windows, begin = [], 0
        for step, count in enumerate(self.active):
            most = max(1, _WINDOW // (count * self.rows.shape[2] * numbers))
            last = step + 1 == len(self.active)
            if last or self.active[step + 1] != count or step + 1 - begin >= most:
                windows.append((begin, step + 1, count))
                begin = step + 1
        return windows
