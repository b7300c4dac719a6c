"""Skellam noise: whole numbers that parties can add in a ring, and what a sum with them reveals.

The difference of two Poisson numbers has a Skellam distribution, and a sum of Skellam numbers is one too. So each party
adds its share of the noise, and their exact sum has the noise that was wanted: The Skellam Mechanism for Differentially
Private Federated Learning, Agarwal, Kairouz and Liu, NeurIPS 2021.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from silobench.privacy.randomness import Randomness

_BLOCK = 1 << 16  # numbers that are drawn at a time: their arrays fit into the cache
_SMALL_MEAN = 10.0  # below it numbers are read from a table; the method for larger means needs at least this one
_LARGE_MEAN = 4096.0  # above it the difference of large logarithms would lose digits
_ROUGH = math.exp(-64)  # probability that a number is beyond its `tail`
_TERMS = (1 / 2, -1 / 6, 1 / 12, -1 / 20, 1 / 30, -1 / 42, 1 / 56, -1 / 72)  # of (1 + x) log(1 + x) - x = x²(1/2 ...)


def skellam(randomness: Randomness, variance: float, count: int) -> NDArray[np.int64]:
    """Return whole numbers of mean 0 with a Skellam distribution, differences of two Poisson numbers each."""
    return poisson(randomness, variance / 2, count) - poisson(randomness, variance / 2, count)


def poisson(randomness: Randomness, mean: float, count: int) -> NDArray[np.int64]:
    """Return Poisson numbers, by a table for small means, else by Hörmann's transformed rejection (PTRS, 1993).

    Both are exact up to the resolution of uniform numbers (2^-53) and the rounding of probabilities in float64.
    """
    if mean < _SMALL_MEAN:
        return _from_table(randomness, mean, count)
    blocks = [_by_rejection(randomness, mean, min(_BLOCK, count - at)) for at in range(0, count, _BLOCK)]
    return np.concatenate(blocks) if blocks else np.zeros(0, np.int64)


def _from_table(randomness: Randomness, mean: float, count: int) -> NDArray[np.int64]:
    values = np.arange(100)  # of a mean below 10, larger values have a probability below 2^-200
    logs = values * math.log(mean) - mean - gammaln(values + 1) if mean else np.where(values, -np.inf, 0.0)
    return np.searchsorted(np.exp(logs).cumsum(), randomness.uniform(count), side="right").clip(max=99)


def _by_rejection(randomness: Randomness, mean: float, count: int) -> NDArray[np.int64]:
    drawn = np.zeros(0, np.int64)
    while len(drawn) < count:
        missing = count - len(drawn)
        drawn = np.concatenate([drawn, _accepted(randomness, mean, missing + missing // 8 + 16)])
    return drawn[:count]


def _accepted(randomness: Randomness, mean: float, trials: int) -> NDArray[np.int64]:
    """Return the accepted numbers of some trials; the constants are Hörmann's."""
    slope = 0.931 + 2.53 * math.sqrt(mean)
    bend = -0.059 + 0.02483 * slope
    place = randomness.uniform(trials) - 0.5
    height = 1 - randomness.uniform(trials)  # in (0, 1], so that its logarithm is finite
    edge = np.maximum(0.5 - np.abs(place), 2.0**-60)
    values = np.floor((2 * bend / edge + slope) * place + mean + 0.43)
    inside = (edge >= 0.07) & (height <= 0.9277 - 3.6224 / (slope - 2))
    unsure = ~inside & (values >= 0) & ~((edge < 0.013) & (height > edge))
    at = np.flatnonzero(unsure)
    hull = np.log(height[at]) + math.log(1.1239 + 1.1328 / (slope - 3.4)) - np.log(bend / edge[at] ** 2 + slope)
    inside[at] = hull <= _log_probability(values[at], mean)
    return values[inside].astype(np.int64)


def _log_probability(values: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """Return the logarithms of Poisson probabilities, for large means by Loader's saddle point expansion (2000)."""
    if mean < _LARGE_MEAN:
        return np.asarray(values * math.log(mean) - mean - gammaln(values + 1))
    known = np.maximum(values, 1.0)  # 0 has a probability below e^-4096, and gets that of 1
    excess = (known - mean) / mean
    series = excess**2 * np.polynomial.polynomial.polyval(excess, _TERMS)
    distance = mean * np.where(np.abs(excess) < 0.01, series, (1 + excess) * np.log1p(excess) - excess)
    rest = 1 / (12 * known) - 1 / (360 * known**3) + 1 / (1260 * known**5)  # of Stirling's formula
    return np.asarray(-0.5 * np.log(2 * math.pi * known) - rest - distance)


def tail(variance: float) -> float:
    """Return the size that a Skellam number exceeds with a probability of at most 2 e^-64, by Chernoff's bound.

    The bound is exp(variance (cosh t - 1) - t size), with cosh t - 1 <= 0.5431 t² for t up to 1.
    """
    exponent = -math.log(_ROUGH)
    size = math.sqrt(4 * 0.5431 * exponent * variance)
    return size if size <= 2 * 0.5431 * variance else exponent + 0.5431 * variance


def rho(length: float, variance: float) -> float:
    """Return the zero-concentrated privacy of a sum of whole numbers with Skellam noise.

    `length` is the largest 2-norm of what one unit adds, and `variance` that of the noise of each entry. It is the
    bound of the paper (theorem 3.5 in many dimensions), with the 1-norm of whole numbers at most the square of their
    2-norm, and holds for Rényi divergences of whole orders from 2.
    """
    if not variance:
        return math.inf if length else 0.0
    square = length**2
    # At order a, the second term is at most min(((2a - 1) square + 6 square) / (4 variance²), 3 square / (2 variance)),
    # and (2a + 5) / 4 <= 9a / 8 and 3 / 2 <= 3a / 4 for a >= 2.
    return square / (2 * variance) + min(9 / 8 * square / variance**2, 3 / 4 * square / variance)
