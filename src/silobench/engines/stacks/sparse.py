"""The first layer of many parties on sparse rows: the cost of a step depends on the entries of its rows only.

With momentum and weight decay every weight moves in every step, even if no row of the batch has its column. Such a
weight follows a fixed linear rule. So gradients are summed in coordinates that this rule leaves unchanged, and only the
columns of the batch are touched. A weight after any number of steps follows from its two sums and a few numbers that
are the same for all weights.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse._sparsetools import csc_matvecs  # private, because no public function adds a product in place
from torch import Tensor

from silobench.method.types import Vector

_NO_MOMENTUM = 1e-12  # a smaller one is lost in rounding
_SKEW = 1000.0  # largest condition number of the coordinates, reached at a momentum of 0.998
_RANGE = 1e20  # largest ratio of the factors that scale sums; float32 ends at 1e38
_LINES = 4096  # of a table, added at a time so that they stay in the cache


@dataclass(frozen=True)
class Rule:
    """SGD's step: v ← momentum · v + gradient + decay · w, then w ← w - lr · (v + drift)."""

    lr: float
    momentum: float
    decay: float

    @property
    def idle(self) -> NDArray[np.float64]:
        """The matrix that maps (w, v) to its value after a step without gradient and drift."""
        return np.array([[1 - self.lr * self.decay, -self.lr * self.momentum], [self.decay, self.momentum]])


@dataclass(frozen=True)
class Coordinates:
    """Factors that give (w, v) after t steps from the initial values (w₀, v₀, drift) and sums of gradients.

    (w, v) = Σ initial[:, t] · (w₀, v₀, drift) + readout[t - 1 - base] · sums. The gradient of step t is added to the
    sums by the factors added[t - base]. Every `period` steps the base moves to t and the sums are multiplied by
    `renewal`, because the factors would leave the range of float32.
    """

    initial: NDArray[np.float64]  # [3, steps + 1, 2]
    readout: NDArray[np.float64]  # [period, 2, sums]
    added: NDArray[np.float64]  # [period, sums]
    renewal: NDArray[np.float64]  # [sums, sums]

    @classmethod
    @np.errstate(all="ignore")  # a rate that is too high diverges in any arithmetic
    def of(cls, rule: Rule, steps: int) -> "Coordinates":
        initial = [np.eye(3, 2)]
        for _ in range(steps):
            initial.append(initial[-1] @ rule.idle.T - [[0, 0], [0, 0], [rule.lr, 0]])
        basis, idle, period = _basis(rule, steps)
        gradient = np.linalg.pinv(basis) @ [-rule.lr, 1.0]
        powers = [np.linalg.matrix_power(idle, step) for step in range(period + 1)]
        readout = np.stack([basis @ power for power in powers[:-1]])
        added = np.stack([np.linalg.solve(power, gradient) for power in powers[:-1]])
        return cls(np.stack(initial, 1), readout, added, powers[-1])

    @property
    def period(self) -> int:
        return len(self.added)

    @property
    def sums(self) -> int:
        return len(self.renewal)


_coordinates = lru_cache(maxsize=8)(Coordinates.of)  # usually the same in every round


def _basis(rule: Rule, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return basis vectors (w, v), the effect of an idle step on the sums, and the steps until a renewal."""
    if rule.momentum < _NO_MOMENTUM:
        basis, values = np.array([[1.0], [0.0]]), rule.idle[0, :1]  # no step uses the previous velocity
    else:
        values, basis = np.linalg.eig(rule.idle)
        by_rate = basis * [[1.0], [rule.lr or 1.0]]
        if np.iscomplexobj(basis) or not np.linalg.cond(by_rate / np.linalg.norm(by_rate, axis=0)) < _SKEW:
            return np.eye(2), rule.idle, 1
    digits = -np.log10(np.abs(values).min())  # by which the sums shrink per step
    period = min(steps, int(np.log10(_RANGE) / digits)) if digits > 0 else steps
    return basis, np.diag(values), max(1, period)


@dataclass(frozen=True)
class SparseBatch:
    """The rows of one step in CSR form."""

    step: int
    parties: int
    outputs: Tensor  # [rows, outputs]: of weights that moved without any gradient
    columns: NDArray[np.int32]  # column + party * inputs
    values: NDArray[np.float32]
    starts: NDArray[np.int32]  # of every row, and the end


@dataclass(frozen=True)
class SparseRows:
    """The rows of some steps of all active parties, [steps, parties, batch], in CSR form."""

    begin: int  # the first step
    shape: tuple[int, int, int]
    features: NDArray[np.int32]  # column of each entry
    columns: NDArray[np.int32]  # column + party * inputs
    values: NDArray[np.float32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, x: "sparse.csr_matrix", rows: Tensor, begin: int) -> "SparseRows":
        steps, parties, batch = rows.shape
        part = x[rows.reshape(-1).numpy()]
        place = np.arange(rows.numel(), dtype=np.int32) // batch % parties
        features, starts = part.indices.astype(np.int32, copy=False), part.indptr.astype(np.int32, copy=False)
        columns = features + np.repeat(place * np.int32(x.shape[1]), np.diff(starts))
        return cls(begin, (steps, parties, batch), features, columns, part.data, starts)


class Columns:
    """First-layer weights of a stack of parties, as tables with one line per column and party."""

    def __init__(
        self,
        members: Sequence[tuple[Vector, Vector | None, Vector | None]],
        inputs: int,
        rule: Rule,
        steps: Sequence[int],
    ):
        """Take for each party the first layer's weights, their velocity and drift (None for zero), and its steps."""
        self.inputs, self.outputs, self.steps = inputs, len(members[0][0]) // inputs, steps
        self.coordinates = _coordinates(rule, max(steps))
        tables = [self._table(vectors) for vectors in zip(*members, strict=True)]
        factors = self.coordinates.initial
        self.initial = [(table, f) for table, f in zip(tables, factors, strict=True) if table is not None]
        self.sums = torch.zeros(len(members) * inputs, self.coordinates.sums * self.outputs)
        self.base = [0] * len(members)

    def batches(self, rows: SparseRows) -> Iterator[SparseBatch]:
        """Yield the batch of each step."""
        steps, parties, batch = rows.shape
        outputs = self._initial_outputs(rows).view(steps, parties * batch, self.outputs)
        for step in range(steps):
            starts = rows.starts[step * parties * batch : (step + 1) * parties * batch + 1]
            entries = slice(starts[0], starts[-1])
            csr = rows.columns[entries], rows.values[entries], starts - starts[0]
            yield SparseBatch(rows.begin + step, parties, outputs[step], *csr)

    def _initial_outputs(self, rows: SparseRows) -> Tensor:
        """Return the outputs of weights that moved without any gradient, [steps, ...]."""
        outputs = torch.zeros(())
        for table, factors in self.initial:
            columns = rows.features if len(table) == self.inputs else rows.columns
            product = _product(columns, rows.values, rows.starts, table).view(rows.shape[0], -1)
            of_step = torch.from_numpy(factors[rows.begin : rows.begin + rows.shape[0], 0].astype(np.float32))
            outputs = outputs + product.mul_(of_step.unsqueeze(1))
        return outputs

    def product(self, batch: SparseBatch) -> Tensor:
        """Return rows times weights, [rows, outputs]."""
        self._batch = batch
        parts = _product(batch.columns, batch.values, batch.starts, self.sums).split(self.outputs, 1)
        for part, factor in zip(parts, self._readout(0, batch.step)[0].tolist(), strict=True):
            batch.outputs.add_(part, alpha=factor)
        return batch.outputs

    def descend(self, error: Tensor) -> None:
        """Take one step; `error` is the gradient with respect to the last `product`."""
        batch = self._batch
        if batch.step - self.base[0] == self.coordinates.period:
            self._renew(batch)
        factors = torch.from_numpy(self.coordinates.added[batch.step - self.base[0]].astype(np.float32))
        errors = (error.unsqueeze(1) * factors.unsqueeze(1)).flatten(1)
        dense = errors.numpy().reshape(-1), self.sums.numpy().reshape(-1)
        shape = len(self.sums), len(errors), errors.shape[1]
        csc_matvecs(*shape, batch.starts, batch.columns, batch.values, *dense)  # adds rowsᵀ · errors to the sums

    def _renew(self, batch: SparseBatch) -> None:
        """Renew the sums of active parties; those of finished parties stay as they are."""
        renewal = torch.from_numpy(self.coordinates.renewal.astype(np.float32))
        for lines in self.sums[: batch.parties * self.inputs].unflatten(1, (-1, self.outputs)).split(_LINES):
            lines.copy_(torch.einsum("ij,ljo->lio", renewal, lines))
        self.base[: batch.parties] = [batch.step] * batch.parties

    def _readout(self, place: int, step: int) -> NDArray[np.float64]:
        steps = max(0, step - 1 - self.base[place])  # before the first step the sums are 0, and any factor will do
        readout: NDArray[np.float64] = self.coordinates.readout[steps]
        return readout

    def weights_of(self, place: int) -> Vector:
        """Return the weights of one party after its last step."""
        return self._sum([(place, self._shares(place)[0])])

    def velocity_of(self, place: int) -> Vector:
        """Return the velocity of one party after its last step; without momentum it is incomplete, and unused."""
        return self._sum([(place, self._shares(place)[1])])

    def sum_of_deltas(self, weights: Sequence[float]) -> Vector:
        """Return Σ weight · (end - start) over the parties."""
        start = np.eye(1, len(self.initial) + self.coordinates.sums)[0]
        return self._sum([(place, weight * (self._shares(place)[0] - start)) for place, weight in enumerate(weights)])

    def _shares(self, place: int) -> NDArray[np.float64]:
        """Return the factors of all tables in a party's weights and velocity after its last step, [2, tables]."""
        step = self.steps[place]
        return np.column_stack([*(factors[step] for _, factors in self.initial), self._readout(place, step)])

    def _sum(self, terms: Sequence[tuple[int, NDArray[np.float64]]]) -> Vector:
        """Add up the tables of parties, each times its factor."""
        total = torch.zeros(self.inputs, self.outputs)
        for begin in range(0, self.inputs, _LINES):
            for place, shares in terms:
                for part, share in zip(self._parts(place, begin), shares.tolist(), strict=True):
                    if share:
                        total[begin : begin + _LINES].add_(part, alpha=share)
        return total.T.reshape(-1)

    def _parts(self, place: int, begin: int) -> list[Tensor]:
        """Return the next lines of a party in each table."""
        end = min(begin + _LINES, self.inputs)
        tables = [*(table for table, _ in self.initial), self.sums]
        first = [0 if len(table) == self.inputs else place * self.inputs for table in tables]
        *initial, sums = (table[line + begin : line + end] for table, line in zip(tables, first, strict=True))
        return [*initial, *sums.split(self.outputs, 1)]

    def _table(self, vectors: Sequence[Vector | None]) -> Tensor | None:
        """Convert vectors [outputs x columns] to lines by column; a vector that all parties share is stored once."""
        places = {None if vector is None else vector.data_ptr() for vector in vectors}
        if places == {None}:
            return None
        different = vectors if len(places) > 1 else vectors[:1]
        zeros = torch.zeros(self.inputs, self.outputs)
        return torch.cat([zeros if v is None else v.view(self.outputs, self.inputs).T for v in different])


def _product(
    columns: NDArray[np.int32], values: NDArray[np.float32], starts: NDArray[np.int32], dense: Tensor
) -> Tensor:
    """Return sparse rows times a table."""
    indices, offsets, weights = (torch.from_numpy(part) for part in (columns, starts[:-1], values))
    return F.embedding_bag(indices, dense, offsets, mode="sum", per_sample_weights=weights)
