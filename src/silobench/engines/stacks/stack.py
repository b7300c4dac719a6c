"""Many parties as one batched computation: linear and fully connected networks, forward and backward by hand.

The parties are the leading axis of every array. They are ordered by their number of steps, so that those still at work
are always a prefix, and nothing is computed for those that have finished. A batch that is shorter than the longest of
its step is filled up with a row of its own party that weighs nothing.

Dense rows go through batched products. Sparse rows (CSR) never become dense: `sparse` keeps the first
layer as tables of columns and moves only those that a step touches.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from silobench.engines.stacks.blocks import blocks, flattened, rows_of, some_of, sum_of_deltas
from silobench.engines.stacks.sparse import Columns, Rule, SparseRows
from silobench.federation import Federation, fill_input
from silobench.method.method import total
from silobench.method.solvers import Problem, Solver
from silobench.method.types import Layout, Local, Memory, Pull, Server, Vector, at
from silobench.models.architectures import Mlp
from silobench.training.party import LocalRound, reply_of_deltas, sends_deltas_alone
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply
from silobench.training.stopwatch import Stopwatch

_WINDOW = 1 << 18  # numbers of a kind prepared at a time: they stay in the processor's cache


def can_stack(setting: Setting) -> bool:
    """Whether `train_stack` gives what training one by one gives: a layered network, at most a pull on its steps."""
    if not isinstance(setting.task.network.module, Mlp) or setting.federation.dataset.augment != "none":
        return False
    algorithm, initial = setting.method.algorithm, setting.task.initial
    if not setting.federation.is_sparse or not setting.is_affine:
        return setting.is_affine
    server = Server(initial, algorithm.extras(initial), {}, 0, len(setting.federation.parties), {})
    pull = algorithm.pull(server, algorithm.memory(initial))
    return not pull.strength and pull.linear is None  # these move every column in every step


def train_stack(here: LocalRound, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """The replies of some parties, trained together; `memory` says which, and what they keep.

    Where all that is asked for is their sum, they are one reply.
    """
    watch, method = Stopwatch(), here.setting.method
    parties = sorted(memory, key=lambda party: -here.setting.solver.count(here.party(party).samples))
    members = [_Member.of(here, party, memory[party]) for party in parties]
    with torch.no_grad():
        trained = _walk(here, members)
    watch.lap("train")
    summed = method.aggregate is total
    if sends_deltas_alone(method):
        return [_sum_of_deltas(members, trained, watch)]
    of_a_step = watch.laps["train"] / sum(trained.steps)
    replies = []
    for place, member in enumerate(members):
        party, spent = member.problem.party.id, of_a_step * trained.steps[place]
        local, momentum = trained.local(place, member, here.setting.solver)
        buffers = here.server.buffers
        replies.append(here.reply(party, memory[party], member.own, local, momentum, buffers, Stopwatch(spent)))
    return [reduce(add, replies)] if summed else replies


def _sum_of_deltas(members: Sequence["_Member"], trained: "_Trained", watch: Stopwatch) -> Reply:
    """FedAvg's messages, all at once."""
    weights = [float(member.problem.party.samples) for member in members]
    delta = trained.sum_of_deltas(members, weights)
    loss = sum(loss * weight for loss, weight in zip(trained.losses, weights, strict=True))
    owns = {member.problem.party.id: member.own for member in members}
    watch.lap("message")
    seconds = watch.laps["train"] + watch.laps["message"]
    return reply_of_deltas(delta, sum(weights), owns, loss, sum(trained.steps), seconds)


@dataclass(frozen=True)
class _Trained:
    """A stack after its last step; by party the mean loss and the number of steps."""

    stack: "_Stack"
    finished: "dict[int, _Vectors]"  # by the place of the first of the parties that took so many steps
    losses: list[float]
    steps: list[int]

    def local(self, place: int, member: "_Member", solver: Solver) -> tuple[Local, Memory]:
        """What came of one party's training, and the momentum it keeps."""
        params, velocity = self._vectors_of(place)
        columns = self.stack.columns
        end = params if columns is None else torch.cat([columns.weights_of(place), params])
        local = solver.local(member.problem, member.start, end, self.steps[place], self.stack.lr, self.losses[place])
        if not solver.keep_momentum:
            return local, {}
        return local, {"momentum": velocity if columns is None else torch.cat([columns.velocity_of(place), velocity])}

    def _vectors_of(self, place: int) -> tuple[Vector, Vector]:
        """A party's parameters and velocity, but for columns kept apart."""
        begin = max(first for first in self.finished if first <= place)
        own, at_place = self.finished[begin], slice(place - begin, place - begin + 1)
        parts = (some_of(flat, own.count, self.stack.layout, at_place) for flat in (own.params, own.velocity))
        params, velocity = (rows_of(part, 1, self.stack.layout)[0] for part in parts)
        return params, velocity

    def sum_of_deltas(self, members: "Sequence[_Member]", weights: Sequence[float]) -> Vector:
        """Σ weight · (end - start)."""
        stack, found = self.stack, []
        for begin, own in self.finished.items():
            group = slice(begin, begin + own.count)
            starts = _rows([member.start for member in members[group]], stack.layout)
            found.append(sum_of_deltas(own.params, starts, weights[group], stack.layout))
        delta = reduce(torch.add, found)
        return delta if stack.columns is None else torch.cat([stack.columns.sum_of_deltas(weights), delta])


@dataclass(frozen=True)
class _Member:
    """One party of a stack, before its first step."""

    problem: Problem
    own: Memory  # the algorithm's
    start: Vector
    velocity: Vector | None  # None for zero
    pull: Pull

    @classmethod
    def of(cls, here: LocalRound, party: int, memory: PartyMemory) -> "_Member":
        own = here.own(memory)
        start, velocity = here.setting.method.algorithm.start(here.server, own), memory.get("solver", {})
        return cls(here.problem(party), own, start, velocity.get("momentum"), here.pull(own))


@dataclass(frozen=True)
class _Schedule:
    """Which rows the parties visit: step by step, the parties that still work first."""

    rows: Tensor  # [steps, parties, batch]
    weights: Tensor  # [steps, parties, 1, batch]: one over the size of the batch, 0 where it is filled up
    steps: list[int]  # by party
    active: list[int]  # by step: how many parties still work

    @classmethod
    def of(cls, here: LocalRound, members: Sequence[_Member]) -> "_Schedule":
        orders = [here.setting.solver.order(member.problem, here.server.round) for member in members]
        width, steps = max(max(sizes) for _, sizes in orders), [len(sizes) for _, sizes in orders]
        weights = torch.full((steps[0], len(orders), 1, width), 1 / width)
        if all(order.numel() == steps[0] * width for order, _ in orders):  # nothing to fill up
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
        """Runs of steps (begin, end, active) with the same parties at work, and so many numbers for each row."""
        found, begin = [], 0
        for step, count in enumerate(self.active):
            most = max(1, _WINDOW // (count * self.rows.shape[2] * numbers))
            last = step + 1 == len(self.active)
            if last or self.active[step + 1] != count or step + 1 - begin >= most:
                found.append((begin, step + 1, count))
                begin = step + 1
        return found


def _walk(here: LocalRound, members: Sequence[_Member]) -> _Trained:
    """Every step of every party."""
    federation, schedule = here.setting.federation, _Schedule.of(here, members)
    classes = len(federation.dataset.classes)
    stack = _Stack(here, members, schedule)
    prefix, losses = _Prefix(stack, _Vectors.of(members, stack)), torch.zeros(len(members))
    finished: dict[int, _Vectors] = {}
    numbers = max(classes, federation.numbers_in_a_row if stack.columns else 0)  # dense rows come step by step
    for begin, end, count in schedule.windows(numbers):
        rows, weights = schedule.rows[begin:end, :count], schedule.weights[begin:end, :count]
        x = _inputs(stack, federation, rows, begin)
        goals = torch.zeros(*rows.shape[:2], classes, rows.shape[2])
        labels = federation.y.index_select(0, rows.reshape(-1)).view(rows.shape)
        goals.scatter_(2, labels.unsqueeze(2), -weights)
        logits = torch.empty_like(goals)
        if count < prefix.vectors.count:
            finished[count] = prefix.vectors.some(slice(count, None), stack.layout)
            prefix = _Prefix(stack, prefix.vectors.some(slice(count), stack.layout))
        for batch in zip(x, goals, weights, logits, strict=True):  # step by step
            prefix.backward(*batch)
            prefix.descend()
        losses[:count] += (torch.log_softmax(logits, 2) * goals).sum((0, 2, 3))
    finished[0] = prefix.vectors
    means = [loss / steps for loss, steps in zip(losses.tolist(), schedule.steps, strict=True)]
    return _Trained(stack, finished, means, schedule.steps)


def _inputs(stack: "_Stack", federation: Federation, rows: Tensor, begin: int) -> Iterator[Any]:
    """The rows of some steps, [steps, parties, batch], step by step."""
    x = federation.x
    if not isinstance(x, Tensor):
        assert stack.columns is not None
        return stack.columns.batches(SparseRows.of(x, rows, begin))
    return _dense_inputs(x, rows)


def _dense_inputs(x: Tensor, rows: Tensor) -> Iterator[Tensor]:
    """[parties, batch, features], in the same place for each step; with a last feature of 1, for the bias."""
    values = torch.ones(*rows.shape[1:], x[0].numel() + 1)
    features = values.flatten(0, 1)[:, :-1]
    for step in rows.flatten(1):
        fill_input(x, step, features)
        yield values


class _Stack:
    """What is the same in all steps of a stack. Where rows are sparse, `columns` are the first layer's weights."""

    def __init__(self, here: LocalRound, members: Sequence[_Member], schedule: _Schedule):
        solver, x = here.setting.solver, here.setting.federation.x
        self.lr, self.momentum, self.decay = at(solver.lr, here.server), solver.momentum, solver.weight_decay
        self.batch = schedule.rows.shape[2]
        self.layout = layout = here.setting.task.network.layout  # of what flat vectors hold
        self.columns: Columns | None = None
        if not isinstance(x, Tensor):
            cut = layout.shapes[0].numel()
            self.layout = Layout(layout.names[1:], layout.shapes[1:], layout.trainable - cut)
            rule = Rule(self.lr, self.momentum, self.decay)
            self.columns = Columns([_first(member, cut) for member in members], x.shape[1], rule, schedule.steps)


@dataclass(frozen=True)
class _Vectors:
    """What parties have, each of it one flat array (see `blocks`)."""

    count: int
    params: Tensor
    velocity: Tensor
    lean: Tensor | float  # what of its parameters is added to a party's gradient
    constant: Tensor | None  # what else is
    drift: Tensor | None

    @classmethod
    def of(cls, members: Sequence[_Member], stack: _Stack) -> "_Vectors":
        layout, pulls = stack.layout, [member.pull for member in members]
        params = _flat([member.start for member in members], layout)
        velocity = _flat([member.velocity for member in members], layout)
        strengths = [pull.strength for pull in pulls]
        lean: Tensor | float = stack.decay + strengths[0]
        if any(strength != strengths[0] for strength in strengths):
            lean = _flat([torch.full((layout.trainable,), stack.decay + strength) for strength in strengths], layout)
        constant = _flat_or_none([_constant(pull) for pull in pulls], layout)
        drift = _flat_or_none([pull.drift for pull in pulls], layout)
        return cls(len(members), params, velocity, lean, constant, drift)

    def some(self, places: slice, layout: Layout) -> "_Vectors":
        """Those of some of the parties."""

        def taken(flat: Tensor) -> Tensor:
            return some_of(flat, self.count, layout, places)

        lean = taken(self.lean) if isinstance(self.lean, Tensor) else self.lean
        constant, drift = (None if flat is None else taken(flat) for flat in (self.constant, self.drift))
        count = len(range(self.count)[places])
        return _Vectors(count, taken(self.params), taken(self.velocity), lean, constant, drift)


def _constant(pull: Pull) -> Vector | None:
    """What a pull adds to every gradient, wherever the parameters are."""
    if not pull.strength or pull.anchor is None:
        return pull.linear
    return -pull.strength * pull.anchor if pull.linear is None else pull.linear - pull.strength * pull.anchor


def _flat_or_none(vectors: Sequence[Vector | None], layout: Layout) -> Tensor | None:
    return None if all(vector is None for vector in vectors) else _flat(vectors, layout)


def _flat(vectors: Sequence[Vector | None], layout: Layout) -> Tensor:
    """What a layout holds of vectors, as one flat array; None for zeros."""
    if all(vector is None for vector in vectors):
        return torch.zeros(len(vectors) * layout.trainable)
    zeros = torch.zeros(layout.trainable)
    return flattened(_rows([zeros if vector is None else vector for vector in vectors], layout), layout)


def _rows(vectors: Sequence[Vector], layout: Layout) -> Vector:
    """What a layout holds of vectors, [parties, d]; one vector for all, as starts are as a rule, is not copied."""
    same = all(vector.data_ptr() == vectors[0].data_ptr() for vector in vectors)
    rows = vectors[0].expand(len(vectors), -1) if same else torch.stack(list(vectors))
    return rows[:, -layout.trainable :]


def _first(member: _Member, cut: int) -> tuple[Vector, Vector | None, Vector | None]:
    """What concerns the first layer's weights: themselves, their velocity and drift."""
    velocity, drift = (None if vector is None else vector[:cut] for vector in (member.velocity, member.pull.drift))
    return member.start[:cut], velocity, drift


class _Prefix:
    """The parties of a stack that are still at work: one step forward, backward and down for all of them.

    Each vector is one flat array of blocks (see `blocks`), which is what a batched product wants, and
    the solver's step is still one operation. A block's last column is a bias, to go with values that have a last
    feature of 1. Values have features before rows.
    """

    def __init__(self, stack: _Stack, vectors: _Vectors):
        self.stack, self.vectors, self.columns, count = stack, vectors, stack.columns, vectors.count
        layers, sums = (blocks(flat, count, stack.layout) for flat in (vectors.params, vectors.velocity))
        self.first, self.first_sums = layers[0], sums[0]  # gradients are added to the velocity as they come
        self.ones = torch.ones(count, 1, stack.batch)
        values = [torch.ones(count, layer.shape[2], stack.batch) for layer in layers[1:]]
        self.hidden = [of_layer[:, :-1] for of_layer in values]
        self.forth = list(zip(self.hidden, layers[1:], values, strict=True))
        turned = [layer[:, :, :-1].mT for layer in layers[1:]]  # as errors go back through them: without the bias
        self.back = list(zip(sums[1:], [v.mT for v in values], turned, self.hidden, strict=True))[::-1]

    def backward(self, x: Any, goal: Tensor, weight: Tensor, logits: Tensor) -> None:
        """Add up gradients and fill `logits`; `goal` is minus the row's weight at its class, and 0 at the others."""
        out = self._first_product(x, None if self.forth else logits)
        for hidden, layer, values in self.forth:
            torch.clamp_min(out, 0, out=hidden)
            out = torch.bmm(layer, values, out=logits if hidden is self.hidden[-1] else None)
        error = torch.addcmul(goal, torch.softmax(logits, 1), weight)
        for sums, values, turned, hidden in self.back:
            sums.baddbmm_(error, values, beta=self.stack.momentum)
            error = torch.ops.aten.threshold_backward(torch.bmm(turned, error), hidden, 0)
        if self.columns is None:
            self.first_sums.baddbmm_(error, x, beta=self.stack.momentum)
        else:
            self.first_sums.baddbmm_(error, self.ones.mT, beta=self.stack.momentum)
            self.columns.descend(error.mT.reshape(-1, error.shape[1]))

    def _first_product(self, x: Any, out: Tensor | None) -> Tensor:
        """What the first layer makes of the rows, [parties, outputs, rows]."""
        if self.columns is None:
            return torch.bmm(self.first, x.mT, out=out)
        bias = self.first  # all that is left of the layer
        return torch.add(self.columns.product(x).view(len(bias), -1, bias.shape[1]).mT, bias, out=out)

    def descend(self) -> None:
        """The solver's step on flat vectors, as `Solver.train` takes it."""
        stack, here = self.stack, self.vectors
        if isinstance(here.lean, Tensor):
            here.velocity.addcmul_(here.params, here.lean)
        elif here.lean:
            here.velocity.add_(here.params, alpha=here.lean)
        if here.constant is not None:
            here.velocity.add_(here.constant)
        here.params.add_(here.velocity, alpha=-stack.lr)
        if here.drift is not None:
            here.params.add_(here.drift, alpha=-stack.lr)
