"""Variance and deviation of a sample, computed without rounding and rounded once.

The results are those of Python's `statistics` to the last bit. That module adds fractions, which it reduces after every
step: for a handful of numbers that takes several times as long, and a large report has ten thousands of deviations.
"""

import math
import statistics
import sys
from collections.abc import Sequence

_WIDTH = 2 * sys.float_info.mant_dig + 3  # bits of a root that is then rounded once


def variance(values: Sequence[float]) -> float:
    """Return the variance of at least two numbers.

    >>> variance([1.0, 2.0, 4.0])
    2.3333333333333335
    """
    if not all(map(math.isfinite, values)):
        return statistics.variance(values)
    numerator, denominator = _ratio(values)
    return numerator / denominator


def stdev(values: Sequence[float]) -> float:
    """Return the standard deviation of at least two finite numbers.

    >>> stdev([1.0, 2.0, 4.0])
    1.5275252316519468
    """
    numerator, denominator = _ratio(values)
    shift = (numerator.bit_length() - denominator.bit_length() - _WIDTH) // 2
    if shift >= 0:
        return float(_root(numerator, denominator << 2 * shift) << shift)
    return _root(numerator << -2 * shift, denominator) / (1 << -shift)


def _ratio(values: Sequence[float]) -> tuple[int, int]:
    """Return the variance as a ratio of whole numbers: every float is one over a power of two."""
    ratios = [value.as_integer_ratio() for value in values]
    unit = max(denominator for _, denominator in ratios)
    whole = [numerator * (unit // denominator) for numerator, denominator in ratios]
    count, total = len(whole), sum(whole)
    return count * sum(value * value for value in whole) - total * total, count * (count - 1) * unit * unit


def _root(numerator: int, denominator: int) -> int:
    """Return the root of a ratio, rounded down, with the last bit set if that left something out."""
    root = math.isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)
