"""Skellam noise: the distribution of the sampler, its tails, and what a sum with it reveals."""

import math

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import ive

from silobench.privacy.randomness import Randomness
from silobench.privacy.skellam import poisson, rho, skellam, tail

DRAWS = 30_000


def distance(values: np.ndarray, cdf, edges: np.ndarray) -> tuple[float, int]:
    """Return chi-square of values in bins, whose last values are `edges`, and its degrees of freedom."""
    expected = np.diff(np.concatenate([[0.0], cdf(edges), [1.0]])) * len(values)
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    used = expected > 5
    return float(((counts - expected)[used] ** 2 / expected[used]).sum()), int(used.sum()) - 1


def is_likely(values: np.ndarray, distribution) -> bool:
    """Whether values may come from a distribution; a false alarm has a probability of about 1e-7, once for a seed."""
    edges = np.unique(distribution.ppf(np.linspace(0.01, 0.99, 50)))
    square, freedom = distance(values, distribution.cdf, edges)
    return bool(stats.chi2.sf(square, freedom) > 1e-7)


@pytest.mark.parametrize("mean", [0.4, 9.99, 10.0, 77.5, 4095.0, 4097.0, 1e6, 3.7e10])
def test_poisson_numbers_have_their_distribution(mean: float) -> None:
    values = poisson(Randomness.seeded(3, "poisson"), mean, DRAWS)
    assert values.dtype == np.int64
    assert values.min() >= 0
    assert is_likely(values, stats.poisson(mean))
    assert not is_likely(values, stats.poisson(mean + 0.1 * math.sqrt(mean)))  # the test can fail
    assert np.var(values) == pytest.approx(mean, rel=6 * math.sqrt((2 + 1 / mean) / DRAWS))


def test_there_may_be_no_numbers_and_no_noise() -> None:
    assert len(poisson(Randomness.secret(), 100.0, 0)) == 0
    assert not poisson(Randomness.secret(), 0.0, 50).any()


def test_shares_of_parties_add_up_to_the_noise_of_one() -> None:
    parties, variance = 5, 36.0
    shares = [skellam(Randomness.seeded(2, "share", party), variance / parties, DRAWS) for party in range(parties)]
    assert is_likely(sum(shares), stats.skellam(variance / 2, variance / 2))
    assert not is_likely(sum(shares[1:]), stats.skellam(variance / 2, variance / 2))


@pytest.mark.parametrize("variance", [0.01, 1.0, 50.0, 117.0, 119.0, 1e5, 1e12])
def test_numbers_stay_within_their_tail(variance: float) -> None:
    size = tail(variance)
    best = optimize.minimize_scalar(
        lambda t: 2 * variance * math.sinh(t / 2) ** 2 - t * size, bounds=(0, 60), method="bounded"
    )
    assert best.fun <= -64 + 1e-6  # Chernoff: P(X > size) <= e^-64
    assert size <= 12 * math.sqrt(variance) + 200


@pytest.mark.parametrize("variance", [0.5, 2.0, 10.0, 80.0])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_rho_bounds_the_divergence_of_whole_orders(variance: float, length: int) -> None:
    """The exact divergence of two shifted Skellam distributions, whose probabilities are Bessel functions."""
    places = np.arange(-250, 251)
    logs = np.log(np.maximum(ive(np.abs(places), variance), 1e-300))
    near, far = logs[length:], logs[:-length]
    for order in (2, 3, 5, 9, 17):
        exponents = order * near + (1 - order) * far
        reliable = (near > -500) & (far > -500)
        exact = np.logaddexp.reduce(exponents[reliable]) / (order - 1)
        assert exact <= order * rho(length, variance) * (1 + 1e-9)
        if variance == 80 and order <= 3:
            assert order * rho(length, variance) <= exact * 1.06  # and not much above it


def test_rho_is_near_that_of_gaussian_noise_on_a_fine_grid() -> None:
    assert rho(1000.0, 1000.0**2) == pytest.approx(0.5, rel=1e-5)
    assert rho(1000.0, 1000.0**2) > 0.5
    assert rho(1.0, 0.0) == math.inf
