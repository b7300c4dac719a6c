"""Two-sided geometric noise: its distribution, its scale and its randomness."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from silobench.privacy.geometric import _below, exact_scale, geometric, variance
from silobench.privacy.randomness import Randomness

DRAWS = 20_000


@pytest.mark.parametrize("scale", [0.5, 1.0, 4.0])
def test_frequencies_are_those_of_the_distribution(scale: float) -> None:
    values = geometric(Randomness.seeded(1, "test"), scale, DRAWS)
    ratio = math.exp(-1 / scale)
    span = int(4 * scale) + 1
    chances = [(1 - ratio) / (1 + ratio) * ratio ** abs(value) for value in range(-span, span + 1)]
    counts = [int((values == value).sum()) for value in range(-span, span + 1)]
    rest = DRAWS - sum(counts), DRAWS * (1 - sum(chances))
    test = stats.chisquare([*counts, rest[0]], [*(DRAWS * chance for chance in chances), rest[1]])
    assert test.pvalue > 1e-4  # the draws are fixed by the seed: this fails for a wrong distribution only


@pytest.mark.parametrize("scale", [0.3, 2.0, 13.7])
def test_variance_is_that_of_the_distribution(scale: float) -> None:
    values = geometric(Randomness.seeded(2, "test"), scale, DRAWS)
    kurtosis = 6 + 1 / variance(scale)  # at most: that of the Laplace distribution, and more for small scales
    error = variance(scale) * math.sqrt(kurtosis / DRAWS)
    assert abs(values.var() - variance(scale)) < 5 * error
    assert abs(values.mean()) < 5 * math.sqrt(variance(scale) / DRAWS)


def test_neighbours_differ_by_the_factor_of_epsilon() -> None:
    """Outputs of a count and of its neighbour have probabilities that differ by at most exp(epsilon)."""
    epsilon = 0.8
    noise = geometric(Randomness.seeded(3, "test"), 1 / epsilon, 80_000)
    counts = np.bincount(noise + 50, minlength=101).astype(float)
    here, there = counts[40:60], counts[41:61]  # P(output | n) and P(output | n - 1)
    enough = (here > 500) & (there > 500)
    ratio = np.abs(np.log(here[enough] / there[enough]))
    error = np.sqrt(1 / here[enough] + 1 / there[enough])
    assert enough.sum() >= 8
    assert (ratio < epsilon + 5 * error).all()
    assert (ratio > epsilon - 5 * error).all()  # and not much more noise than is needed


@pytest.mark.parametrize("bound", [3, 10**6, 2**33 + 1, 2**62 + 1])
def test_words_behind_the_last_multiple_of_a_bound_are_drawn_again(bound: int) -> None:
    """With them, the first rests would be more likely than the others."""
    multiple = 2**64 // bound * bound
    assert _below(iter([multiple, 2**64 - 1, multiple - 1]), bound) == bound - 1
    assert _below(iter([multiple - bound]), bound) == 0


def test_a_bound_that_divides_all_words_needs_each_of_them() -> None:
    assert _below(iter([2**64 - 1]), 2) == 1
    assert _below(iter([2**64 - 1]), 2**63) == 2**63 - 1


def test_scales_are_rounded_up() -> None:
    for scale in (1 / 3, 0.1, 7.77777777):
        assert 0 <= exact_scale(scale) - Fraction(scale) < Fraction(1, 10**6)


def test_secret_noise_is_not_repeated_and_seeded_noise_is() -> None:
    assert geometric(Randomness.secret(), 50.0, 30).tolist() != geometric(Randomness.secret(), 50.0, 30).tolist()
    first, second = (geometric(Randomness.seeded(4, "test"), 50.0, 30).tolist() for _ in range(2))
    assert first == second


def test_no_noise_has_no_variance() -> None:
    assert variance(0.0) == 0.0


def test_a_seed_draws_the_numbers_of_earlier_versions() -> None:
    random = Randomness.seeded(5, "fixed")
    first = [1, -6, 6, 4, 2, 1, -7, 9, 4, 2, -1, -3, -6, 2, -8, 3, -1, 5, 0, 1, 2, 2, -1, 2]
    assert geometric(random, 2.5, 24).tolist() == first
    many = geometric(Randomness.seeded(5, "fixed"), 13.7, 2000)  # more than a block of words
    assert hashlib.sha256(many.astype("<i8").tobytes()).hexdigest()[:12] == "991dbd085e62"
