"""Train many parties as one batched computation: linear and fully connected networks, backward pass by hand.

The parties are the leading axis of every array. They are ordered by their number of steps, so the active parties are
always a prefix and nothing is computed for parties that have finished. A batch that is shorter than the longest one of
its step is padded with rows of weight 0.

Dense rows go through batched products. Sparse rows (CSR) never become dense: `sparse` stores the first layer as tables
of columns and updates only the columns of a step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from silobench.engines.stacks.blocks import blocks, flattened, rows_of, some_of, sum_of_deltas
from silobench.engines.stacks.members import Member, Schedule
from silobench.engines.stacks.replies import train_together
from silobench.engines.stacks.sparse import Columns, Rule, SparseRows
from silobench.federation import Federation, fill_input
from silobench.method.solvers import Solver
from silobench.method.types import Layout, Local, Memory, Pull, Server, Vector, at
from silobench.models.architectures import Mlp
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply


def can_stack(setting: Setting) -> bool:
    """Whether `train_stack` supports this network, its rows and the algorithm's correction."""
    if not isinstance(setting.task.network.module, Mlp) or setting.federation.dataset.augment != "none":
        return False
    algorithm, initial = setting.method.algorithm, setting.task.initial
    if not setting.federation.is_sparse or not setting.is_affine:
        return setting.is_affine
    server = Server(initial, algorithm.extras(initial), {}, 0, len(setting.federation.parties), {})
    pull = algorithm.pull(server, algorithm.memory(initial))
    return not pull.strength and pull.linear is None  # both would move every column in every step


def train_stack(local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """Train the parties in `memory` as one stack; return their replies, as one reply if only their sum is needed."""
    return train_together(local_round, memory, _walk)


@dataclass(frozen=True)
class _Trained:
    """A stack after its last step, with the mean loss and the number of steps of each party."""

    stack: "_Stack"
    finished: "dict[int, _Vectors]"  # by the place of the first party of each group
    losses: list[float]
    steps: list[int]

    def local(self, place: int, member: "Member", solver: Solver) -> tuple[Local, Memory]:
        """Return the result of one party's training, and the momentum that it keeps."""
        params, velocity = self._vectors_of(place)
        columns = self.stack.columns
        end = params if columns is None else torch.cat([columns.weights_of(place), params])
        local = solver.local(member.problem, member.start, end, self.steps[place], self.stack.lr, self.losses[place])
        if not solver.keep_momentum:
            return local, {}
        return local, {"momentum": velocity if columns is None else torch.cat([columns.velocity_of(place), velocity])}

    def _vectors_of(self, place: int) -> tuple[Vector, Vector]:
        """Return a party's parameters and velocity, without sparse columns."""
        begin = max(first for first in self.finished if first <= place)
        group, at_place = self.finished[begin], slice(place - begin, place - begin + 1)
        parts = (some_of(flat, group.count, self.stack.layout, at_place) for flat in (group.params, group.velocity))
        params, velocity = (rows_of(part, 1, self.stack.layout)[0] for part in parts)
        return params, velocity

    def sum_of_deltas(self, members: "Sequence[Member]", weights: Sequence[float]) -> Vector:
        """Return Σ weight · (end - start) over the parties."""
        stack, sums = self.stack, []
        for begin, group in self.finished.items():
            places = slice(begin, begin + group.count)
            starts = _rows([member.start for member in members[places]], stack.layout)
            sums.append(sum_of_deltas(group.params, starts, weights[places], stack.layout))
        delta = reduce(torch.add, sums)
        return delta if stack.columns is None else torch.cat([stack.columns.sum_of_deltas(weights), delta])


def _walk(local_round: LocalRound, members: Sequence[Member]) -> _Trained:
    """Take every step of every party."""
    federation, schedule = local_round.setting.federation, Schedule.of(local_round, members)
    classes = len(federation.dataset.classes)
    stack = _Stack(local_round, members, schedule)
    prefix, losses = _Prefix(stack, _Vectors.of(members, stack)), torch.zeros(len(members))
    finished: dict[int, _Vectors] = {}
    numbers = max(classes, federation.numbers_per_row if stack.columns else 0)  # dense rows are read step by step
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
        for batch in zip(x, goals, weights, logits, strict=True):
            prefix.backward(*batch)
            prefix.descend()
        losses[:count] += (torch.log_softmax(logits, 2) * goals).sum((0, 2, 3))
    finished[0] = prefix.vectors
    means = [loss / steps for loss, steps in zip(losses.tolist(), schedule.steps, strict=True)]
    return _Trained(stack, finished, means, schedule.steps)


def _inputs(stack: "_Stack", federation: Federation, rows: Tensor, begin: int) -> Iterator[Any]:
    """Yield the inputs of each step; `rows` is [steps, parties, batch]."""
    x = federation.x
    if not isinstance(x, Tensor):
        assert stack.columns is not None
        return stack.columns.batches(SparseRows.of(x, rows, begin))
    return _dense_inputs(x, rows)


def _dense_inputs(x: Tensor, rows: Tensor) -> Iterator[Tensor]:
    """Yield [parties, batch, features], in the same memory for each step, with a last feature of 1 for the bias."""
    values = torch.ones(*rows.shape[1:], x[0].numel() + 1)
    features = values.flatten(0, 1)[:, :-1]
    for step in rows.flatten(1):
        fill_input(x, step, features)
        yield values


class _Stack:
    """The constants of a stack. For sparse rows, `columns` has the first layer's weights."""

    def __init__(self, local_round: LocalRound, members: Sequence[Member], schedule: Schedule):
        setting, server = local_round.setting, local_round.server
        solver, x = setting.solver, setting.federation.x
        self.lr, self.momentum, self.decay = at(solver.lr, server), solver.momentum, solver.weight_decay
        self.batch = schedule.rows.shape[2]
        self.layout = layout = setting.task.network.layout  # of the flat vectors, so without sparse columns
        self.columns: Columns | None = None
        if not isinstance(x, Tensor):
            cut = layout.shapes[0].numel()
            self.layout = Layout(layout.names[1:], layout.shapes[1:], layout.trainable - cut)
            rule = Rule(self.lr, self.momentum, self.decay)
            self.columns = Columns([_first(member, cut) for member in members], x.shape[1], rule, schedule.steps)


@dataclass(frozen=True)
class _Vectors:
    """The vectors of some parties, each as one flat array (see `blocks`)."""

    count: int
    params: Tensor
    velocity: Tensor
    lean: Tensor | float  # factor of a party's parameters in its gradient: decay and strength of the pull
    constant: Tensor | None  # added to a party's gradient
    drift: Tensor | None

    @classmethod
    def of(cls, members: Sequence[Member], stack: _Stack) -> "_Vectors":
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
        """Return the vectors of some of the parties."""

        def taken(flat: Tensor) -> Tensor:
            return some_of(flat, self.count, layout, places)

        lean = taken(self.lean) if isinstance(self.lean, Tensor) else self.lean
        constant, drift = (None if flat is None else taken(flat) for flat in (self.constant, self.drift))
        count = len(range(self.count)[places])
        return _Vectors(count, taken(self.params), taken(self.velocity), lean, constant, drift)


def _constant(pull: Pull) -> Vector | None:
    """Return the part of a pull that does not depend on the parameters."""
    if not pull.strength or pull.anchor is None:
        return pull.linear
    return -pull.strength * pull.anchor if pull.linear is None else pull.linear - pull.strength * pull.anchor


def _flat_or_none(vectors: Sequence[Vector | None], layout: Layout) -> Tensor | None:
    return None if all(vector is None for vector in vectors) else _flat(vectors, layout)


def _flat(vectors: Sequence[Vector | None], layout: Layout) -> Tensor:
    """Return vectors (None for zeros), cut to the layout, as one flat array."""
    if all(vector is None for vector in vectors):
        return torch.zeros(len(vectors) * layout.trainable)
    zeros = torch.zeros(layout.trainable)
    return flattened(_rows([zeros if vector is None else vector for vector in vectors], layout), layout)


def _rows(vectors: Sequence[Vector], layout: Layout) -> Vector:
    """Return vectors, cut to the layout, as [parties, d]; one vector for all, the usual start, is not copied."""
    same = all(vector.data_ptr() == vectors[0].data_ptr() for vector in vectors)
    rows = vectors[0].expand(len(vectors), -1) if same else torch.stack(list(vectors))
    return rows[:, -layout.trainable :]


def _first(member: Member, cut: int) -> tuple[Vector, Vector | None, Vector | None]:
    """Return the first layer's weights, their velocity and their drift."""
    velocity, drift = (None if vector is None else vector[:cut] for vector in (member.velocity, member.pull.drift))
    return member.start[:cut], velocity, drift


class _Prefix:
    """The active parties of a stack: one forward pass, backward pass and solver step for all of them.

    Each vector is one flat array of blocks (see `blocks`), so that batched products read it in place and the solver's
    step is still one operation. A block's last column is the bias, and values have a last feature of 1 for it. Values
    have the features before the rows.
    """

    def __init__(self, stack: _Stack, vectors: _Vectors):
        self.stack, self.vectors, self.columns, count = stack, vectors, stack.columns, vectors.count
        layers, sums = (blocks(flat, count, stack.layout) for flat in (vectors.params, vectors.velocity))
        self.first, self.first_sums = layers[0], sums[0]  # gradients are added to the velocity directly
        self.ones = torch.ones(count, 1, stack.batch)
        values = [torch.ones(count, layer.shape[2], stack.batch) for layer in layers[1:]]
        self.hidden = [of_layer[:, :-1] for of_layer in values]
        self.forward_layers = list(zip(self.hidden, layers[1:], values, strict=True))
        transposed = [layer[:, :, :-1].mT for layer in layers[1:]]  # without the bias
        self.backward_layers = list(zip(sums[1:], [v.mT for v in values], transposed, self.hidden, strict=True))[::-1]

    def backward(self, x: Any, goal: Tensor, weight: Tensor, logits: Tensor) -> None:
        """Add gradients to the velocity and fill `logits`; `goal` is minus the row's weight at its class, else 0."""
        out = self._first_product(x, None if self.forward_layers else logits)
        for hidden, layer, values in self.forward_layers:
            torch.clamp_min(out, 0, out=hidden)
            out = torch.bmm(layer, values, out=logits if hidden is self.hidden[-1] else None)
        error = torch.addcmul(goal, torch.softmax(logits, 1), weight)
        for sums, values, transposed, hidden in self.backward_layers:
            sums.baddbmm_(error, values, beta=self.stack.momentum)
            error = torch.ops.aten.threshold_backward(torch.bmm(transposed, error), hidden, 0)
        if self.columns is None:
            self.first_sums.baddbmm_(error, x, beta=self.stack.momentum)
        else:
            self.first_sums.baddbmm_(error, self.ones.mT, beta=self.stack.momentum)
            self.columns.descend(error.mT.reshape(-1, error.shape[1]))

    def _first_product(self, x: Any, out: Tensor | None) -> Tensor:
        """Return the outputs of the first layer, [parties, outputs, rows]."""
        if self.columns is None:
            return torch.bmm(self.first, x.mT, out=out)
        bias = self.first  # `columns` has the weights
        return torch.add(self.columns.product(x).view(len(bias), -1, bias.shape[1]).mT, bias, out=out)

    def descend(self) -> None:
        """Take the step of `Solver.train` on flat vectors."""
        stack, vectors = self.stack, self.vectors
        if isinstance(vectors.lean, Tensor):
            vectors.velocity.addcmul_(vectors.params, vectors.lean)
        elif vectors.lean:
            vectors.velocity.add_(vectors.params, alpha=vectors.lean)
        if vectors.constant is not None:
            vectors.velocity.add_(vectors.constant)
        vectors.params.add_(vectors.velocity, alpha=-stack.lr)
        if vectors.drift is not None:
            vectors.params.add_(vectors.drift, alpha=-stack.lr)
