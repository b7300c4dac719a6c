"""The first layer of many parties on sparse rows: a step costs what its rows hold, however wide the layer is.

With momentum and weight decay every weight moves in every step, whether a row of the batch touches it or not. But a
weight that is not touched follows a fixed linear rule. So gradients are added up in coordinates in which that rule
moves nothing, at the columns of a step's rows alone; what a weight is after any number of steps follows from its two
sums and a few numbers that are the same for all weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse._sparsetools import csc_matvecs  # scipy's own loop: nothing public adds a product in place
from torch import Tensor

from silobench.method.types import Vector

_NO_MOMENTUM = 1e-12  # less is lost in rounding
_SKEW = 1000.0  # of coordinates, by which they make rounding coarser: that of a momentum of 0.998
_RANGE = 1e20  # of numbers that scale sums; float32 ends at 1e38
_LINES = 4096  # of a table that are added up at a time


@dataclass(frozen=True)
class Rule:
    """SGD's step: v ← momentum · v + gradient + decay · w, then w ← w - lr · (v + drift)."""

    lr: float
    momentum: float
    decay: float

    @property
    def idle(self) -> NDArray[np.float64]:
        """What a step without gradient and drift makes of (w, v)."""
        return np.array([[1 - self.lr * self.decay, -self.lr * self.momentum], [self.decay, self.momentum]])


@dataclass(frozen=True)
class Coordinates:
    """How (w, v) after t steps follows from what a party was given (w₀, v₀ and drift) and sums of gradients.

    (w, v) = Σ given[:, t] · (w₀, v₀, drift) + seen[t - 1 - base] · sums. A gradient of step t goes into the sums by
    added[t - base], and they stay as they are in between; but each time `period` steps are over and the base moves
    on to t, they are multiplied by `renewal` first.
    """

    given: NDArray[np.float64]  # [3, steps + 1, 2]
    seen: NDArray[np.float64]  # [period, 2, sums]
    added: NDArray[np.float64]  # [period, sums]
    renewal: NDArray[np.float64]  # [sums, sums]

    @classmethod
    @np.errstate(all="ignore")  # a rate that diverges does so in any arithmetic
    def of(cls, rule: Rule, steps: int) -> "Coordinates":
        given = [np.eye(3, 2)]
        for _ in range(steps):
            given.append(given[-1] @ rule.idle.T - [[0, 0], [0, 0], [rule.lr, 0]])
        basis, idle, period = _basis(rule, steps)
        gradient = np.linalg.pinv(basis) @ [-rule.lr, 1.0]
        powers = [np.linalg.matrix_power(idle, step) for step in range(period + 1)]
        seen = np.stack([basis @ power for power in powers[:-1]])
        added = np.stack([np.linalg.solve(power, gradient) for power in powers[:-1]])
        return cls(np.stack(given, 1), seen, added, powers[-1])

    @property
    def period(self) -> int:
        return len(self.added)

    @property
    def sums(self) -> int:
        return len(self.renewal)


_coordinates = lru_cache(maxsize=8)(Coordinates.of)  # as a rule the same in every round


def _basis(rule: Rule, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Vectors (w, v) that sums count, how an idle step moves the sums, and the steps until they must be renewed."""
    if rule.momentum < _NO_MOMENTUM:
        basis, values = np.array([[1.0], [0.0]]), rule.idle[0, :1]  # no step asks for the velocity before it
    else:
        values, basis = np.linalg.eig(rule.idle)
        by_rate = basis * [[1.0], [rule.lr or 1.0]]
        if np.iscomplexobj(basis) or not np.linalg.cond(by_rate / np.linalg.norm(by_rate, axis=0)) < _SKEW:
            return np.eye(2), rule.idle, 1
    shrinks = -np.log10(np.abs(values).min())  # by so many digits a step
    period = min(steps, int(np.log10(_RANGE) / shrinks)) if shrinks > 0 else steps
    return basis, np.diag(values), max(1, period)


@dataclass(frozen=True)
class SparseBatch:
    """The rows of one step, columns numbered through the parties."""

    step: int
    parties: int
    given: Tensor  # [rows, outputs]: what weights without any gradient would give
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    starts: NDArray[np.int32]  # of every row, and the end


@dataclass(frozen=True)
class SparseRows:
    """The rows of some steps of all parties at work, [steps, parties, batch]."""

    begin: int  # the first step
    shape: tuple[int, int, int]
    own: NDArray[np.int32]  # column of each entry
    columns: NDArray[np.int32]  # the same, numbered through the parties
    values: NDArray[np.float32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, x: "sparse.csr_matrix", rows: Tensor, begin: int) -> "SparseRows":
        steps, parties, batch = rows.shape
        part = x[rows.reshape(-1).numpy()]
        place = np.arange(rows.numel(), dtype=np.int32) // batch % parties
        own, starts = part.indices.astype(np.int32, copy=False), part.indptr.astype(np.int32, copy=False)
        columns = own + np.repeat(place * np.int32(x.shape[1]), np.diff(starts))
        return cls(begin, (steps, parties, batch), own, columns, part.data, starts)


class Columns:
    """First-layer weights of a stack of parties as tables, a line for each column of each party."""

    def __init__(
        self,
        members: Sequence[tuple[Vector, Vector | None, Vector | None]],
        inputs: int,
        rule: Rule,
        steps: Sequence[int],
    ):
        """By party: the first layer's weights, their velocity (None for zero) and drift; and its steps."""
        self.inputs, self.outputs, self.steps = inputs, len(members[0][0]) // inputs, steps
        self.coordinates = _coordinates(rule, max(steps))
        tables = [self._table(vectors) for vectors in zip(*members, strict=True)]
        self.given = [(t, weights) for t, weights in zip(tables, self.coordinates.given, strict=True) if t is not None]
        self.sums = torch.zeros(len(members) * inputs, self.coordinates.sums * self.outputs)
        self.base = [0] * len(members)

    def batches(self, rows: SparseRows) -> Iterator[SparseBatch]:
        """Step by step."""
        steps, parties, batch = rows.shape
        given = self._given(rows).view(steps, parties * batch, self.outputs)
        for step in range(steps):
            starts = rows.starts[step * parties * batch : (step + 1) * parties * batch + 1]
            entries = slice(starts[0], starts[-1])
            found = rows.columns[entries], rows.values[entries], starts - starts[0]
            yield SparseBatch(rows.begin + step, parties, given[step], *found)

    def _given(self, rows: SparseRows) -> Tensor:
        """What weights would give on rows, [steps, ...], had they moved without any gradient."""
        found = torch.zeros(())
        for table, weights in self.given:
            columns = rows.own if len(table) == self.inputs else rows.columns
            product = _product(columns, rows.values, rows.starts, table).view(rows.shape[0], -1)
            of_step = torch.from_numpy(weights[rows.begin : rows.begin + rows.shape[0], 0].astype(np.float32))
            found = found + product.mul_(of_step.unsqueeze(1))
        return found

    def product(self, batch: SparseBatch) -> Tensor:
        """Rows times weights, [rows, outputs]."""
        self._batch = batch
        parts = _product(batch.columns, batch.values, batch.starts, self.sums).split(self.outputs, 1)
        for part, weight in zip(parts, self._seen(0, batch.step)[0].tolist(), strict=True):
            batch.given.add_(part, alpha=weight)
        return batch.given

    def descend(self, error: Tensor) -> None:
        """One step along the gradient; `error` is that of what `product` gave."""
        batch = self._batch
        if batch.step - self.base[0] == self.coordinates.period:
            self._renew(batch)
        weights = torch.from_numpy(self.coordinates.added[batch.step - self.base[0]].astype(np.float32))
        errors = (error.unsqueeze(1) * weights.unsqueeze(1)).flatten(1)
        dense = errors.numpy().reshape(-1), self.sums.numpy().reshape(-1)
        shape = len(self.sums), len(errors), errors.shape[1]
        csc_matvecs(*shape, batch.starts, batch.columns, batch.values, *dense)  # rows, turned, times errors

    def _renew(self, batch: SparseBatch) -> None:
        """The sums of parties at work; those of others are read as they were left."""
        renewal = torch.from_numpy(self.coordinates.renewal.astype(np.float32))
        for lines in self.sums[: batch.parties * self.inputs].unflatten(1, (-1, self.outputs)).split(_LINES):
            lines.copy_(torch.einsum("ij,ljo->lio", renewal, lines))
        self.base[: batch.parties] = [batch.step] * batch.parties

    def _seen(self, place: int, step: int) -> NDArray[np.float64]:
        seen: NDArray[np.float64] = self.coordinates.seen[max(0, step - 1 - self.base[place])]  # at first sums are 0
        return seen

    def weights_of(self, place: int) -> Vector:
        """Of one party, after its last step."""
        return self._sum([(place, self._shares(place)[0])])

    def velocity_of(self, place: int) -> Vector:
        """The same; without momentum, where nothing depends on it, not the gradient's part."""
        return self._sum([(place, self._shares(place)[1])])

    def sum_of_deltas(self, weights: Sequence[float]) -> Vector:
        """Σ weight · (end - start)."""
        start = np.eye(1, len(self.given) + self.coordinates.sums)[0]
        return self._sum([(place, weight * (self._shares(place)[0] - start)) for place, weight in enumerate(weights)])

    def _shares(self, place: int) -> NDArray[np.float64]:
        """How tables enter a party's weights and velocity after its last step: [2, given and sums]."""
        step = self.steps[place]
        return np.column_stack([*(weights[step] for _, weights in self.given), self._seen(place, step)])

    def _sum(self, terms: Sequence[tuple[int, NDArray[np.float64]]]) -> Vector:
        """The tables of parties by their shares, added up; some lines at a time, which stay in the cache."""
        found = torch.zeros(self.inputs, self.outputs)
        for begin in range(0, self.inputs, _LINES):
            for place, shares in terms:
                for part, share in zip(self._parts(place, begin), shares.tolist(), strict=True):
                    if share:
                        found[begin : begin + _LINES].add_(part, alpha=share)
        return found.T.reshape(-1)

    def _parts(self, place: int, begin: int) -> list[Tensor]:
        """Some lines of a party in each table."""
        end = min(begin + _LINES, self.inputs)
        tables = [*(table for table, _ in self.given), self.sums]
        first = [0 if len(table) == self.inputs else place * self.inputs for table in tables]
        *given, sums = (table[line + begin : line + end] for table, line in zip(tables, first, strict=True))
        return [*given, *sums.split(self.outputs, 1)]

    def _table(self, vectors: Sequence[Vector | None]) -> Tensor | None:
        """Vectors [outputs x columns] as a line for each column: once, where parties have the same; None for zeros."""
        places = {None if vector is None else vector.data_ptr() for vector in vectors}
        if places == {None}:
            return None
        different = vectors if len(places) > 1 else vectors[:1]
        zeros = torch.zeros(self.inputs, self.outputs)
        return torch.cat([zeros if v is None else v.view(self.outputs, self.inputs).T for v in different])


def _product(
    columns: NDArray[np.int32], values: NDArray[np.float32], starts: NDArray[np.int32], dense: Tensor
) -> Tensor:
    """Sparse rows times a table: of each row the sum of its lines."""
    indices, offsets, weights = (torch.from_numpy(part) for part in (columns, starts[:-1], values))
    return F.embedding_bag(indices, dense, offsets, mode="sum", per_sample_weights=weights)
