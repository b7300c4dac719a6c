"""Quantile bins of a numeric target: they take the place of classes where a skew needs classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINS = 10


@dataclass(frozen=True)
class Bins:
    """Bins with about equally many values each. Edges are values of the target, so every bin has at least one."""

    edges: tuple[float, ...]  # the least value, the first value of every further bin, and the largest value

    def __len__(self) -> int:
        return len(self.edges) - 1

    def codes(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return the bin of each row; values beyond the edges belong to the first or the last bin."""
        return np.searchsorted(np.array(self.edges[1:-1]), row_values(y), side="right").astype(np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each bin: where it starts."""
        return tuple(f">={edge:.4g}" for edge in self.edges[:-1])


def row_values(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return one number per row: the target, or the mean of the numbers of a target that has several.

    >>> row_values(np.array([[1, 3], [5, 5]])).tolist()
    [2.0, 5.0]
    """
    values = y.astype(np.float64)
    return values.mean(1) if values.ndim > 1 else values


def quantile_bins(y: NDArray[Any]) -> Bins:
    """Return up to ten bins; there are fewer if some value is very frequent.

    >>> quantile_bins(np.array([1, 2, 2, 3, 3, 3, 3, 4, 4, 5])).edges
    (1.0, 2.0, 3.0, 4.0, 5.0, 5.0)
    """
    y = row_values(y)
    least, most = float(y.min()), float(y.max())
    cuts = np.unique(np.quantile(y, np.arange(1, BINS) / BINS, method="higher"))
    return Bins((least, *cuts[cuts > least].tolist(), most))


def as_codes(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels as class numbers: classes as they are, numbers by their quantile bins."""
    return quantile_bins(y).codes(y) if y.dtype.kind == "f" else y
