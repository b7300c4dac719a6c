"""A party's side of boosted trees: bins, histograms, and the splits on its columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.vertical.trees.bin_matrix import slots_of
from silobench.vertical.trees.binning import Ints, codes, sampled, thresholds
from silobench.vertical.trees.cipher import Clear, HistogramAdder
from silobench.vertical.trees.messages import (
    Gradients,
    Histogram,
    Layout,
    Message,
    NodeRows,
    Sides,
    SplitOrder,
    packed,
    unpacked,
)


class TreeParty:
    """A party with columns of some rows. It sees gradients, numbers of nodes and the sides of its rows.

    columns: float [rows of the party, features]; bins: the largest number of bins of a feature.
    """

    def __init__(self, columns: NDArray[Any], bins: int = 255, cipher: HistogramAdder | None = None) -> None:
        sample = sampled(columns)
        self._limits = [thresholds(column, bins) for column in sample.T]
        self._codes = np.zeros(columns.shape, dtype=np.uint8, order="F")
        for number, limits in enumerate(self._limits):
            self._codes[:, number] = codes(columns[:, number], limits)
        self._sizes = np.array([len(limits) + 1 for limits in self._limits], dtype=np.int64)
        self._matrix, self._omitted = slots_of(self._codes, self._sizes)
        self._cipher = cipher or Clear()
        self._pairs: Any = None
        self._rows: dict[int, Ints] = {}
        self._sides = np.zeros(0, dtype=np.bool_)  # of the latest split on a column of this party
        self.visits = 0  # rows that were added up
        self.features: list[int] = []  # by number of the split, as are the thresholds
        self.thresholds: list[float] = []

    def layout(self) -> Layout:
        """Return the shape of the histograms."""
        return Layout(self._sizes.astype(np.int16), self._omitted.astype(np.int16))

    def answer(self, message: Message) -> Message | None:
        """Return the answer to a message of the label holder, or None if it needs no answer."""
        answers: dict[type, Callable[[Any], Message | None]] = {
            Gradients: self._start,
            SplitOrder: self._split,
            NodeRows: self._divide,
        }
        return answers[type(message)](message)

    def _start(self, message: Gradients) -> Histogram:
        self._rows = {0: np.arange(len(self._codes))}
        pairs = message.pairs
        if isinstance(self._cipher, Clear):  # a column of ones, so that one product has sums and counts
            pairs = np.concatenate([pairs, np.ones((len(pairs), 1))], axis=1, dtype=np.float64)
        self._pairs = pairs
        return self._histogram(0)

    def _histogram(self, node: int) -> Histogram:
        rows = self._rows[node]
        self.visits += len(rows)
        if isinstance(self._cipher, Clear):
            sums = self._matrix.sums(self._pairs, rows if len(rows) < len(self._codes) else None)
            return Histogram(sums[:, :-1], sums[:, -1].astype(np.uint32))
        bins, n_bins = self._matrix.bins[rows], self._matrix.n_bins
        counts = np.bincount(bins.reshape(-1), minlength=n_bins + 1)[:n_bins]
        is_filled = counts > 0
        number = np.append(np.where(is_filled, np.cumsum(is_filled) - 1, 0), is_filled.sum())
        sums = self._cipher.sum_by_bin(self._cipher.take(self._pairs, rows), number[bins], int(is_filled.sum()))
        return Histogram(sums, counts.astype(np.uint32))

    def _split(self, message: SplitOrder) -> Sides:
        limits = self._limits[message.feature]
        self.features.append(message.feature)
        self.thresholds.append(float(limits[message.bin]) if message.bin < len(limits) else np.inf)
        self._sides = self._codes[:, message.feature].take(self._rows[message.node]) <= message.bin
        return Sides(len(self.features) - 1, packed(self._sides))

    def _divide(self, message: NodeRows) -> Histogram:
        rows = self._rows.pop(message.node)
        sides = self._sides if message.bits is None else unpacked(message.bits, len(rows))
        self._rows[message.left], self._rows[message.right] = rows.compress(sides), rows.compress(~sides)
        return self._histogram(message.child)
