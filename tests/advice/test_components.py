"""Tests of skew: statistics against scipy, calibration without a skew, and what must not be mistaken for what."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from silobench.advice.components import (
    LEVEL,
    SIZE_LEVEL,
    THRESHOLDS,
    Component,
    _adjusted,
    _expected_labels,
    cauchy,
    components,
    feature_tests,
    label_test,
    regime,
    size_test,
    table_distance,
)
from silobench.advice.profile import Profile, Profiles, combine, count_codes
from silobench.advice.schema import CategoryBins, NumberBins, Schema
from silobench.privacy.randomness import Randomness

Codes = NDArray[np.int64]


def schema(classes: int, features: int, bins: int = 4) -> Schema:
    label = CategoryBins("y", tuple(f"c{place}" for place in range(classes)))
    return Schema(label, tuple(NumberBins(f"x{place}", tuple(range(1, bins))) for place in range(features)))


def profiles_of(parties: Codes, labels: Codes, features: list[Codes], epsilon: float | None = None) -> Profiles:
    """Return the profiles of rows, with noise if there is an epsilon."""
    shape = schema(int(labels.max()) + 1, len(features))
    exact = [
        count_codes(f"p{party}", labels[parties == party], [each[parties == party] for each in features], shape)
        for party in np.unique(parties)
    ]
    return combine(exact if epsilon is None else _private(exact, epsilon))


def _private(exact: list[Profile], epsilon: float) -> list[Profile]:
    randomness = Randomness.seeded(7, "test")
    return [profile.privatised(epsilon, randomness) for profile in exact]


def iid_rows(
    rng: np.random.Generator, rows: int, parties: int = 6, classes: int = 4
) -> tuple[Codes, Codes, list[Codes]]:
    """Return rows of random parties, whose features depend on the class and on each other."""
    labels = rng.integers(0, classes, rows)
    first = np.clip(labels + rng.integers(-1, 2, rows), 0, 3)
    second = np.where(rng.random(rows) < 0.7, first, rng.integers(0, 4, rows))
    return rng.integers(0, parties, rows), labels, [first, second]


# --- statistics --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(1, 60), min_size=3, max_size=3), min_size=2, max_size=6))
def test_the_distance_is_chi_square(table: list[list[int]]) -> None:
    counts = np.array(table, float)
    expected = stats.chi2_contingency(counts, correction=False)
    assert table_distance(counts, _expected_labels(counts), 0.0) == pytest.approx(expected.statistic)


def test_the_p_value_of_labels_is_that_of_chi_square() -> None:
    """With enough rows the simulated null is a chi-square distribution, also far in its tail."""
    rng = np.random.default_rng(0)
    for shift in (0.0, 0.02, 0.05):
        counts = np.stack(
            [rng.multinomial(2000, [0.5 + shift * party, 0.3, 0.2 - shift * party]) for party in range(4)]
        )
        tests, _ = label_test(_of_labels(counts))
        exact = stats.chi2_contingency(counts, correction=False).pvalue
        assert np.log10(tests.p + 1e-30) == pytest.approx(np.log10(exact + 1e-30), rel=0.25, abs=0.3)


def _of_labels(counts: NDArray[np.int64], scale: float = 0.0) -> Profiles:
    none = np.zeros(len(counts))
    names = tuple(f"p{party}" for party in range(len(counts)))
    shape = schema(counts.shape[1], 0)
    return Profiles(names, shape, counts.astype(float), (), none + scale, none, (None,) * len(counts))


def test_the_effect_is_cohens_w() -> None:
    """Two halves with shares (1 + w) / 2 and (1 - w) / 2 have the effect w."""
    for w in (0.2, 0.5, 0.9):
        half = 10_000
        counts = np.array([[half * (1 + w) / 2, half * (1 - w) / 2], [half * (1 - w) / 2, half * (1 + w) / 2]])
        label = components(_of_labels(counts.astype(int)))[0]
        assert label.effect == pytest.approx(w, abs=0.01)


def test_one_class_per_party_has_the_largest_effect() -> None:
    label = components(_of_labels(np.eye(5, dtype=np.int64) * 400))[0]
    assert label.effect == pytest.approx(2.0, abs=0.01)  # the root of classes - 1
    assert label.is_present


def test_cauchy_combines_equal_values_to_themselves_and_keeps_small_ones() -> None:
    assert cauchy([0.01] * 8) == pytest.approx(0.01)
    assert cauchy([1e-6, 0.9, 0.8]) < 1e-5
    assert 0 <= cauchy([1.0, 1.0]) <= 1


def test_holms_method_by_hand() -> None:
    tests = [
        Component(kind, p, p, 1.0, 0.1, 0.0, "") for kind, p in (("label", 0.02), ("feature", 0.01), ("quantity", 0.5))
    ]
    assert [test.adjusted_p for test in _adjusted(tests)] == pytest.approx([0.04, 0.03, 0.5])


# --- without a skew ----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [None, 1.0], ids=["exact", "private"])
def test_a_skew_is_rarely_seen_where_there_is_none(epsilon: float | None) -> None:
    """All rows are dealt at random. Some p-value is below the level in at most one of twenty tables.

    The bound is the number of false alarms of 40 tables that a binomial variable with 0.05 exceeds in one of 10,000.
    """
    tables, alarms = 40, 0
    for seed in range(tables):
        tests = components(profiles_of(*iid_rows(np.random.default_rng(seed), 1200), epsilon=epsilon))
        alarms += any(test.adjusted_p <= LEVEL for test in tests)
        assert regime(tests) == "none" or epsilon
    assert alarms <= stats.binom.isf(1e-4, tables, LEVEL)


def test_p_values_of_features_are_uniform_without_a_skew() -> None:
    """Also where classes are rare, features depend on each other, and parties hold different classes."""
    values = []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        _, labels, features = iid_rows(rng, 800)
        parties = np.where(rng.random(800) < 0.8, labels, rng.integers(0, 6, 800))  # a strong label skew
        values.append(cauchy([p for p, _, _ in feature_tests(profiles_of(parties, labels, features))]))
    below = sum(value <= 0.1 for value in values)
    assert below <= stats.binom.isf(1e-4, 60, 0.1)
    assert max(values) > 0.5


def test_many_rows_do_not_make_a_small_difference_matter() -> None:
    rng = np.random.default_rng(3)
    parties = rng.integers(0, 5, 400_000)
    labels = (rng.random(400_000) < 0.5 + 0.01 * (parties - 2)).astype(np.int64)
    label = components(profiles_of(parties, labels, []))[0]
    assert label.adjusted_p < 1e-6
    assert not label.is_present


def test_few_rows_are_called_too_few() -> None:
    rng = np.random.default_rng(4)
    parties, labels, features = iid_rows(rng, 40, parties=4, classes=3)
    tests = components(profiles_of(parties, labels, features))
    assert regime(tests) == "none"
    assert any(test.is_blind for test in tests)


# --- one skew is not another -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_label_skew_alone_is_not_feature_skew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, labels, features = iid_rows(rng, 6000, classes=6)
    parties = np.where(rng.random(6000) < 0.7, labels, rng.integers(0, 6, 6000))
    marginal = stats.chi2_contingency(np.histogram2d(parties, features[0], (6, 4))[0]).pvalue
    assert marginal < 1e-50  # features differ between parties, until the label explains them
    assert regime(components(profiles_of(parties, labels, features))) == "label"


@pytest.mark.parametrize("seed", range(4))
def test_unequal_sizes_are_not_label_skew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, labels, features = iid_rows(rng, 6000)
    parties = rng.choice(6, 6000, p=[0.5, 0.3, 0.1, 0.06, 0.03, 0.01])
    assert regime(components(profiles_of(parties, labels, features))) == "quantity"


@pytest.mark.parametrize("seed", range(4))
def test_sizes_that_the_labels_explain_are_not_quantity_skew(seed: int) -> None:
    """Each class is at one party, and classes have different sizes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(6, 6000, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.08])
    features = [np.clip(labels // 2 + rng.integers(0, 2, 6000), 0, 3)]
    assert regime(components(profiles_of(labels.copy(), labels, features))) == "label"


def test_sizes_are_tested_beside_a_label_skew_only_if_one_is_present() -> None:
    """Weak label skews, of which some are significant until p-values are adjusted for three tests."""
    dropped = 0
    for seed in range(40):
        counts = np.random.default_rng(seed).multinomial(20, [0.5, 0.3, 0.2], 6)
        label, _, quantity = components(_of_labels(counts))
        assert (quantity.level == SIZE_LEVEL) == label.is_present
        dropped += label.p <= LEVEL < label.adjusted_p
    assert dropped


def test_opposite_shifts_of_two_classes_are_feature_skew() -> None:
    """Over both classes together the feature does not change, so a test of sums would see nothing."""
    rng = np.random.default_rng(8)
    rows = 8000
    parties, labels = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    high = rng.random(rows) < np.where(parties == labels, 0.7, 0.3)
    features = [np.where(high, 2, 1)]
    overall = stats.chi2_contingency(np.histogram2d(parties, features[0], (2, 2))[0]).pvalue
    assert overall > 0.01
    assert regime(components(profiles_of(parties, labels, features))) == "feature"


def test_the_order_of_parties_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    parties, labels, features = iid_rows(rng, 3000)
    features[0] = np.where(parties == 2, np.clip(features[0] + 1, 0, 3), features[0])
    one = components(profiles_of(parties, labels, features))
    other = components(profiles_of((parties + 3) % 6, labels, features))
    assert [test.is_present for test in one] == [test.is_present for test in other]
    assert one[1].effect == pytest.approx(other[1].effect, rel=0.1)


def test_the_same_counts_give_the_same_numbers() -> None:
    profiles = profiles_of(*iid_rows(np.random.default_rng(10), 900))
    assert components(profiles) == components(profiles)


# --- noise -------------------------------------------------------------------------------------------


def test_noise_alone_is_no_skew() -> None:
    """Equal parties with noise: a test that forgets the noise would call every one of these tables skewed."""
    counts = np.full((8, 5), 40)
    alarms, naive = 0, 0
    for seed in range(20):
        noise = np.random.default_rng(seed).laplace(0, 20, counts.shape).round().astype(int)
        tests = components(_of_labels(counts + noise, scale=20.0))
        alarms += tests[0].adjusted_p <= LEVEL
        naive += components(_of_labels(np.maximum(counts + noise, 0)))[0].is_present
    assert alarms <= stats.binom.isf(1e-4, 20, LEVEL)
    assert naive == 20


def test_sizes_with_noise_are_compared_with_noise() -> None:
    counts = np.full((8, 4), 10) + np.random.default_rng(5).laplace(0, 15, (8, 4)).round().astype(int)
    assert size_test(_of_labels(counts, scale=15.0), has_label_skew=False).p > LEVEL / 3
    assert size_test(_of_labels(np.maximum(counts, 0)), has_label_skew=False).p < 1e-4


@pytest.mark.filterwarnings("error")
def test_noise_that_may_leave_all_parties_empty_hides_sizes() -> None:
    """Two parties of some thousand rows at an epsilon of 0.001: the noise of both sums may be below zero."""
    sizes = components(_of_labels(np.array([[900] * 10, [0] * 10]), scale=4000.0))[2]
    assert 0 < sizes.p <= 1
    assert not sizes.is_present
    assert sizes.is_blind
    assert "nan" not in sizes.statistic


def test_thresholds_are_what_the_page_says() -> None:
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "advise.md").read_text(encoding="utf-8")
    for kind, threshold in THRESHOLDS.items():
        assert f"| {kind} | " in page
        assert f"{threshold:g}" in next(line for line in page.splitlines() if line.startswith(f"| {kind} | "))
