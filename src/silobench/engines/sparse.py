"""The first layer of many parties on sparse rows: a step moves the columns it touches, and no others.

With momentum and weight decay every column moves in every step, touched or not. But a column that is not touched
follows a fixed linear rule: any number of its steps is one small product, done when the column is needed again.
"""

from collections.abc import Sequence
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
        """What 0, 1, ... steps without a gradient make of (w, v, drift): [steps + 1, 2, 3], rows for w and v."""
        lr, rho, decay = self.lr, self.momentum, self.decay
        one = np.array([[1 - lr * decay, -lr * rho, -lr], [decay, rho, 0.0], [0.0, 0.0, 1.0]])
        powers = [np.eye(3)]
        for _ in range(steps):
            powers.append(one @ powers[-1])
        return torch.from_numpy(np.stack(powers)[:, :2].astype(np.float32))


@dataclass(frozen=True)
class SparseBatch:
    """The rows of one step, columns numbered through the parties."""

    step: int
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    starts: NDArray[np.int32]  # of every row, and the end


@dataclass(frozen=True)
class SparseRows:
    """The rows of some steps of all parties at work; index it by step."""

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

    def __getitem__(self, step: int) -> SparseBatch:
        starts = self.starts[step * self.per_step : (step + 1) * self.per_step + 1]
        entries = slice(starts[0], starts[-1])
        return SparseBatch(self.begin + step, self.columns[entries], self.values[entries], starts - starts[0])


class Columns:
    """First-layer weights of a stack of parties as one table, a line for each column of each party."""

    def __init__(self, weights: Vector, velocity: Vector, drift: Vector | None, inputs: int, rule: Rule, steps: int):
        self.parties, self.inputs, self.rule = len(weights), inputs, rule
        self.weights, self.velocity = self._table(weights), self._table(velocity)
        self.drift = None if drift is None else self._table(drift)
        self.powers = rule.idle(steps)
        self.done = torch.zeros(len(self.weights), dtype=torch.int64)  # steps that a line has behind it
        self._slots = np.zeros(len(self.weights), dtype=np.int64)

    def product(self, batch: SparseBatch) -> Tensor:
        """Rows times weights, with the touched columns brought up to this step first."""
        touched, numbers = self._distinct(batch.columns)
        lines = torch.from_numpy(touched)
        self._batch, self._lines = batch, lines
        self._weights, self._velocity, self._drift = self._brought(lines, batch.step - self.done[lines])
        self._rows = sparse.csr_matrix((batch.values, numbers, batch.starts), (len(batch.starts) - 1, len(touched)))
        return torch.from_numpy(self._rows @ self._weights.numpy())

    def descend(self, error: Tensor) -> None:
        """One step along the gradient of the columns that `product` touched; `error` is that of its result."""
        grad = torch.from_numpy(self._rows.T @ error.numpy())
        rule, velocity = self.rule, self._velocity
        velocity.mul_(rule.momentum).add_(grad).add_(self._weights, alpha=rule.decay)
        self.weights[self._lines] = self._weights.add_(velocity, alpha=-rule.lr)
        if self._drift is not None:
            self.weights[self._lines] = self._weights.add_(self._drift, alpha=-rule.lr)
        self.velocity[self._lines] = velocity
        self.done[self._lines] = self._batch.step + 1

    def finish(self, steps: Sequence[int]) -> tuple[Vector, Vector]:
        """Weights and velocities of every party at the end of its steps."""
        behind = torch.tensor(steps).repeat_interleave(self.inputs) - self.done
        weights, velocity, _ = self._brought(slice(None), behind)
        return self._vectors(weights), self._vectors(velocity)

    def _brought(self, lines: "Tensor | slice", idle: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Weights and velocities of some lines after so many steps without a gradient."""
        weights, velocity, power = self.weights[lines], self.velocity[lines], self.powers[idle].unsqueeze(-1)
        moved = [power[:, row, 0] * weights + power[:, row, 1] * velocity for row in range(2)]
        if self.drift is None:
            return moved[0], moved[1], None
        drift = self.drift[lines]
        return moved[0].addcmul_(power[:, 0, 2], drift), moved[1].addcmul_(power[:, 1, 2], drift), drift

    def _distinct(self, columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The columns that occur, each once, and where among them every entry has its own; without sorting."""
        places = np.arange(len(columns))
        self._slots[columns] = places  # of equal columns one stays
        stayed = self._slots[columns]
        chosen = stayed == places
        numbers = np.cumsum(chosen, dtype=np.int32) - 1
        return columns[chosen], numbers[stayed]

    def _table(self, vectors: Vector) -> Tensor:
        return vectors.view(self.parties, -1, self.inputs).transpose(1, 2).reshape(self.parties * self.inputs, -1)

    def _vectors(self, table: Tensor) -> Vector:
        return table.view(self.parties, self.inputs, -1).transpose(1, 2).reshape(self.parties, -1)
