"""Accountants against dp-accounting, closed forms and integrals; noise for a target; the ledger as tensors."""

import logging
import math
from statistics import NormalDist

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting.rdp import RdpAccountant, rdp_privacy_accountant
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.errors import ConfigError
from silobench.privacy.accountant import Entry, epsilon, epsilon_pld, noise_for
from silobench.privacy.divergences import ORDERS, divergences, quiet
from silobench.privacy.ledger import ALL_PARTIES, Ledger
from silobench.privacy.mechanism import Mechanism, Sampling

SETTINGS = [  # noise, rate, steps, delta, epsilon by RDP, epsilon by PLD
    (1.0, 0.01, 1000, 1e-5, 2.1014, 1.8282),
    (0.7, 0.05, 500, 1e-5, 18.3148, 16.4828),
    (2.0, 0.1, 200, 1e-6, 4.1176, 3.8059),
    (1.1, 256 / 60000, 14000, 1e-5, 2.5904, 2.3759),
    (4.0, 1.0, 50, 1e-5, 9.2350, 8.5959),
]


def row(noise: float, rate: float = 1.0, sampling: Sampling = "poisson", delta: float = 1e-5) -> Mechanism:
    return Mechanism("example", delta, noise, rate, sampling)


# --- dp-accounting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "rate", "steps", "delta", "rdp", "pld"), SETTINGS)
def test_epsilon_is_that_of_dp_accounting(
    noise: float, rate: float, steps: int, delta: float, rdp: float, pld: float
) -> None:
    gaussian = dp_accounting.GaussianDpEvent(noise)
    event = dp_accounting.PoissonSampledDpEvent(rate, gaussian) if rate < 1 else gaussian
    entries = [(row(noise, rate), steps // 2), (row(noise, rate), steps - steps // 2)]
    ours = epsilon(entries, delta)
    theirs = RdpAccountant().compose(event, steps).get_epsilon(delta)
    assert theirs <= ours <= theirs + 1e-6  # what rounding may take away is added
    assert ours == pytest.approx(rdp, abs=5e-5)
    assert epsilon_pld([(row(noise, rate), steps)], delta) == pytest.approx(pld, abs=5e-5)


def test_other_orders_give_a_larger_epsilon() -> None:
    entries, integers = [(row(0.7, 0.05), 500)], tuple(float(order) for order in range(2, 64))
    theirs = RdpAccountant(integers).compose(
        dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(0.7)), 500
    )
    assert epsilon(entries, 1e-5, integers) == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)
    assert epsilon(entries, 1e-5, integers) > epsilon(entries, 1e-5)


@pytest.mark.parametrize(
    ("noise", "rate"), [(0.3, 0.9), (0.5, 0.002), (1.1, 0.004), (3.0, 0.6), (20.0, 0.5), (80.0, 0.03)]
)
def test_divergences_are_those_of_dp_accounting(noise: float, rate: float) -> None:
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    with quiet():
        theirs = RdpAccountant().compose(event).rdp  # infinity where its series does not converge
    known = np.isfinite(theirs)
    ours, theirs, before = divergences(noise, rate), theirs[known], np.array(ORDERS)[known] - 1
    assert (np.isfinite(ours) == known).all()
    assert known.sum() > 60
    # What rounding may take away is added to the logarithm of the moment, which is the order - 1 times the divergence.
    assert (before * np.abs(ours[known] - theirs) <= 2e-11 + 1e-7 * before * theirs).all()


def test_the_orders_are_those_of_dp_accounting() -> None:
    assert list(ORDERS) == pytest.approx(rdp_privacy_accountant.DEFAULT_RDP_ORDERS, rel=1e-15)


def test_several_mechanisms_compose_as_in_dp_accounting() -> None:
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.2)), 300)
    accountant.compose(dp_accounting.GaussianDpEvent(5.0), 7)
    accountant.compose(dp_accounting.ZCDpEvent(0.01), 3)
    entries = [(row(1.2, 0.02), 300), (row(5.0), 7), (Mechanism("example", 1e-5, rho=0.01), 3)]
    theirs = accountant.get_epsilon(1e-5)
    assert theirs <= epsilon(entries, 1e-5) <= theirs * 1.001  # rho counts at whole orders only
    assert epsilon(entries[:2], 1e-5) < theirs * 0.99
    assert epsilon_pld(entries, 1e-5) is None  # of zero-concentrated privacy no distribution is known


def test_samples_of_a_fixed_size_count_a_replaced_unit_twice() -> None:
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    orders = [float(order) for order in range(2, 33)]
    event = dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, dp_accounting.GaussianDpEvent(4.0 / 2))
    theirs = RdpAccountant(orders, relation).compose(event).rdp
    whole = np.array(orders) / (2 * 4.0**2)
    ours = divergences(4.0, 0.01, tuple(orders), "fixed")
    assert np.allclose(ours, np.minimum(theirs, whole), rtol=1e-12)
    assert (theirs < whole).any()
    assert epsilon([(row(4.0, 0.01, "fixed"), 100)], 1e-5) < epsilon([(row(4.0), 100)], 1e-5)
    assert epsilon_pld([(row(4.0, 0.01, "fixed"), 100)], 1e-5) is None


@pytest.fixture
def no_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every calculation of privacy loss distributions fail."""
    monkeypatch.setattr(dp_accounting.pld, "PLDAccountant", None)


def test_distributions_are_calculated_once(request: pytest.FixtureRequest) -> None:
    entries = [(row(3.21, 0.1), 7)]
    once = epsilon_pld(entries, 1e-5)
    request.getfixturevalue("no_distributions")
    assert once is not None
    assert epsilon_pld(entries, 1e-5) == once
    same = Mechanism("example", 1e-5, 3.21, 0.1, budget=8.0)  # the budget does not affect epsilon
    assert epsilon_pld(((same, 7),), 1e-5) == once
    for other, delta in (([(row(3.21, 0.1), 8)], 1e-5), ([(row(3.22, 0.1), 7)], 1e-5), (entries, 1e-6)):
        with pytest.raises(TypeError):
            epsilon_pld(other, delta)


@pytest.mark.parametrize(
    "entries",
    [
        [(row(0.25, 0.01), 1)],
        [(row(4.0, 0.01), 100), (row(0.2, 0.01), 1)],
        [(row(1 + number / 100, 0.1), 5) for number in range(10)],
        [(row(1.0), 50)],
    ],
)
def test_distributions_that_take_long_are_left_out(entries: list[Entry], no_distributions: None) -> None:
    assert epsilon_pld(entries, 1e-5) is None


@pytest.mark.parametrize("entries", [[(row(0.3, 0.01), 10_000)], [(row(30.0), 10_000)], [(row(0.01), 0)]])
def test_distributions_that_take_seconds_are_calculated(entries: list[Entry], no_distributions: None) -> None:
    with pytest.raises(TypeError):
        epsilon_pld(entries, 1e-5)


def test_loggers_stay_as_they_were() -> None:
    """absl's logger, which dp-accounting uses, would let the root logger print everything from its first warning on."""
    before = list(logging.getLogger().handlers)
    epsilon([(row(0.7123, 0.05), 500)], 1e-5)  # some orders do not converge
    assert logging.getLogger().handlers == before


# --- formulas -----------------------------------------------------------------------------------------


def test_gaussian_noise_by_the_exact_formula() -> None:
    """Balle and Wang (2018): delta of the Gaussian mechanism. n releases are one with noise / sqrt(n)."""

    def delta(epsilon: float, noise: float) -> float:
        below = NormalDist().cdf
        half, share = 1 / (2 * noise), epsilon * noise
        return below(half - share) - math.exp(epsilon) * below(-half - share)

    tight = epsilon_pld([(row(4.0), 50)], 1e-5)
    assert tight is not None
    assert delta(tight, 4.0 / math.sqrt(50)) == pytest.approx(1e-5, rel=1e-2)
    assert delta(epsilon([(row(4.0), 50)], 1e-5), 4.0 / math.sqrt(50)) < 1e-5  # an upper bound


def _divergence(p: list[tuple[float, float]], q: list[tuple[float, float]], noise: float, order: float) -> float:
    """Return the Rényi divergence of two mixtures of Gaussians, given as (share, mean), by an integral."""
    x = np.linspace(-40 * noise, 40 * noise + 3 * order, 400_001)

    def log_density(mixture: list[tuple[float, float]]) -> np.ndarray:
        parts = [math.log(share) - (x - mean) ** 2 / (2 * noise**2) for share, mean in mixture]
        return np.logaddexp.reduce(parts) - math.log(noise * math.sqrt(2 * math.pi))

    exponent = order * log_density(p) + (1 - order) * log_density(q)
    largest = exponent.max()
    return float((largest + math.log(np.exp(exponent - largest).sum() * (x[1] - x[0]))) / (order - 1))


@pytest.mark.parametrize(("noise", "rate"), [(0.7, 0.05), (1.0, 0.01), (2.0, 0.1)])
def test_divergences_of_poisson_samples_by_integrals(noise: float, rate: float) -> None:
    """At integer orders they are exact. Between them, dp-accounting's are upper bounds."""
    orders = (1.5, 2.0, 2.1, 2.5, 3.0, 6.5)
    true = [_divergence([(1 - rate, 0.0), (rate, 1.0)], [(1.0, 0.0)], noise, order) for order in orders]
    ours = divergences(noise, rate, orders)
    assert (ours >= true).all()
    assert ours[[1, 4]] == pytest.approx([true[1], true[4]], rel=1e-6)
    assert ours[1] == pytest.approx(math.log1p(rate**2 * math.expm1(1 / noise**2)), rel=1e-6)


@pytest.mark.parametrize("other", [-1.0, 0.0, 1.0])
def test_a_sample_of_one_of_two_stays_below_the_bound(other: float) -> None:
    """Unit 0 contributes 1 or nothing, unit 1 contributes `other`, and one of them is drawn."""
    noise, orders = 2.0, (2.0, 3.0, 8.0, 20.0)
    with_unit, without = [(0.5, 1.0), (0.5, other)], [(0.5, 0.0), (0.5, other)]
    bound = divergences(noise, 0.5, orders, "fixed")
    for order, most in zip(orders, bound, strict=True):
        assert _divergence(with_unit, without, noise, order) <= most
        assert _divergence(without, with_unit, noise, order) <= most


def test_zero_concentrated_privacy_by_its_conversion() -> None:
    rho = 0.05
    spent = epsilon([(Mechanism("party", 1e-6, rho=rho / 10), 10)], 1e-6)
    assert 0 < spent <= rho + 2 * math.sqrt(rho * math.log(1e6))  # Bun and Steinke (2016)


def test_no_noise_is_no_protection_and_no_release_costs_nothing() -> None:
    assert epsilon([(row(0.0, 0.1), 1)], 1e-5) == math.inf
    assert epsilon_pld([(row(0.0, 0.1), 1)], 1e-5) == math.inf
    assert epsilon([], 1e-5) == epsilon([(row(0.0), 0)], 1e-5) == 0


def test_tiny_divergences_do_not_vanish_by_rounding() -> None:
    once, often = (epsilon([(row(1000.0, 0.001), count)], 1e-9) for count in (10**6, 10**10))
    assert 0 < once < often
    # The leading term of a large order: order q^2 / (2 noise^2) per release.
    least = 10**10 * 1e-12 / 2
    assert often > least


def test_divergences_by_hand() -> None:
    orders = (1.5, 2.0, 2.5, 3.0)
    assert divergences(3.0, 1.0, orders).tolist() == [order / (2 * 9) for order in orders]
    assert divergences(0.0, 1.0, orders, rho=0.1).tolist() == pytest.approx([0.2, 0.2, 0.3, 0.3])  # at whole orders
    assert divergences(0.0, 0.5, orders).tolist() == [math.inf] * 4
    fixed = divergences(40.0, 0.001, (64.0, 65.0), "fixed")
    assert fixed[0] < 0.5 * 64 / 3200
    assert fixed[1] == 65 / 3200  # not known for samples, so that of all units counts


def test_the_conversion_by_hand() -> None:
    """Proposition 12 of Canonne, Kamath and Steinke at one order, which is 3 here."""
    spent = epsilon([(row(2.0), 5), (row(1.0), 2)], 1e-5, (3.0,))
    curve = 5 * 3 / 8 + 2 * 3 / 2
    assert spent == pytest.approx(curve + math.log(2 / 3) - math.log(1e-5 * 3) / 2, rel=1e-12)
    assert epsilon([(row(1e6), 1)], 0.9, (3.0,)) == 0  # never negative
    tiny = Mechanism("party", 0.1, rho=0.001)  # 1 - exp(-0.003) is below the square of delta
    assert epsilon([(tiny, 1)], 0.1, (3.0,)) == 0
    assert epsilon([(tiny, 4)], 0.1, (3.0,)) > 0


def test_how_wide_distributions_may_be(no_distributions: None) -> None:
    """Up to 3.5: that of a release with noise 2/7, or of four releases of all units with twice that noise."""
    for entries in ([(row(2 / 7, 0.01), 9)], [(row(4 / 7), 4)], [(row(0.4, 0.01), 3), (row(1.0), 1)]):
        with pytest.raises(TypeError):
            epsilon_pld(entries, 1e-7)
    for entries in ([(row(0.2857, 0.01), 9)], [(row(4 / 7), 5)], [(row(0.4, 0.01), 3), (row(0.99), 1)]):
        assert epsilon_pld(entries, 1e-7) is None
    assert epsilon_pld([(row(4.0, 1.0, "fixed"), 0), (row(0.0, 0.1), 1)], 1e-7) == math.inf


# --- noise for a target -------------------------------------------------------------------------------


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.floats(0.05, 8), st.sampled_from([0.003, 0.07, 0.5, 1.0]), st.integers(1, 5000))
def test_the_noise_is_enough_and_not_much_more(target: float, rate: float, steps: int) -> None:
    noise = noise_for(target, 1e-5, rate, steps)
    assert epsilon([(row(noise, rate), steps)], 1e-5) <= target
    assert noise <= 0.0101 or epsilon([(row(0.998 * noise, rate), steps)], 1e-5) > target


@pytest.mark.parametrize(("target", "rate"), [(0.5, 0.1), (8.0, 0.5)])
def test_the_noise_of_samples_of_a_fixed_size(target: float, rate: float) -> None:
    noise = noise_for(target, 1e-5, rate, 30, "fixed")
    assert 0.9 * target < epsilon([(row(noise, rate, "fixed"), 30)], 1e-5) <= target


@pytest.mark.parametrize("target", [0.2, 0.3, 0.5, 0.8, 1.2, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0])
def test_the_noise_of_samples_of_a_fixed_size_is_the_least_by_eleven_orders(target: float) -> None:
    """Each target has another one of these orders for its best, the first target the last order."""
    orders = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
    noise = noise_for(target, 1e-5, 0.05, 30, "fixed")
    spent, more = (epsilon([(row(each, 0.05, "fixed"), 30)], 1e-5, orders) for each in (noise, noise / 1.0002))
    assert spent <= target < more


@pytest.mark.parametrize("target", [0.02, 0.1, 0.11, 0.15, 0.2])
@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_noise_of_samples_of_a_fixed_size_is_never_useless(target: float, rate: float) -> None:
    """Orders up to 64 alone ask for a noise of 109,550 for an epsilon of 0.1 at the rate 0.05, and more for others."""
    noise, unsampled = noise_for(target, 1e-5, rate, 30, "fixed"), noise_for(target, 1e-5, 1.0, 30)
    assert noise <= 2 * unsampled
    assert epsilon([(row(noise, rate, "fixed"), 30)], 1e-5) <= target


def test_samples_of_a_fixed_size_have_noise_where_no_order_up_to_64_has_any() -> None:
    assert noise_for(0.07, 1e-8, 0.01, 30, "fixed") == noise_for(0.07, 1e-8, 1.0, 30)
    with pytest.raises(ConfigError, match="no noise is enough"):
        noise_for(1e-9, 1e-12, 0.5, 10**9, "fixed")


def test_the_noise_of_samples_of_a_fixed_size_stays_where_it_was_of_use() -> None:
    """A run that is solved anew has the same noise: 1.4 times that without sampling is not yet useless."""
    few, unsampled = noise_for(0.12, 1e-5, 1.0, 30, "fixed"), noise_for(0.12, 1e-5, 1.0, 30)
    assert 1.4 < few / unsampled < 1.42
    assert 1.01 < noise_for(2.0, 1e-5, 0.6, 30, "fixed") / noise_for(2.0, 1e-5, 1.0, 30) < 1.02


def test_the_noise_has_four_digits() -> None:
    noise = noise_for(2.0, 1e-5, 1.0, 30)
    assert epsilon([(row(noise), 30)], 1e-5) <= 2 < epsilon([(row(noise / 1.0001), 30)], 1e-5)
    assert noise_for(1e9, 1e-5, 1.0, 1) == 0.01  # the least that is tried
    with pytest.raises(ConfigError, match=r"no noise is enough for epsilon=1e-09: give a larger epsilon, or fewer"):
        noise_for(1e-9, 1e-12, 1.0, 10**9)


@pytest.mark.parametrize(
    ("target", "delta", "rate", "steps"),
    [
        (0.0, 1e-5, 0.1, 10),
        (1.0, 0.0, 0.1, 10),
        (1.0, 1.0, 0.1, 10),
        (1.0, 1e-5, 0.0, 10),
        (1.0, 1e-5, 1.01, 10),
        (1.0, 1e-5, 0.1, -1),
    ],
)
def test_impossible_targets_are_refused(target: float, delta: float, rate: float, steps: int) -> None:
    with pytest.raises(ConfigError, match="must be positive, delta between 0 and 1"):
        noise_for(target, delta, rate, steps)


def test_no_steps_need_no_noise() -> None:
    assert noise_for(1.0, 1e-5, 0.1, 0) == 0


# --- the ledger ---------------------------------------------------------------------------------------


def test_a_ledger_comes_back_from_its_tensors() -> None:
    mechanisms = [
        row(1.1, 0.03),
        row(1.1, 0.03, "shuffled"),
        Mechanism("party", 1e-6, 0.7, 0.5, "fixed", rho=0.25, reproducible=True),
    ]
    charges = [(party, each, 3 + party) for party in (2, 0) for each in mechanisms[:2]]
    ledger = Ledger().charged([*charges, (ALL_PARTIES, mechanisms[2], 1)])
    again = Ledger.of(ledger.memory())
    assert again == ledger
    assert list(again.counts) == list(ledger.counts)  # in the same order, so that the bits are the same
    assert Ledger.of({}) == Ledger()
    assert {name: values.dtype for name, values in ledger.memory().items()} == {
        name: values.dtype for name, values in Ledger().memory().items()
    }


def test_a_ledger_by_hand() -> None:
    party, rows = Mechanism("party", 1e-6, rho=0.0), row(2.0, 0.5, "shuffled")
    ledger = Ledger().charged([(3, rows, 2), (1, rows, 1), (ALL_PARTIES, party, 4)]).charged([(1, rows, 5)])
    assert ledger.entries("example") == {1: [(rows, 6)], 3: [(rows, 2)]}
    assert list(ledger.entries("example")) == [1, 3]
    assert ledger.entries("party") == {-1: [(party, 4)]}
    memory = {name: values.tolist() for name, values in ledger.memory().items()}
    assert memory == {
        "party": [3, 1, -1], "count": [2, 6, 4], "unit": [0, 0, 1], "sampling": [2, 2, 0], "reproducible": [0, 0, 0],
        "delta": [1e-5, 1e-5, 1e-6], "noise": [2.0, 2.0, 0.0], "rate": [0.5, 0.5, 1.0], "rho": [-1.0, -1.0, 0.0],
    }  # fmt: skip
    assert Ledger.of(ledger.memory()) == ledger  # also a rho of 0
    assert party == Mechanism("party", 1e-6, 0.0, 1.0, "poisson", 0.0, False, None)


def test_equal_releases_are_one_line_whatever_their_budget() -> None:
    once = Ledger().charged([(0, row(1.0, 0.1), 5)])
    budget = Mechanism("example", 1e-5, 1.0, 0.1, budget=3.0)
    assert once.charged([(0, budget, 2)]).memory()["count"].tolist() == [7]
    assert torch.equal(once.memory()["party"], torch.tensor([0]))
