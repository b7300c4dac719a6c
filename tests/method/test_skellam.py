"""Skellam noise: the distribution of the sampler, its tails, and what a sum with it reveals."""

import hashlib
import math

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import ive

from silobench.privacy.randomness import Randomness
from silobench.privacy.skellam import _accepted, _log_probability, poisson, rho, skellam, tail

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


# Numbers of one seed, as a hash. A trial that is decided wrongly changes it, also if no distribution could show that.
FIRST_70_000 = {
    0.4: "fa050321c639", 9.99: "80ad849ce0dc", 10.0: "d749715e3a79", 77.5: "43a910c554b6",
    4095.0: "2be5c917cb83", 4097.0: "102078ece1a0", 1e6: "7f799c73490b", 3.7e10: "637e12f807dc",
}  # fmt: skip


@pytest.mark.parametrize("mean", FIRST_70_000)
def test_a_seed_draws_the_numbers_of_earlier_versions(mean: float) -> None:
    values = poisson(Randomness.seeded(5, "fixed"), mean, 70_000)  # more than a block
    assert hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()[:12] == FIRST_70_000[mean]


def test_skellam_numbers_are_differences_of_poisson_numbers() -> None:
    random, same = Randomness.seeded(5, "fixed"), Randomness.seeded(5, "fixed")
    assert skellam(random, 30.0, 50).tolist() == (poisson(same, 15.0, 50) - poisson(same, 15.0, 50)).tolist()


@pytest.mark.parametrize("mean", [10.0, 77.5, 4095.0, 4097.0, 1e6, 3.7e10])
def test_logarithms_of_probabilities_are_exact(mean: float) -> None:
    """Against 50 digits, from eight deviations below the mean to eight above it, and far away down to 10."""
    near = [round(mean + share * math.sqrt(mean)) for share in np.linspace(-8, 8, 17)]
    far = [10, 20, *(round(mean * part) for part in (0.5, 0.98, 1.02, 2.0))]
    values = sorted({max(1, value) for value in (*near, *far)})
    with mpmath.workdps(50):
        exact = [float(k * mpmath.log(mean) - mean - mpmath.loggamma(k + 1)) for k in map(mpmath.mpf, values)]
    ours = _log_probability(np.array(values, np.float64), mean)
    assert ours.tolist() == pytest.approx(exact, rel=1e-12, abs=1e-10)


@pytest.mark.parametrize("mean", [10.0, 77.5, 1000.0])
def test_short_cuts_decide_as_the_rule_of_rejection_does(mean: float) -> None:
    """A trial is accepted if its height times the hull is below the probability of its value, also far in the tails.

    Random draws hardly ever get there: the tails would be cut off, and no distribution could show it.
    """
    slope = 0.931 + 2.53 * math.sqrt(mean)
    bend = -0.059 + 0.02483 * slope
    places, heights = (np.arange(1000) + 0.5) / 1000, np.append(np.geomspace(1e-9, 0.05, 60), np.linspace(0.06, 1, 60))
    first, second = (each.ravel() for each in np.meshgrid(places, 1 - heights))
    place, height = first - 0.5, 1 - second
    edge = 0.5 - np.abs(place)
    values = np.floor((2 * bend / edge + slope) * place + mean + 0.43)
    hull = (1.1239 + 1.1328 / (slope - 3.4)) / (bend / edge**2 + slope)
    above = stats.poisson.logpmf(values, mean) - np.log(height * hull)
    clear = ~(np.abs(above) < 1e-9)  # of what rounding could decide
    assert clear.sum() > 0.999 * len(clear)
    assert (edge[clear & (above > 0)] < 0.013).sum() > 50
    random, draws = Randomness(bytes(32)), iter((first[clear], second[clear]))
    random.uniform = lambda count: next(draws)  # type: ignore[method-assign]
    accepted = _accepted(random, mean, int(clear.sum()))
    assert accepted.tolist() == values[clear & (above > 0)].tolist()


@pytest.mark.parametrize("mean", [1e6, 1e8, 1e10])
def test_the_series_of_a_probability_is_as_exact_as_float64(mean: float) -> None:
    """Up to one percent from the mean, where the series takes over from logarithms.

    Some twenty operations have a relative error of 2^-53 each; what is left out of the series is below 2^-55 of it.
    """
    values = [mean + round(mean * share) for share in (-0.0099, -0.007, -0.003, 0.003, 0.007, 0.0099)]
    with mpmath.workdps(50):
        exact = [float(k * mpmath.log(mean) - mean - mpmath.loggamma(k + 1)) for k in map(mpmath.mpf, values)]
    assert _log_probability(np.array(values), mean).tolist() == pytest.approx(exact, rel=2.0**-48, abs=0)


def of_constant(share: float) -> Randomness:
    """Return random numbers whose uniform numbers are all the same."""
    random = Randomness(bytes(32))
    random.uniform = lambda count: np.full(count, share)  # type: ignore[method-assign]
    return random


def test_the_largest_uniform_number_gives_a_number_of_the_table() -> None:
    """The table ends at 99. Rounding may leave the sum of its probabilities below the largest uniform number."""
    largest = [poisson(of_constant(1 - 2.0**-53), mean, 1)[0] for mean in np.linspace(0.01, 9.99, 999)]
    assert max(largest) <= 99


@pytest.mark.parametrize("mean", [10.0, 1e6, 3.7e10])
def test_the_smallest_uniform_number_is_rejected_without_a_warning(mean: float) -> None:
    """Zero is at the very edge, by whose width others are divided."""
    with np.errstate(all="raise"):
        assert not len(_accepted(of_constant(0.0), mean, 3))


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
    assert rho(0.0, 0.0) == 0


def test_rho_and_tail_by_hand() -> None:
    assert rho(2.0, 4.0) == 4 / 8 + 9 / 8 * 4 / 16  # little noise, and so the other term is smaller:
    assert rho(2.0, 1.0) == 4 / 2 + 3 / 4 * 4
    assert tail(1.0) == pytest.approx(64 + 0.5431, rel=1e-12)  # at t = 1
    assert tail(1e5) == pytest.approx(2 * math.sqrt(0.5431 * 64 * 1e5), rel=1e-12)  # at the t of the least bound
    edge = 64 / 0.5431  # the best t is 1 there
    assert tail(edge * 0.99) == pytest.approx(64 * 1.99, rel=1e-12)
    assert tail(edge * 1.01) == pytest.approx(2 * 64 * math.sqrt(1.01), rel=1e-12)
