"""What a statistic is like without a skew: tables are drawn from one common distribution, with the parties' noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from silobench.privacy.geometric import variance

DRAWS = 300
_LEAST_DRAWS = 60
_MOST_NUMBERS = 6_000_000  # of all draws together: with very many parties there are fewer draws
_ENOUGH = 10  # draws beyond a value, to trust their share rather than a fitted tail

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Null:
    """A statistic and what it would be without a skew."""

    value: float
    draws: Array  # of the same statistic without a skew

    @property
    def excess(self) -> float:
        """How far the value is above what is expected without a skew."""
        return self.value - float(self.draws.mean())

    @property
    def p(self) -> float:
        """The probability of the value or a larger one without a skew.

        It is the share of draws, where many are larger. Else it is the tail of a gamma distribution with the mean and
        the variance of the draws, as chi-square statistics have.
        """
        larger = int((self.draws >= self.value).sum())
        if larger >= _ENOUGH or self.draws.std() <= 1e-12 * max(1.0, abs(self.draws.mean())):
            return (1 + larger) / (1 + len(self.draws))
        return float(self._fitted.sf(self.value))

    def threshold(self, level: float) -> float:
        """Return the value from which p is at most `level`."""
        return float(self._fitted.isf(level)) if self.draws.std() else float(self.draws.mean())

    @property
    def _fitted(self) -> "stats.rv_frozen":
        mean, spread = float(self.draws.mean()), float(self.draws.var())
        return stats.gamma(mean**2 / spread, scale=spread / mean)


def draw_count(numbers: int) -> int:
    """Return how often a table with this many numbers is drawn.

    >>> draw_count(500), draw_count(50_000), draw_count(10**6)
    (300, 120, 60)
    """
    return max(_LEAST_DRAWS, min(DRAWS, _MOST_NUMBERS // numbers))


def noise_draws(rng: np.random.Generator, scales: Array, shape: tuple[int, ...], draws: int) -> Array:
    """Return two-sided geometric noise, [draws, parties, *shape], with the scale of each party.

    It is for simulations only: what parties publish has the noise of `silobench.privacy.geometric`.
    """
    noise = np.zeros((draws, len(scales), *shape))
    for party in np.flatnonzero(scales):
        success = -np.expm1(-1 / scales[party])
        size = (draws, *shape)
        noise[:, party] = rng.geometric(success, size) - rng.geometric(success, size)
    return noise


def noise_variances(scales: Array) -> Array:
    """Return the variance of the noise of each party."""
    return np.array([variance(scale) for scale in scales])


def multinomial_draws(rng: np.random.Generator, totals: Array, shares: Array, draws: int) -> Array:
    """Return counts of rows that have common shares: [draws, *totals.shape, bins].

    `shares` has the shape of a part of `totals`, and one more axis for bins: [classes, bins] for totals of
    [parties, classes], or [bins] for totals of [parties].
    """
    whole = np.rint(np.maximum(totals, 0)).astype(np.int64)
    wide = np.broadcast_to(shares, (*whole.shape, shares.shape[-1]))
    return rng.multinomial(whole, wide, size=(draws, *whole.shape)).astype(np.float64)


def as_shares(counts: Array) -> Array:
    """Return counts as shares along the last axis: negative counts count as 0, and equal shares replace no counts.

    >>> as_shares(np.array([[3.0, 1.0, -2.0], [0.0, 0.0, 0.0]])).round(2).tolist()
    [[0.75, 0.25, 0.0], [0.33, 0.33, 0.33]]
    """
    clipped = np.maximum(counts, 0)
    total = clipped.sum(-1, keepdims=True)
    equal = np.full_like(clipped, 1 / clipped.shape[-1])
    return np.where(total > 0, clipped / np.where(total > 0, total, 1), equal)
