"""Tests of the three kinds of skew: labels, features given the label, and sizes.

Each test asks two questions. Is the difference between parties more than chance and noise explain (a p-value)? Is it
large enough to matter (an effect size and its threshold)? A skew is present if both answers are yes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from silobench.advice.null import Array, Null, as_shares, draw_count, multinomial_draws, noise_draws, noise_variances
from silobench.advice.profile import Profiles
from silobench.partitions.measures import gini
from silobench.rng import stream

Kind: TypeAlias = Literal["label", "feature", "quantity"]
THRESHOLDS: dict[Kind, float] = {"label": 0.2, "feature": 0.1, "quantity": 0.2}
LEVEL = 0.05  # the largest probability that some skew is seen where there is none
# Of sizes beside a label skew, which makes them unequal too (see size_test): chosen so that few label skews alone are
# called mixed (1 in 30) and most sizes from Dir(0.5) are seen (4 in 5).
SIZE_LEVEL, SIZE_THRESHOLD, CERTAIN_SIZE = 0.2, 0.35, 0.5
_DAMPING = 1.0  # added to expected counts of features by class, so that nearly empty cells do not decide


@dataclass(frozen=True)
class Component:
    """The test of one kind of skew."""

    kind: Kind
    p: float
    adjusted_p: float  # by Holm's method, for three tests
    effect: float
    threshold: float  # of the effect, from which it matters
    visible: float  # the smallest effect that these counts can show
    statistic: str  # what was computed, in words
    level: float = LEVEL  # the largest adjusted p-value that counts
    certain: float = math.inf  # the effect from which a skew is present, whatever explains it
    largest: tuple[tuple[str, float], ...] = ()  # features with their effects, the largest first

    @property
    def is_present(self) -> bool:
        return (self.adjusted_p <= self.level and self.effect >= self.threshold) or self.effect >= self.certain

    @property
    def is_blind(self) -> bool:
        """Whether a skew that matters could stay unseen, because there are too few rows or too much noise."""
        return self.level == LEVEL and self.visible > self.threshold and not self.is_present


# --- distances of tables ------------------------------------------------------------------------------


def table_distance(counts: Array, expected: Array, noise: Array | float) -> Array:
    """Return Σ (count - expected)² / (expected + noise) over the last two axes: chi-square if there is no noise."""
    weight = np.maximum(expected, 0) + noise
    safe = np.where(weight > 0, weight, 1)
    return np.asarray((np.where(weight > 0, (counts - expected) ** 2 / safe, 0.0)).sum((-2, -1)))


def _information(expected: Array, noise: Array | float) -> float:
    """Return what the distance is per unit of squared effect: the number of rows, if there is no noise."""
    weight = np.maximum(expected, 0)
    total = weight + noise
    return float((weight**2 / np.where(total > 0, total, 1)).sum())


def _effect(excess: float, information: float) -> float:
    """Return Cohen's w, the root mean square of relative differences, without what chance and noise add to it."""
    return float(np.sqrt(max(0.0, excess) / information)) if information else 0.0


# --- labels -------------------------------------------------------------------------------------------


def label_test(profiles: Profiles, seed: int = 0) -> tuple[Null, float]:
    """Return the test of the party x class table against equal class shares, and its information."""
    rng, counts = stream(seed, "advice-label"), profiles.labels
    noise = noise_variances(profiles.label_scales)[:, None]
    shares = as_shares(counts.sum(0))
    times = draw_count(counts.size)
    draws = multinomial_draws(rng, profiles.sizes, shares, times)
    draws += noise_draws(rng, profiles.label_scales, counts.shape[1:], times)
    value = float(table_distance(counts, _expected_labels(counts), noise))
    null = Null(value, table_distance(draws, _expected_labels(draws), noise))
    return null, _information(_expected_labels(counts), noise)


def _expected_labels(counts: Array) -> Array:
    rows: Array = np.maximum(counts.sum(-1, keepdims=True), 0)
    return rows * as_shares(counts.sum(-2, keepdims=True))


# --- features -----------------------------------------------------------------------------------------


def feature_tests(profiles: Profiles, seed: int = 0) -> list[tuple[float, float, float]]:
    """Return for each feature the p-value, the effect and the smallest visible effect.

    Parties are compared given the label: the counts that are expected of a party are its rows of each class, times the
    shares of bins in that class over all parties. So a skew of labels alone changes nothing. Two distances are tested,
    one of the sums over classes (a shift in all classes shows there) and one class by class (opposite shifts too), and
    the smaller p-value counts twice.
    """
    return [_feature_test(table, profiles.feature_scales, seed, place) for place, table in enumerate(profiles.features)]


def _feature_test(table: Array, scales: Array, seed: int, place: int) -> tuple[float, float, float]:
    rng = stream(seed, "advice-feature", place)
    rows, shares = np.maximum(table.sum(-1), 0), as_shares(table.sum(0))
    times = draw_count(table.size)
    draws = multinomial_draws(rng, rows, shares, times) + noise_draws(rng, scales, table.shape[1:], times)
    noise = noise_variances(scales)
    summed, by_class = noise[:, None] * table.shape[1], noise[:, None, None] + _DAMPING
    tests = [
        (_summed(table, draws, summed), _information(_expected(table).sum(-2), summed)),
        (_by_class(table, draws, by_class), _information(_expected(table), by_class)),
    ]
    null, information = min(tests, key=lambda test: test[0].p)
    visible = min(_effect(one.threshold(LEVEL / 6) - float(one.draws.mean()), info) for one, info in tests)
    return min(1.0, 2 * null.p), _effect(null.excess, information), visible


def _expected(table: Array) -> Array:
    rows: Array = np.maximum(table.sum(-1, keepdims=True), 0)
    return rows * as_shares(table.sum(-3, keepdims=True))


def _summed(table: Array, draws: Array, noise: Array) -> Null:
    value = table_distance(table.sum(-2), _expected(table).sum(-2), noise)
    return Null(float(value), table_distance(draws.sum(-2), _expected(draws).sum(-2), noise))


def _by_class(table: Array, draws: Array, noise: Array) -> Null:
    value = table_distance(table, _expected(table), noise).sum(-1)
    return Null(float(value), table_distance(draws, _expected(draws), noise).sum(-1))


def cauchy(values: Sequence[float]) -> float:
    """Return one p-value for several that may depend on each other (Liu and Xie, JASA 2020).

    >>> round(cauchy([0.02, 0.02]), 6), cauchy([0.5]) == 0.5
    (0.02, True)
    """
    p = np.clip(np.array(values), 1e-15, 1 - 1e-6)
    return float(0.5 - np.arctan(np.tan((0.5 - p) * np.pi).mean()) / np.pi)


# --- sizes --------------------------------------------------------------------------------------------


def size_test(profiles: Profiles, has_label_skew: bool, seed: int = 0) -> Null:
    """Return the test of the Gini coefficient of the parties' sizes.

    Without a skew of labels, sizes are compared with those of rows that are dealt at random to equal parties. With one,
    some inequality follows from the labels: parties that get many rows of one class are larger. Then sizes are compared
    with those that arise if each class is dealt to the parties on its own, that is, if the counts of each class are
    permuted among the parties. A table cannot prove how it arose: with two classes, sizes from Dir(1) and class
    shares from Dir(0.5) give the same tables as NIID-Bench's label-dirichlet(beta=0.5).
    """
    rng, counts = stream(seed, "advice-size"), np.maximum(profiles.labels, 0)
    times = draw_count(counts.size)
    if has_label_skew:
        sizes = _permuted(rng, counts, times).sum(-1)
    else:
        equal = np.full(len(counts), 1 / len(counts))
        rows = multinomial_draws(rng, profiles.sizes.sum(keepdims=True), equal, times)[:, 0]
        noise = noise_draws(rng, profiles.label_scales, (profiles.labels.shape[1],), times).sum(-1)
        sizes = np.maximum(rows + noise, 0)
    return Null(_gini(profiles.sizes), np.array([_gini(each) for each in sizes]))


def _gini(sizes: Array) -> float:
    """Return the Gini coefficient; 0 for parties that are all empty, as noise may leave them."""
    return gini(sizes) if sizes.any() else 0.0


def _permuted(rng: np.random.Generator, counts: Array, draws: int) -> Array:
    """Return tables in which each class is dealt to the parties in another order, [draws, parties, classes]."""
    return rng.permuted(np.broadcast_to(counts, (draws, *counts.shape)), axis=1)


# --- the regime ---------------------------------------------------------------------------------------


Regime: TypeAlias = Literal["none", "label", "feature", "quantity", "mixed"]


def components(profiles: Profiles, seed: int = 0) -> tuple[Component, ...]:
    """Return the tests of all three kinds of skew.

    Sizes are tested given the labels only if a label skew is present after p-values are adjusted. That test is not
    adjusted: it is made only if there is a skew.
    """
    equal_sizes = _size_component(profiles, False, seed)
    label, feature, quantity = _adjusted(
        (_label_component(profiles, seed), _feature_component(profiles, seed), equal_sizes)
    )
    return label, feature, _size_component(profiles, True, seed) if label.is_present else quantity


def regime(tests: Sequence[Component]) -> Regime:
    """Return the name of the skew: that of the only kind that is present, or mixed for several."""
    present = [test.kind for test in tests if test.is_present]
    return "mixed" if len(present) > 1 else present[0] if present else "none"


def _label_component(profiles: Profiles, seed: int) -> Component:
    null, information = label_test(profiles, seed)
    visible = _effect(null.threshold(LEVEL / 3) - float(null.draws.mean()), information)
    effect = _effect(null.excess, information)
    words = f"chi-square distance {null.value:.4g} of the party x class table, {null.draws.mean():.4g} expected"
    return Component("label", null.p, null.p, effect, THRESHOLDS["label"], visible, words)


def _feature_component(profiles: Profiles, seed: int) -> Component:
    tests = feature_tests(profiles, seed)
    threshold = THRESHOLDS["feature"]
    if not tests:
        return Component("feature", 1.0, 1.0, 0.0, threshold, math.inf, "no feature was profiled")
    names = [bins.name for bins in profiles.schema.features]
    effects = sorted(zip(names, (effect for _, effect, _ in tests), strict=True), key=lambda pair: -pair[1])
    p = cauchy([p for p, _, _ in tests])
    words = f"chi-square distances of {len(tests)} features given the label, combined by Cauchy's method"
    visible = max(visible for _, _, visible in tests)
    return Component("feature", p, p, effects[0][1], threshold, visible, words, largest=tuple(effects))


def _size_component(profiles: Profiles, has_label_skew: bool, seed: int) -> Component:
    null = size_test(profiles, has_label_skew, seed)
    against = (
        "each class dealt to the parties on its own" if has_label_skew else "rows dealt at random to equal parties"
    )
    words = f"Gini coefficient {null.value:.3f} of the sizes, {null.draws.mean():.3f} expected of {against}"
    shared: tuple[Kind, float, float, float] = ("quantity", null.p, null.p, null.value)
    if has_label_skew:
        visible = min(CERTAIN_SIZE, null.threshold(SIZE_LEVEL))
        return Component(*shared, SIZE_THRESHOLD, visible, words, SIZE_LEVEL, CERTAIN_SIZE)
    return Component(*shared, THRESHOLDS["quantity"], null.threshold(LEVEL / 3), words)


def _adjusted(tests: Sequence[Component]) -> list[Component]:
    """Return the tests with p-values adjusted by Holm's method."""
    adjusted, floor = dict[Kind, float](), 0.0
    for rank, test in enumerate(sorted(tests, key=lambda test: test.p)):
        floor = max(floor, min(1.0, (len(tests) - rank) * test.p))
        adjusted[test.kind] = floor
    return [replace(test, adjusted_p=adjusted[test.kind]) for test in tests]
