"""The first layer of many parties on sparse rows: a step moves the columns it touches, and no others.

With momentum and weight decay every column moves in every step, touched or not. But a column that is not touched
follows a fixed linear rule: any number of its steps is one small product, done when the column is needed again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.types import Vector


@dataclass(frozen=True)
class Rule:
    """SGD's step: v ← momentum · v + gradient + decay · w, then w ← w - lr · (v + drift)."""

    lr: float
    momentum: float
    decay: float

    def idle(self, steps: int) -> Tensor:
        """What 0, 1, ... steps without a gradient make of (w, v, drift): [2, 3, steps + 1], rows for w and v."""
        lr, rho, decay = self.lr, self.momentum, self.decay
        one = np.array([[1 - lr * decay, -lr * rho, -lr], [decay, rho, 0.0], [0.0, 0.0, 1.0]])
        powers = [np.eye(3)]
        with np.errstate(over="ignore", invalid="ignore"):  # a rate that diverges does so in any arithmetic
            for _ in range(steps):
                powers.append(one @ powers[-1])
            return torch.from_numpy(np.stack(powers, 2)[:2].astype(np.float32))


@dataclass(frozen=True)
class SparseBatch:
    """The rows of one step, columns numbered through the parties."""

    step: int
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    starts: NDArray[np.int32]  # of every row, and the end


@dataclass(frozen=True)
class SparseRows:
    """The rows of some steps of all parties at work; iterate over it to get each step's."""

    begin: int  # the first step
    per_step: int  # rows
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    starts: NDArray[np.int32]

    @classmethod
    def of(cls, x: "sparse.csr_matrix", rows: Tensor, begin: int) -> "SparseRows":
        """Rows [steps, parties, batch] of a CSR matrix."""
        _, parties, batch = rows.shape
        part = x[rows.reshape(-1).numpy()]
        place = np.arange(rows.numel()) // batch % parties
        columns = part.indices + np.repeat(place * x.shape[1], np.diff(part.indptr))
        return cls(begin, parties * batch, columns, part.data, part.indptr.astype(np.int32))

    def __iter__(self) -> Iterator[SparseBatch]:
        for step in range((len(self.starts) - 1) // self.per_step):
            starts = self.starts[step * self.per_step : (step + 1) * self.per_step + 1]
            entries = slice(starts[0], starts[-1])
            yield SparseBatch(self.begin + step, self.columns[entries], self.values[entries], starts - starts[0])


class Columns:
    """First-layer weights of a stack of parties as one table, a line for each column of each party."""

    def __init__(
        self, members: Sequence[tuple[Vector, Vector | None, Vector | None]], inputs: int, rule: Rule, steps: int
    ):
        """By party: the first layer's weights, their velocity (None for zero) and drift."""
        weights, velocities, drifts = zip(*members, strict=True)
        self.inputs, self.outputs, self.rule = inputs, len(weights[0]) // inputs, rule
        self.weights, self.velocity = self._table(weights), self._table(velocities)
        self.drift = None if drifts[0] is None else self._table(drifts)
        self.powers = rule.idle(steps)
        self.done = np.zeros(len(self.weights), dtype=np.int64)  # steps that a line has behind it
        self._slots = np.zeros(len(self.weights), dtype=np.int64)

    def product(self, batch: SparseBatch) -> Tensor:
        """Rows times weights, with the touched columns brought up to this step first."""
        lines, numbers = self._distinct(batch.columns)
        self._batch, self._lines = batch, lines
        self._weights, self._velocity = _taken(self.weights, lines), _taken(self.velocity, lines)
        self._drift = None if self.drift is None else _taken(self.drift, lines)
        idle = torch.from_numpy(batch.step - self.done[lines])
        self._bring(self._weights, self._velocity, self._drift, idle)
        self._rows = sparse.csr_matrix((batch.values, numbers, batch.starts), (len(batch.starts) - 1, len(lines)))
        return torch.from_numpy(self._rows @ self._weights.numpy())

    def descend(self, error: Tensor) -> None:
        """One step along the gradient of the columns that `product` touched; `error` is that of its result."""
        rule, weights, velocity = self.rule, self._weights, self._velocity
        velocity.mul_(rule.momentum).add_(torch.from_numpy(self._rows.T @ error.numpy()))
        if rule.decay:
            velocity.add_(weights, alpha=rule.decay)
        weights.add_(velocity, alpha=-rule.lr)
        if self._drift is not None:
            weights.add_(self._drift, alpha=-rule.lr)
        _put(self.weights, self._lines, weights)
        _put(self.velocity, self._lines, velocity)
        self.done[self._lines] = self._batch.step + 1

    def finish(self, steps: Sequence[int]) -> None:
        """Bring every line to the end of its party's steps."""
        behind = np.repeat(np.asarray(steps), self.inputs) - self.done
        self._bring(self.weights, self.velocity, self.drift, torch.from_numpy(behind))

    def weights_of(self, place: int) -> Vector:
        return self._vector(self.weights, place)

    def velocity_of(self, place: int) -> Vector:
        return self._vector(self.velocity, place)

    def _vector(self, table: Tensor, place: int) -> Vector:
        return table[place * self.inputs : (place + 1) * self.inputs].T.reshape(-1)

    def _bring(self, weights: Tensor, velocity: Tensor, drift: Tensor | None, idle: Tensor) -> None:
        """Move some lines by as many steps without a gradient as each has missed, in place."""
        (ww, wv, wd), (vw, vv, vd) = self.powers[:, :, idle].unsqueeze(-1)
        before = weights.clone() if self.rule.decay else weights  # without decay velocities do not depend on weights
        if self.rule.decay:
            weights.mul_(ww)
        weights.addcmul_(velocity, wv)
        velocity.mul_(vv)
        if self.rule.decay:
            velocity.addcmul_(before, vw)
        if drift is not None:
            weights.addcmul_(drift, wd)
            velocity.addcmul_(drift, vd)

    def _distinct(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The columns that occur, each once, and where among them every entry has its own; without sorting."""
        places = np.arange(len(columns))
        self._slots[columns] = places  # of equal columns one stays
        stayed = self._slots[columns]
        chosen = stayed == places
        numbers = np.cumsum(chosen, dtype=np.int32) - 1
        return columns[chosen], numbers[stayed]

    def _table(self, vectors: Sequence[Vector | None]) -> Tensor:
        """Vectors [outputs x columns] as a line for each column; None is zero."""
        table = torch.zeros(len(vectors), self.inputs, self.outputs)
        for place, vector in enumerate(vectors):
            if vector is not None:
                same = place and vectors[0] is not None and vector.data_ptr() == vectors[0].data_ptr()
                # As a rule all begin at the same weights, and copying is faster than turning.
                table[place] = table[0] if same else vector.view(self.outputs, self.inputs).T
        return table.view(-1, self.outputs)


def _taken(table: Tensor, lines: NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(table.numpy().take(lines, 0))


def _put(table: Tensor, lines: NDArray[np.int64], values: Tensor) -> None:
    """Write lines of a table; as lumps of bytes, which is several times as fast as by torch."""
    lump = np.dtype((np.void, values.shape[1] * values.element_size()))
    table.numpy().view(lump).reshape(-1)[lines] = values.numpy().view(lump).reshape(-1)
