"""Sums of values per bin over the rows of a node."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.vertical.trees.binning import Codes, Floats, Ints


class BinMatrix:
    """The bins that each row belongs to, [rows, slots]; an entry of `n_bins` belongs to no bin.

    Sums are products with the sparse matrix of ones at (bin, row). This is several times faster than a count per
    column, and adds in the order of the rows, as a loop over them would.
    """

    def __init__(self, bins: NDArray[Any], n_bins: int) -> None:
        rows, slots = bins.shape
        index = np.int32 if rows * slots < 1 << 31 else np.int64
        self.bins = np.ascontiguousarray(bins, dtype=index)
        self.n_bins = n_bins
        self._ones = np.ones(rows * slots)
        self._starts = np.arange(0, rows * slots + 1, max(slots, 1), dtype=index)

    def sums(self, values: Floats, rows: Ints | None = None) -> Floats:
        """Return the sum of each column of values [rows, k] per bin, over some rows or all, as [bins, k]."""
        bins = self.bins
        if rows is not None:
            bins, values = bins.take(rows, axis=0), values.take(rows, axis=0)
        if not bins.size:
            return np.zeros((self.n_bins, values.shape[1]))
        parts = (self._ones[: bins.size], bins.reshape(-1), self._starts[: len(bins) + 1])
        product = sparse.csc_array(parts, shape=(self.n_bins + 1, len(bins))) @ values
        return np.asarray(product)[: self.n_bins]


def slots_of(codes: Codes, bins: Ints) -> tuple[BinMatrix, Ints]:
    """Return the bins of all features of a party as one list, and the bin of each feature that is left out, or -1.

    If most entries of a row are in the most common bin of their feature, as in a table of indicators, those bins are
    left out: a row then has few slots, and sums take less time. Otherwise a slot of a row is a feature.

    codes: [rows, features], the bin of each entry; bins: number of bins of each feature.
    """
    rows, features = codes.shape
    common = np.array([np.bincount(column, minlength=1).argmax() for column in codes.T], dtype=np.int64)
    other = codes != common
    most = int(other.sum(axis=1).max(initial=0))
    if 2 * most > features:
        starts = np.cumsum(bins) - bins
        return BinMatrix(codes + starts, int(bins.sum())), np.full(features, -1, dtype=np.int64)
    starts = np.cumsum(bins - 1) - (bins - 1)
    n_bins = int((bins - 1).sum())
    slots = np.full((rows, most), n_bins, dtype=np.int64)
    row, feature = np.nonzero(other)
    place = np.arange(len(row)) - (np.cumsum(other.sum(axis=1)) - other.sum(axis=1))[row]
    entry = codes[row, feature].astype(np.int64)
    slots[row, place] = starts[feature] + entry - (entry > common[feature])
    return BinMatrix(slots, n_bins), common
