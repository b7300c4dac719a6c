"""The one-run audit: its p-value against slow versions and simulations, and the bound that follows from it."""

import itertools
import math

import numpy as np
import pytest

from silobench.privacy.audit import CONFIDENCE, _outcomes, audit, lower_bound, p_value

COUNTS = [(1000, 500, 400), (1000, 500, 500), (50, 10, 3), (30, 30, 1), (400, 256, 200), (10, 10, 10), (5, 5, 0)]


def tail(guesses: int, least: int, rate: float) -> float:
    """Return the probability of at least this many successes, by summing exact binomial coefficients."""
    if least <= 0:
        return 1.0
    terms = (math.comb(guesses, k) * rate**k * (1 - rate) ** (guesses - k) for k in range(least, guesses + 1))
    return math.fsum(terms)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0, 8.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize(("canaries", "guesses", "correct"), COUNTS)
def test_p_value_is_the_formula_of_the_theorem(
    canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> None:
    rate = 1 / (1 + math.exp(-epsilon))
    at = tail(guesses, correct, rate)
    masses = [math.comb(guesses, k) * rate**k * (1 - rate) ** (guesses - k) for k in range(correct - 1, -1, -1)]
    below = [*itertools.accumulate(masses), *[1 - at] * (canaries - correct)]  # f(v - i) - f(v) for i = 1 .. m
    steepest = max(mass / i for i, mass in enumerate(below, 1))
    by_hand = min(1.0, at + 2 * canaries * delta * steepest)
    assert p_value(canaries, guesses, correct, epsilon, delta) == pytest.approx(by_hand, rel=1e-9, abs=1e-13)


def test_p_value_is_the_share_of_runs_of_randomised_response() -> None:
    """Guesses that are correct at the rate of epsilon are as much as pure epsilon-privacy allows."""
    runs, guesses, epsilon = 20_000, 40, 1.0
    correct = np.random.default_rng(0).binomial(guesses, 1 / (1 + math.exp(-epsilon)), runs)
    for least in (25, 30, 35):
        share = (correct >= least).mean()
        assert share == pytest.approx(p_value(guesses, guesses, least, epsilon, 0.0), abs=4 / math.sqrt(4 * runs))


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_p_value_holds_for_mechanisms_that_use_their_delta(epsilon: float, delta: float) -> None:
    """One reveals all coins with probability delta; the other reveals each coin with probability delta."""
    guesses, rate = 60, 1 / (1 + math.exp(-epsilon))
    for least in range(guesses + 1):
        stated = p_value(guesses, guesses, least, epsilon, delta)
        at_once = delta + (1 - delta) * tail(guesses, least, rate)
        one_by_one = tail(guesses, least, delta + (1 - delta) * rate)
        assert stated * (1 + 1e-9) >= max(at_once, one_by_one)


@pytest.mark.parametrize("guesses", [100, 500, 1000, 5000])
def test_the_ceiling_where_all_guesses_are_correct(guesses: int) -> None:
    rate = 0.05 ** (1 / guesses)  # all are correct with a probability of 5%
    assert lower_bound(guesses, guesses, guesses, 0.0) == pytest.approx(math.log(rate / (1 - rate)), abs=1e-6)


def test_the_bound_is_where_the_p_value_crosses_the_error() -> None:
    bound = lower_bound(1000, 200, 170, 1e-5)
    assert p_value(1000, 200, 170, bound, 1e-5) <= 0.05 < p_value(1000, 200, 170, bound + 1e-6, 1e-5)
    assert lower_bound(1000, 200, 105, 1e-5) == 0.0  # as many as without any leak
    assert lower_bound(1000, 200, 200, 1e-3) == 0.0  # 2 m delta is above 1


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_bound_of_an_audit_is_seldom_above_the_truth(epsilon: float) -> None:
    """Randomised response on every coin, from a fixed seed. At most 5% of audits may be wrong."""
    rng, runs, count = np.random.default_rng(1), 100, 128
    above = 0
    for _ in range(runs):
        joined = rng.random(count) < 0.5
        correct = rng.random(count) < 1 / (1 + math.exp(-epsilon))
        scores = np.where(joined == correct, 1.0, -1.0) * rng.random(count)
        above += audit(scores, joined, 0.0).epsilon > epsilon
    assert above <= 0.05 * runs


def test_the_guesses_of_every_rule_by_hand() -> None:
    """Sixteen canaries by their rank: both ends of 8, 4, 2, 1 and 1 (rounded up) each, then the top 6, 4, 2 and 1."""
    ranked = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0], bool)
    both = [(16, 5 + 5), (8, 3 + 3), (4, 2 + 2), (2, 1 + 1), (2, 1 + 1)]
    assert _outcomes(ranked) == [*both, (6, 5), (4, 3), (2, 2), (1, 1)]
    assert _outcomes(ranked[:3]) == [(3, 2 + 1), *[(2, 1 + 1)] * 4, (2, 2), (1, 1), (1, 1), (1, 1)]
    assert _outcomes(ranked[:1]) == [(1, 1)] * 9


def test_every_rule_is_tested_at_its_share_of_the_error() -> None:
    joined = np.arange(1000) % 2 == 0
    found = audit(joined.astype(float), joined, 1e-5, confidence=0.9)
    assert found.epsilon == lower_bound(1000, 900, 900, 1e-5, (1 - 0.9) / 9)
    assert found.confidence == 0.9
    assert lower_bound(1000, 900, 900, 1e-5) == lower_bound(1000, 900, 900, 1e-5, 1 - 0.95)


def test_an_audit_finds_the_rule_that_suits_the_scores() -> None:
    rng = np.random.default_rng(2)
    joined = np.arange(1000) % 2 == 0
    perfect = audit(joined.astype(float), joined, 1e-5)
    assert (perfect.guesses, perfect.correct, perfect.canaries, perfect.confidence) == (900, 900, 1000, CONFIDENCE)
    assert perfect.epsilon > 5
    half = audit(np.where(joined & (rng.random(1000) < 0.6), 1.0, 0.0), joined, 1e-5)  # the others look the same
    assert half.guesses == half.correct == 250
    assert 3.5 < half.epsilon < 4
    extreme = rng.random(1000) < 0.13  # most scores are noise, and both ends are sure
    few = audit(np.where(extreme, np.where(joined, 9.0, -9.0), rng.random(1000)), joined, 1e-5)
    assert few.guesses == few.correct == 126


def test_an_audit_of_scores_without_information_shows_nothing() -> None:
    joined = np.random.default_rng(3).random(1000) < 0.5
    assert audit(np.zeros(1000), joined, 1e-5).epsilon == 0.0
    assert audit(-joined.astype(float), joined, 1e-5).epsilon == 0.0  # it looks for high scores


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (10, 5, -1)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="give counts that can be"):
        p_value(*counts, 1.0, 0.0)


def test_scores_and_coins_of_different_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="give one of each for every canary"):
        audit(np.zeros(3), np.zeros(2, bool), 1e-5)
