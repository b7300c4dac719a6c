"""Bins of a numeric column: between distinct values if there are few, otherwise by quantiles."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.uint8]

SAMPLE = 200_000  # with more rows than these, quantiles are those of a sample, as in scikit-learn
LARGEST = 1e300  # a threshold is finite, so that only a split of present from absent rows has an infinite one


def sampled(columns: NDArray[Any]) -> NDArray[Any]:
    """Return the rows from which thresholds are found: all, or a sample of a long table.

    The sample is what scikit-learn draws with `random_state=0`, so that it does not change between runs.
    """
    if len(columns) <= SAMPLE:
        return columns
    seed = np.random.RandomState(0).randint(np.iinfo(np.uint32).max, dtype="u8")
    return columns[np.random.RandomState(seed).choice(len(columns), SAMPLE, replace=True)]


def thresholds(column: NDArray[Any], bins: int) -> Floats:
    """Return the upper limits of all bins but the last, in increasing order.

    A column with at most `bins` distinct values has a bin for each value, with limits halfway between neighbours.
    """
    values = np.sort(column.astype(np.float64))
    distinct = np.unique(values)
    if len(distinct) <= bins:
        return np.minimum((distinct[:-1] + distinct[1:]) / 2, LARGEST)
    percents = np.linspace(0, 100, num=bins + 1)[1:-1]
    limits = np.percentile(values, percents, method="averaged_inverted_cdf")
    return np.minimum(np.unique(limits), LARGEST)


def codes(column: NDArray[Any], limits: Floats) -> Codes:
    """Return the bin of every value: value v is in bin i if limits[i - 1] < v <= limits[i]."""
    return np.searchsorted(limits, column.astype(np.float64), side="left").astype(np.uint8)
