"""Numbers of a run, the two Bayesian tests and the ranking, each against a computation of another kind."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from silobench.analysis.bayes import Odds, Posterior, correlated_t, signed_rank
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import late_deviation
from silobench.analysis.ranking import interval_of, intervals_of, ranking, ranking_table
from silobench.analysis.statistics import bytes_to, class_accuracy, party_accuracy, rounds_to, spread, stability
from silobench.analysis.student import density, quantile, upper_tail
from silobench.errors import ConfigError
from silobench.runs.stored import StoredRun
from stored import cells, stored

CURVE = [(2, 0.3), (4, 0.7), (6, 0.6), (8, 0.8)]
DIFFERENCES = [0.012, 0.031, -0.004, 0.02, 0.017, 0.008, 0.026, -0.011, 0.015, 0.022, 0.003, 0.019]


def run_of(accuracies: list[float | None], seed: int = 0, counts: Any = ((1, 1),), **last: Any) -> StoredRun:
    rounds = [*[{}] * (len(accuracies) - 1), last]
    rows, sent = {"train": 80, "test": 20}, {"bytes_up": 10, "bytes_down": 3}
    return stored(accuracies, seed, rounds, every=sent, counts=counts, dataset_facts=rows, parties=len(counts))


# --- one run -----------------------------------------------------------------------------------------


def test_rounds_to_a_target_are_those_of_the_first_time() -> None:
    assert [rounds_to(CURVE, target) for target in (0.2, 0.65, 0.8, 0.81)] == [2, 4, 8, None]
    assert rounds_to([], 0.5) is None


@pytest.mark.parametrize(("rounds", "every", "is_long"), [(20, 1, True), (20, 2, True), (14, 1, False), (20, 5, False)])
def test_steadiness_needs_fifteen_rounds_and_ten_tests(rounds: int, every: int, is_long: bool) -> None:
    """Claims look at the last ten tests: the rise of a curve with four tests is no unsteadiness."""
    rising = [number / 100 if number % every == 0 else None for number in range(1, rounds + 1)]
    assert (late_deviation(run_of(rising)) is not None) == is_long


def test_many_settings_need_little_memory() -> None:
    """All pairs of 300 settings in 200 draws are 18 million numbers: they are never in memory together."""
    tracemalloc.start()
    try:
        signed_rank([0.02, -0.005, 0.03] * 100, rope=0.01, draws=400)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 * 200 * 301**2


def test_many_pairs_of_methods_need_little_memory_and_have_the_same_resamples() -> None:
    """The means of 1,500 pairs in 10,000 resamples are 120 MB: they are never in memory together."""
    pair = [1.0, 2.0, 2.0, 3.0, 1.0, 2.5]
    tracemalloc.start()
    try:
        intervals = intervals_of([pair] * 1500)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert set(intervals) == {interval_of(pair)}
    assert most < 8 * 10_000 * 1500


def test_bytes_to_a_target_count_the_rounds_between_tests_too() -> None:
    run = run_of([None, 0.3, None, 0.7, 0.9])
    assert run.curve() == [(2, 0.3), (4, 0.7), (5, 0.9)]
    assert bytes_to(run, 0.5) == 4 * 13
    assert bytes_to(run, 0.95) is None


def test_stability_is_the_deviation_of_the_last_rounds() -> None:
    assert stability(CURVE, last=2) == pytest.approx(np.std([0.6, 0.8], ddof=1))
    assert stability(CURVE) == pytest.approx(np.std([a for _, a in CURVE], ddof=1))
    assert stability(CURVE[:1]) is None


def test_spread() -> None:
    found = spread([0.9, 0.5, 0.7])
    assert found is not None
    assert (found.mean, found.std, found.worst, found.best) == pytest.approx((0.7, 0.2, 0.5, 0.9))
    assert spread([]) is None
    assert spread([1.0]).std is None  # type: ignore[union-attr]


def test_parties_are_measured_where_they_can_be() -> None:
    run = run_of([0.5], counts=((9, 1), (5, 5)), party_accuracy=[0.4, None, 0.8], class_accuracy=[1.0, 0.0])
    found = party_accuracy(run)
    assert found is not None
    assert (found.kind, found.each, found.spread.worst) == ("measured", (0.4, None, 0.8), 0.4)
    assert found.as_json()["mean"] == pytest.approx(0.6)


def test_else_their_label_mix_says_what_to_expect() -> None:
    found = party_accuracy(run_of([0.5, 0.5], counts=((9, 1), (5, 5), (0, 4)), class_accuracy=[1.0, 0.2]))
    assert found is not None
    assert found.kind == "expected from class accuracies"
    assert found.each == pytest.approx((0.92, 0.6, 0.2))


def test_what_was_not_recorded_is_not_known() -> None:
    assert class_accuracy(run_of([0.5])) is None
    assert party_accuracy(run_of([0.5])) is None
    assert party_accuracy(run_of([0.5], class_accuracy=None)) is None
    one = party_accuracy(run_of([0.5], counts=((9, 1), (5, 0)), class_accuracy=[0.5, None]))  # class 2 is not tested
    assert one is not None
    assert one.each == (None, 0.5)


# --- the correlated t-test ---------------------------------------------------------------------------


@pytest.mark.parametrize("dof", [1, 2, 11, 500])
def test_the_density_is_that_of_student(dof: int) -> None:
    for t in (0.0, 0.5, -3.0, 40.0):
        assert density(dof, t) == pytest.approx(stats.t(dof).pdf(t), rel=1e-10, abs=1e-300)
    assert density(dof, 1e200) == 0  # its square is too large for a float
    posterior = Posterior(0.3, 0.1, dof, dof + 1, 0.0)
    assert posterior.density(0.25) == pytest.approx(stats.t(dof, 0.3, 0.1).pdf(0.25))


@pytest.mark.parametrize("rho", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("rope", [0.0, 0.01, 0.03])
def test_the_odds_are_the_integrals_of_the_density(rho: float, rope: float) -> None:
    found = correlated_t(DIFFERENCES, rho).odds(rope)
    n = len(DIFFERENCES)
    scale = np.sqrt((1 / n + rho / (1 - rho)) * np.var(DIFFERENCES, ddof=1))
    density = stats.t(n - 1, np.mean(DIFFERENCES), scale).pdf
    parts = [(rope, math.inf), (-rope, rope), (-math.inf, -rope)]
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx([integrate.quad(density, *part)[0] for part in parts], abs=1e-7)


def test_without_correlation_and_region_it_is_the_t_test() -> None:
    found = correlated_t(DIFFERENCES, rho=0)
    p_value = stats.ttest_rel(DIFFERENCES, np.zeros(len(DIFFERENCES)), alternative="greater").pvalue
    assert found.odds(rope=0).better_b == pytest.approx(p_value, rel=1e-9)
    low, high = stats.ttest_1samp(DIFFERENCES, 0).confidence_interval(0.95)
    assert found.interval() == pytest.approx((low, high))


def test_more_correlation_widens_and_trials_cannot_make_up_for_it() -> None:
    widths = [np.ptp(correlated_t(DIFFERENCES, rho).interval()) for rho in (0, 0.1, 0.2, 0.5)]
    assert widths == sorted(widths)
    assert correlated_t(DIFFERENCES * 100, 0.2).scale > 0.4 * np.std(DIFFERENCES)
    assert correlated_t(DIFFERENCES * 100, 0.0).scale < 0.04 * np.std(DIFFERENCES)


def test_equal_differences_put_all_mass_in_one_place() -> None:
    assert correlated_t([0.02] * 3, 0.2).odds(0.01) == (1, 0, 0)
    assert correlated_t([-0.02] * 3, 0.2).odds(0.01) == (0, 0, 1)
    assert correlated_t([0.0, 0.0], 0.2).odds(0) == (0, 1, 0)
    assert correlated_t([0.5, 0.5], 0.2).interval() == (0.5, 0.5)


finite = st.floats(-1, 1, allow_subnormal=False)


@given(st.lists(finite, min_size=2, max_size=20), st.floats(0, 0.9), st.floats(0, 0.5))
def test_laws_of_the_odds(differences: list[float], rho: float, rope: float) -> None:
    found = correlated_t(differences, rho)
    odds = found.odds(rope)
    assert sum(odds) == pytest.approx(1, abs=1e-12)
    assert min(odds) >= 0
    assert correlated_t([-d for d in differences], rho).odds(rope) == pytest.approx(odds[::-1], abs=1e-12)
    assert found.odds(rope, higher_is_better=False) == odds[::-1]
    assert found.odds(math.inf) == (0, 1, 0)
    assert found.odds(rope + 0.1).equal >= odds.equal


@pytest.mark.parametrize(("differences", "rho", "sentence"), [([0.1], 0.0, "2 pairs"), ([0.1, 0.2], 1.0, "below 1")])
def test_what_cannot_be_tested_is_refused(differences: list[float], rho: float, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        correlated_t(differences, rho)


def test_a_verdict_needs_a_probability_above_95_percent() -> None:
    odds = [(0.951, 0.049, 0), (0.04, 0.96, 0), (0, 0.01, 0.99), (0.95, 0.05, 0)]
    said = [Odds(*each).verdict("a", "b") for each in odds]
    assert said == ["a is better", "practically equal", "b is better", "undecided"]


def test_the_published_odds_of_oarf_take_a_correlation_above_zero() -> None:
    """OARF, Table 4, sentiment analysis: FedSGD 86.34 ± 1.03, Combined 86.81 ± 0.26, 12 runs, test share 1/11."""
    published = Odds(4.5e-3, 8.54e-1, 1.41e-1)
    widest = (1.03 + 0.26) ** 2  # of the variance of the differences, whatever the pairing

    def odds(rho: float, variance: float) -> Odds:
        return Posterior(86.34 - 86.81, math.sqrt((1 / 12 + rho / (1 - rho)) * variance), 11, 12, rho).odds(1.0)

    assert odds(0, widest).equal > published.equal + 0.03
    assert odds(1 / 11, 1.03**2 + 0.26**2) == pytest.approx(published, abs=0.02)


# --- the signed-rank test ----------------------------------------------------------------------------


def slow_signed_rank(settings: list[float | Posterior], rope: float, draws: int) -> list[float]:
    """By loops over pairs, with weights as normalised gamma variables of another generator."""
    rng, wins = np.random.default_rng(99), [0, 0, 0]
    for _ in range(draws):
        z = [0.0, *(s if isinstance(s, float) else s.mean + s.scale * rng.standard_t(s.dof) for s in settings)]
        raw = [rng.gamma(0.5), *(rng.exponential() for _ in settings)]
        mass = [0.0, 0.0, 0.0]
        for one, u in zip(z, raw, strict=True):
            for other, v in zip(z, raw, strict=True):
                mass[0 if one + other > 2 * rope else 2 if one + other < -2 * rope else 1] += u * v
        wins[mass.index(max(mass))] += 1
    return [count / draws for count in wins]


@pytest.mark.parametrize(
    "settings",
    [
        [0.03, 0.05, -0.02],
        [0.004, 0.02, 0.03, -0.015, 0.013],
        [correlated_t([0.02, 0.04, -0.01], 0.2), 0.015, correlated_t([0.03, 0.02, 0.0, 0.01], 0.1)],
    ],
)
def test_signed_rank_equals_a_slow_version(settings: list[float | Posterior]) -> None:
    found = signed_rank(settings, 0.01)
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx(slow_signed_rank(settings, 0.01, 4000), abs=0.03)  # four deviations of 4000 draws


def test_settings_that_scatter_are_no_evidence_of_equality() -> None:
    wide = [correlated_t([0.05, -0.05, 0.001], 0.2)] * 3
    assert signed_rank([posterior.mean for posterior in wide], 0.01).equal == 1
    assert signed_rank(wide, 0.01).equal < 0.6


def test_one_setting_by_pencil() -> None:
    """Beyond twice the region, A has 1 - w² of the mass, w ~ Beta(1/2, 1): A wins with P(w² < 1/2) = 2^(-1/4)."""
    assert signed_rank([0.5], 0.01).better_a == pytest.approx(2**-0.25, abs=0.01)


def test_signed_rank_laws() -> None:
    z = [0.03, 0.05, -0.02, 0.001, 0.04]
    found = signed_rank(z, 0.01)
    assert signed_rank([-d for d in z], 0.01) == pytest.approx(found[::-1], abs=1e-12)
    assert signed_rank(z, 0.01, higher_is_better=False) == found[::-1]
    assert signed_rank(z, 1.0) == (0, 1, 0)
    assert signed_rank([0.05] * 20, 0.01).better_a > 0.99
    with pytest.raises(ConfigError):
        signed_rank([], 0.01)


# --- ranking -----------------------------------------------------------------------------------------


def cell(setting: str, algorithm: str, *accuracies: float) -> CellResult:
    rows = {"train": 80, "test": 20}
    runs = [
        stored([accuracy], seed, dataset_facts=rows, dataset=setting, algorithm=algorithm)
        for seed, accuracy in enumerate(accuracies)
    ]
    (found,) = cells(runs)
    return found


def ranks(*cells: CellResult) -> dict[str, list[float]]:
    return {standing.algorithm: standing.ranks for standing in ranking(cells).standings}


def test_a_clear_winner_and_a_tie() -> None:
    a, b, c = cell("s", "a", 0.9, 0.91, 0.9), cell("s", "b", 0.7, 0.71, 0.7), cell("s", "c", 0.7, 0.705, 0.71)
    assert ranks(a, b, c) == {"a": [1], "b": [2.5], "c": [2.5]}
    best = ranking([a, b, c]).standings[0]
    assert (best.won, best.shared, best.interval) == (1, 0, None)


def test_ties_that_do_not_chain_have_ranks_too() -> None:
    """A and B tie, B and C tie, and A is better than C."""
    single = [cell("s", "a", 0.916), cell("s", "b", 0.908), cell("s", "c", 0.9)]
    assert ranks(*single) == {"a": [1.5], "b": [2], "c": [2.5]}


def test_single_trials_are_told_by_the_region_alone_and_said_to_be() -> None:
    single = [cell("s", "a", 0.9), cell("s", "b", 0.85), cell("s", "c", 0.895)]
    assert not ranking_table(single).rows  # no error to judge by, so that nobody is ranked
    several = [cell("t", name, 0.8, 0.81, 0.8) for name in "abc"]
    found = ranking_table([*single, *several])
    assert [[entry.text for entry in row][:2] for row in found.rows] == [["a", "1.75"], ["c", "1.75"], ["b", "2.50"]]
    assert "no spread to judge by" in found.note
    assert found.columns[-2:] == ["sole firsts", "ties for first"]
    assert all(f"{column}: " in found.note for column in found.columns[-2:])


def test_a_wide_spread_ties_what_a_single_trial_would_not() -> None:
    wide = [cell("s", "a", 0.9, 0.6, 0.8), cell("s", "b", 0.6, 0.8, 0.75)]
    assert ranks(*wide) == {"a": [1.5], "b": [1.5]}


def test_mean_ranks_over_settings_have_an_interval() -> None:
    cells = [cell(f"s{i}", name, 0.5 + 0.1 * (name == "ab"[i < 6])) for i in range(8) for name in "ab"]
    found = ranking(cells)
    best, other = found.standings
    assert (best.algorithm, best.mean_rank, best.won, best.shared) == ("b", 1.25, 6, 0)
    assert best.interval is not None
    assert 1 <= best.interval[0] < 1.25 < best.interval[1] < 2
    assert best.mean_rank + other.mean_rank == 3
    assert found == ranking(cells)  # resampling is seeded


def test_only_settings_with_all_algorithms_are_ranked_and_baselines_are_not() -> None:
    cells = [cell("s", "a", 0.9), cell("s", "b", 0.8), cell("s", "solo", 0.99), cell("t", "a", 0.5)]
    found = ranking(cells)
    assert (found.settings, found.left_out) == (1, 1)
    assert [standing.algorithm for standing in found.standings] == ["a", "b"]
    assert "nothing to rank" in ranking_table(cells[:1]).note


# --- Student's t --------------------------------------------------------------------------------------


def inner_mass(dof: int, t: float) -> float:
    """Return the mass between -t and t by the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(dof))
    even = dof % 2 == 0
    term, total = 1.0 if even else math.cos(angle), 0.0
    for power in range(1, dof // 2 + 1):
        total += term
        term *= math.cos(angle) ** 2 * ((2 * power - 1) / (2 * power) if even else 2 * power / (2 * power + 1))
    return math.sin(angle) * total if even else 2 / math.pi * (angle + math.sin(angle) * total)


@pytest.mark.parametrize("dof", [1, 2, 3, 4, 9, 30, 99])
def test_tails_and_quantiles_of_students_t(dof: int) -> None:
    """Sums of fewer than a thousand positive terms, each exact to a few ulps, are exact to 1e-12."""
    for t in (0.0, 1e-6, 0.3, 0.999999, 1.0, 1.7, 4.0, 12.0, 300.0):
        assert upper_tail(dof, t) == pytest.approx((1 - inner_mass(dof, t)) / 2, abs=1e-12)
        assert upper_tail(dof, t) + upper_tail(dof, -t) == pytest.approx(1, abs=1e-12)
    for t in (1.0, 4.0, 12.0, 300.0):  # small tails count by their size
        assert upper_tail(dof, t) == pytest.approx(stats.t.sf(t, dof), rel=1e-10)
    for mass in (0.6, 0.95, 0.975, 0.9999):
        assert upper_tail(dof, quantile(dof, mass)) == pytest.approx(1 - mass, rel=1e-10)
    assert upper_tail(dof, math.inf) == 0
