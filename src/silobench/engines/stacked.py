"""Many parties as one batched computation: linear and fully connected networks, forward and backward by hand.

The parties are the leading axis of every array. They are ordered by their number of steps, so that those still at work
are always a prefix, and nothing is computed for those that have finished. A batch that is shorter than the longest of
its step is filled up with a row of its own party that weighs nothing.

Dense rows go through batched products. Sparse rows (CSR) never become dense: `silobench.engines.sparse` keeps the first
layer as a table of columns and moves only those that a step touches.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from silobench.engines.sparse import Columns, Rule, SparseRows
from silobench.federation import Federation, as_input
from silobench.local import LocalRound, Setting, Stopwatch
from silobench.models.architectures import Mlp
from silobench.solvers import reach
from silobench.types import Layout, Local, Memory, PartyMemory, Reply, Server, Vector, at

_WINDOW = 1 << 18  # numbers of input gathered at a time: they stay in the processor's cache


def can_stack(setting: Setting) -> bool:
    """Whether `train_stack` gives what training one by one gives: a layered network and row-wise corrections."""
    network, algorithm = setting.task.network, setting.method.algorithm
    if not isinstance(network.module, Mlp):
        return False
    if not isinstance(setting.federation.x, Tensor):
        return algorithm.correct is None  # a correction moves every column in every step
    return algorithm.correct is None or _acts_row_by_row(setting)


def _acts_row_by_row(setting: Setting) -> bool:
    """Try a correction on two rows at once and on each alone: one that mixes rows, by a norm say, is not stacked."""
    algorithm, initial = setting.method.algorithm, setting.task.initial
    draw = torch.Generator().manual_seed(0)
    grads, points = (torch.randn(2, len(initial), generator=draw) for _ in range(2))
    memories = {name: torch.randn(2, *kept.shape, generator=draw) for name, kept in algorithm.memory(initial).items()}
    server = Server(initial, algorithm.extras(initial), {}, 0, len(setting.federation.parties), {})
    assert algorithm.correct is not None
    try:
        both = algorithm.correct(grads.clone(), points.clone(), server, memories)
        for row in range(2):
            memory = {name: kept[row] for name, kept in memories.items()}
            alone = algorithm.correct(grads[row].clone(), points[row].clone(), server, memory)
            if not torch.allclose(both[row], alone, rtol=1e-4, atol=1e-5):
                return False
    except Exception:  # a user's correction may refuse two rows in any way it likes
        return False
    return True


def train_stack(here: LocalRound, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """The replies of some parties, trained together; `memory` says which, and what they keep."""
    watch = Stopwatch()
    solver = here.setting.method.solver
    parties = sorted(memory, key=lambda party: -solver.count(here.party(party).samples))
    owns = [here.own(memory[party]) for party in parties]
    with torch.inference_mode():
        ends, velocities, losses, steps = _walk(
            here, parties, owns, [memory[party].get("solver", {}) for party in parties]
        )
    watch.lap("train")
    shared = watch.laps["train"] / max(1, sum(steps))
    replies = {}
    for place, party in enumerate(parties):
        problem, own = here.problem(party), owns[place]
        local = Local(
            start=here.setting.method.algorithm.start(here.server, own),
            end=ends[place].clone(),
            steps=steps[place],
            reach=reach(steps[place], solver.momentum),
            lr=at(solver.lr, here.server),
            samples=problem.party.samples,
            loss=losses[place] / steps[place],
            gradient=solver.gradient_of(problem),
        )
        momentum = {"momentum": velocities[place].clone()} if solver.keep_momentum else {}
        reply = here.reply(party, memory[party], own, local, momentum, here.server.buffers, Stopwatch())
        spent = {**reply.seconds, "train": reply.seconds["train"] + shared * steps[place]}
        replies[party] = Reply(party, reply.update, reply.memory, reply.loss, reply.steps, spent)
    return [replies[party] for party in memory]


@dataclass(frozen=True)
class _Schedule:
    """Which rows the parties visit: step by step, the parties that still work first."""

    rows: Tensor  # [steps, parties, batch]
    weights: Tensor  # [steps, parties, 1, batch]: one over the size of the batch, 0 where it is filled up
    active: list[int]  # by step: how many parties still work

    @classmethod
    def of(cls, here: LocalRound, parties: Sequence[int]) -> "_Schedule":
        orders = [here.setting.method.solver.order(here.problem(party), here.server.round) for party in parties]
        width, steps = max(max(sizes) for _, sizes in orders), [len(sizes) for _, sizes in orders]
        rows = torch.zeros(steps[0], len(parties), width, dtype=torch.int64)
        weights = torch.full((steps[0], len(parties), 1, width), 1 / width)
        for place, (order, sizes) in enumerate(orders):
            if len(order) == len(sizes) * width:
                rows[: len(sizes), place] = order.view(-1, width)
                continue
            lengths = torch.tensor(sizes).unsqueeze(1)
            inside = torch.arange(width)
            starts = lengths.cumsum(0) - lengths
            rows[: len(sizes), place] = order[starts + torch.minimum(inside, lengths - 1)]
            weights[: len(sizes), place, 0] = (inside < lengths) / lengths
        ends = torch.tensor(steps)
        return cls(rows, weights, [int(count) for count in (ends > torch.arange(steps[0]).unsqueeze(1)).sum(1)])

    def windows(self, inputs: int) -> "list[tuple[int, int, int]]":
        """Runs of steps (begin, end, active) with the same parties at work and not too much input for the cache."""
        found, begin = [], 0
        for step, count in enumerate(self.active):
            most = max(1, _WINDOW // (count * self.rows.shape[2] * inputs))
            last = step + 1 == len(self.active)
            if last or self.active[step + 1] != count or step + 1 - begin >= most:
                found.append((begin, step + 1, count))
                begin = step + 1
        return found


def _walk(
    here: LocalRound, parties: Sequence[int], owns: Sequence[Memory], kept: Sequence[Memory]
) -> tuple[Vector, Vector, list[float], list[int]]:
    """Every step of every party: end points [parties, d], velocities, sums of losses, numbers of steps."""
    federation, schedule = here.setting.federation, _Schedule.of(here, parties)
    inputs, classes = math.prod(federation.dataset.shape), len(federation.dataset.classes)
    stack = _Stack(here, owns, kept, inputs, len(schedule.active))
    losses = torch.zeros(len(parties))
    for begin, end, count in schedule.windows(_numbers_in_a_row(federation)):
        rows, weights = schedule.rows[begin:end, :count], schedule.weights[begin:end, :count]
        x = _inputs(federation, rows, begin)
        goals = torch.zeros(*rows.shape[:2], classes, rows.shape[2])
        goals.scatter_(2, federation.y[rows].unsqueeze(2), weights)
        logits = torch.empty_like(goals)
        prefix = _Prefix(stack, count)
        for step in range(end - begin):
            prefix.backward(x[step], goals[step], weights[step], logits[step])
            prefix.descend()
        losses[:count] -= (torch.log_softmax(logits, 2) * goals).sum((0, 2, 3))
    steps = [sum(count > place for count in schedule.active) for place in range(len(parties))]
    return *stack.finish(steps), losses.tolist(), steps


def _numbers_in_a_row(federation: Federation) -> int:
    x = federation.x
    return x[0].numel() if isinstance(x, Tensor) else max(1, x.nnz // x.shape[0])


def _inputs(federation: Federation, rows: Tensor, begin: int) -> "Tensor | SparseRows":
    """The rows of some steps, by step."""
    x = federation.x
    if isinstance(x, Tensor):
        return as_input(x, rows.reshape(-1)).view(*rows.shape, -1)
    return SparseRows.of(x, rows, begin)


class _Stack:
    """What local training moves, for all parties of the stack: parameters and velocities, [parties, d] each."""

    def __init__(self, here: LocalRound, owns: Sequence[Memory], kept: Sequence[Memory], inputs: int, steps: int):
        algorithm, server, solver = here.setting.method.algorithm, here.server, here.setting.method.solver
        self.correct, self.server = algorithm.correct, server
        self.lr, self.momentum, self.decay = at(solver.lr, server), solver.momentum, solver.weight_decay
        self.memory = {name: torch.stack([own[name] for own in owns]) for name in owns[0]} if self.correct else {}
        self.params = torch.stack([algorithm.start(server, own) for own in owns])
        zero = torch.zeros_like(server.params)
        self.velocity = torch.stack([memory["momentum"] if memory else zero for memory in kept])
        self.drift = torch.stack([algorithm.drift(server, own) for own in owns]) if algorithm.drift else None
        self.columns: Columns | None = None
        self.layout = here.setting.task.network.layout
        if not isinstance(here.setting.federation.x, Tensor):
            self._keep_columns(inputs, steps)
        self.grad = torch.zeros_like(self.params)

    def _keep_columns(self, inputs: int, steps: int) -> None:
        """Take the first layer's weights out of the vectors: sparse rows move only some of them in a step."""
        size = self.layout.shapes[0].numel()
        first, velocity = self.params[:, :size], self.velocity[:, :size]
        drift = None if self.drift is None else self.drift[:, :size]
        rule = Rule(self.lr, self.momentum, self.decay)
        self.columns = Columns(first, velocity, drift, inputs, rule, steps)
        self.params, self.velocity = self.params[:, size:].contiguous(), self.velocity[:, size:].contiguous()
        self.drift = None if self.drift is None else self.drift[:, size:].contiguous()
        self.layout = Layout(self.layout.names[1:], self.layout.shapes[1:], self.layout.trainable - size)

    def finish(self, steps: Sequence[int]) -> tuple[Vector, Vector]:
        """End points and velocities, whole again."""
        if self.columns is None:
            return self.params, self.velocity
        first, velocity = self.columns.finish(steps)
        return torch.cat([first, self.params], 1), torch.cat([velocity, self.velocity], 1)


class _Prefix:
    """The parties of a stack that are still at work: one step forward, backward and down for all of them."""

    def __init__(self, stack: _Stack, count: int):
        self.stack, self.columns = stack, stack.columns
        self.params, self.velocity, self.grad = stack.params[:count], stack.velocity[:count], stack.grad[:count]
        self.drift = None if stack.drift is None else stack.drift[:count]
        self.memory = {name: kept[:count] for name, kept in stack.memory.items()}
        here, grad = stack.layout.views(self.params), stack.layout.views(self.grad)
        self.biases, self.bias_grads = _of_kind(here, "bias"), _of_kind(grad, "bias")
        self.weights, self.weight_grads = _of_kind(here, "weight"), _of_kind(grad, "weight")
        self.depth = len(self.biases)

    def backward(self, x: Any, goal: Tensor, weight: Tensor, logits: Tensor) -> None:
        """Fill `grad` and `logits`; `goal` is the row's weight at its class, and 0 at the others.

        Logits and goals have classes before rows, because a softmax along the last axis is several times slower.
        """
        values = [x]  # what goes into each layer
        for layer in range(self.depth - 1):
            values.append(self._product(layer, values[layer]).add_(self.biases[layer].unsqueeze(1)).relu_())
        out = self._product(self.depth - 1, values[-1]).transpose(1, 2)
        torch.add(out, self.biases[-1].unsqueeze(2), out=logits)
        error = torch.softmax(logits, 1).mul_(weight).sub_(goal).transpose(1, 2)
        for layer in reversed(range(self.depth)):
            torch.sum(error, 1, out=self.bias_grads[layer])
            if layer or self.columns is None:
                self.weight_grads[layer - self.depth].copy_(torch.bmm(error.transpose(1, 2), values[layer]))
            else:
                self.columns.descend(error.reshape(-1, error.shape[2]))
            if layer:
                back = torch.bmm(error, self.weights[layer - self.depth])
                error = torch.ops.aten.threshold_backward(back, values[layer], 0)

    def _product(self, layer: int, x: Any) -> Tensor:
        """Rows times the weights of a layer, [parties, rows, width]; lists of weights may lack the first layer."""
        if layer == 0 and self.columns is not None:
            return self.columns.product(x).view(len(self.params), -1, self.biases[0].shape[1])
        return torch.bmm(x, self.weights[layer - self.depth].transpose(1, 2))

    def descend(self) -> None:
        """The solver's step on flat vectors, as `Solver.train` takes it."""
        stack, grad = self.stack, self.grad
        if stack.decay:
            grad.add_(self.params, alpha=stack.decay)
        if stack.correct is not None:
            grad = stack.correct(grad, self.params, stack.server, self.memory)
        self.velocity.mul_(stack.momentum).add_(grad)
        self.params.add_(self.velocity, alpha=-stack.lr)
        if self.drift is not None:
            self.params.add_(self.drift, alpha=-stack.lr)


def _of_kind(views: Mapping[str, Tensor], kind: str) -> list[Tensor]:
    return [view for name, view in views.items() if name.endswith(kind)]
