"""Two Bayesian tests of which of two is better by more than matters: over paired trials, and over many settings.

Both give three probabilities: that A is better by more than the region of practical equivalence (ROPE), that the two
are equal within it, and that B is better by more than it. docs/statistics.md has the formulae and the defaults.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from silobench.analysis.exact import variance
from silobench.analysis.student import density, quantile, upper_tail
from silobench.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DECIDED = 0.95  # a verdict is given in words above this probability
PRIOR_STRENGTH = 0.5  # weight of the imagined setting without a difference in the signed-rank test
DRAWS = 20_000  # a probability is then off by 0.004 at most, by one standard deviation
_AT_ONCE = 500  # draws
_PAIRS_AT_ONCE = 2_000_000  # of settings, in all draws at once: each array of them then takes 16 MB


class Odds(NamedTuple):
    """Three probabilities that sum to one."""

    better_a: float
    equal: float
    better_b: float

    def verdict(self, a: str, b: str) -> str:
        """Return the verdict in words, if one probability is above 0.95.

        >>> Odds(0.97, 0.02, 0.01).verdict("fedavg", "fednova")
        'fedavg is better'
        """
        verdicts = zip(self, (f"{a} is better", "practically equal", f"{b} is better"), strict=True)
        return next((words for probability, words in verdicts if probability > DECIDED), "undecided")


@dataclass(frozen=True)
class Posterior:
    """The posterior of the mean difference A - B: a Student t distribution with a location and a scale."""

    mean: float
    scale: float  # 0 if all differences were the same
    dof: int
    n: int
    rho: float

    def odds(self, rope: float, higher_is_better: bool = True) -> Odds:
        """Return the mass above, inside and below a region of practical equivalence.

        >>> [round(p, 3) for p in Posterior(mean=0.0, scale=1.0, dof=2, n=3, rho=0.0).odds(rope=0.0)]
        [0.5, 0.0, 0.5]
        """
        above, below = self._beyond(self.mean - rope), self._beyond(-self.mean - rope)
        a, b = (above, below) if higher_is_better else (below, above)
        return Odds(a, max(0.0, 1.0 - above - below), b)

    def _beyond(self, distance: float) -> float:
        """Return the mass above a point that is `distance` below the mean."""
        if self.scale == 0:
            return float(distance > 0)
        return upper_tail(self.dof, -distance / self.scale)

    def density(self, difference: float) -> float:
        """Return the probability density at a difference; the scale must not be 0."""
        return density(self.dof, (difference - self.mean) / self.scale) / self.scale

    def interval(self, mass: float = 0.95) -> tuple[float, float]:
        """Return the central credible interval."""
        half = self.scale * quantile(self.dof, 0.5 + mass / 2)
        return self.mean - half, self.mean + half


def correlated_t(differences: Sequence[float], rho: float, grain: float = 0.0) -> Posterior:
    """Return the posterior of the Bayesian correlated t-test of paired results.

    Corani and Benavoli, Machine Learning 100, 2015. The posterior of the mean difference, under the vague prior, is
    Student's t with n - 1 degrees of freedom around the mean of the differences, with scale^2 = (1/n + rho/(1 - rho)) *
    variance. `rho` is the correlation between pairs: a larger one widens the posterior, which then stays wide however
    many trials are added. Where results are counted in steps of `grain` (one test row, one round), equal differences
    may hide a spread as large as rounding: the variance is at least that of two rounded numbers.

    >>> correlated_t([0.02, 0.03, 0.04], rho=0.0).mean
    0.03
    """
    n = len(differences)
    if n < 2:
        raise ConfigError(f"a comparison needs at least 2 pairs of trials, but {n} was given: run more seeds.")
    if not 0 <= rho < 1:
        raise ConfigError(f"rho must be at least 0 and below 1, but {rho} was given.")
    scale = math.sqrt((1 / n + rho / (1 - rho)) * max(variance(differences), grain**2 / 6))
    return Posterior(fmean(differences), scale, n - 1, n, rho)


def signed_rank(
    settings: Sequence[float | Posterior], rope: float, higher_is_better: bool = True, draws: int = DRAWS, seed: int = 0
) -> Odds:
    """Return the odds of the Bayesian signed-rank test over settings (Benavoli and others, ICML 2014; JMLR 18, 2017).

    Which settings occur in practice is uncertain: a Dirichlet process weights those at hand, and one imagined setting
    without a difference. Each draw of the weights is won by the region that has most of the pairwise averages
    (z_i + z_j) / 2 of the settings' mean differences.

    Departure from the papers: they take the z_i as known. Here that holds for a number; for a `Posterior` every draw
    has another value, so that a few trials that scatter widely do not count as evidence of equality.
    """
    import numpy as np

    from silobench.rng import stream

    if not settings:
        raise ConfigError("a comparison over settings needs at least one setting.")
    known = [z if isinstance(z, Posterior) else Posterior(z, 0.0, 1, 1, 0.0) for z in settings]
    rng, half = stream(seed, "signed-rank"), draws // 2
    weights = rng.dirichlet([PRIOR_STRENGTH, *[1.0] * len(known)], half)
    noise = np.stack([np.zeros(half), *(z.scale * rng.standard_t(z.dof, half) for z in known)], axis=1)
    means = np.array([0.0, *(z.mean for z in known)])
    wins = np.zeros(3)
    at_once = max(1, min(_AT_ONCE, _PAIRS_AT_ONCE // len(means) ** 2))
    for part in np.array_split(np.arange(half), 1 + half // at_once):
        for sign in (1, -1):  # each draw with its mirror image: swapping A and B then swaps the odds to the last digit
            wins += _wins(means + sign * noise[part], weights[part], rope)
    up, equal, down = (wins / wins.sum()).tolist()
    return Odds(up, equal, down) if higher_is_better else Odds(down, equal, up)


def _wins(z: "NDArray[np.float64]", weights: "NDArray[np.float64]", rope: float) -> "NDArray[np.float64]":
    """Return how many draws have most of their mass above, inside and below the region; a tie is split."""
    import numpy as np

    averages = (z[:, :, None] + z[:, None, :]) / 2
    pairs = weights[:, :, None] * weights[:, None, :]
    above, below = ((pairs * side).sum((1, 2)) for side in (averages > rope, averages < -rope))
    mass = np.stack([above, 1 - above - below, below], axis=1)
    best = mass == mass.max(axis=1, keepdims=True)
    counted: NDArray[np.float64] = (best / best.sum(1, keepdims=True)).sum(0)
    return counted
