"""Who takes part in a round: how many, how often, and that seed and round alone decide."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import draw_cohort
from silobench.data import digits
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.selection import SELECTIONS, by_size, is_secret, poisson, reads, round_robin, stratified, uniform
from silobench.method.solvers import sgd
from silobench.rng import stream
from silobench.tasks.task import task

DIGITS = digits()
FEDERATION = federate(DIGITS, "label-dirichlet(beta=0.5)", 12, seed=0)
EVERY = ["uniform", "by-size", "round-robin", "stratified"]


def test_these_are_all() -> None:
    assert sorted(row["name"] for row in SELECTIONS.describe()) == sorted([*EVERY, "poisson"])


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 12), seed=st.integers(0, 99), now=st.integers(0, 500))
def test_a_cohort_has_its_size_is_ascending_and_depends_only_on_seed_and_round(
    name: str, count: int, seed: int, now: int
) -> None:
    cohort = SELECTIONS.build(name)(FEDERATION, count, seed, now)
    assert len(cohort) == count
    assert list(cohort) == sorted(set(cohort))
    assert set(cohort) <= set(range(12))
    assert all(type(party) is int for party in cohort)
    assert cohort == SELECTIONS.build(name)(FEDERATION, count, seed, now)


@pytest.mark.parametrize("name", EVERY)
def test_rounds_and_seeds_differ(name: str) -> None:
    select = SELECTIONS.build(name)
    assert len({select(FEDERATION, 4, 0, now) for now in range(3)}) > 1
    assert [select(FEDERATION, 4, 0, now) for now in range(9)] != [select(FEDERATION, 4, 1, now) for now in range(9)]


def test_uniform_draws_what_it_always_drew() -> None:
    for now in range(20):
        cohort = uniform()(FEDERATION, 4, 3, now)
        assert list(cohort) == sorted(stream(3, "cohort", now).choice(12, 4, replace=False).tolist())
    assert draw_cohort(10, 3, 0, 0) == (4, 6, 7)


@pytest.mark.parametrize("count", [1, 4, 5, 7, 12])
def test_in_turns_everyone_takes_part_equally_often(count: int) -> None:
    select, times = round_robin(), Counter()
    for now in range(24):
        times.update(select(FEDERATION, count, 1, now))
        assert max(times.values()) - min(times[party] for party in range(12)) <= 1
    assert set(times.values()) == {2 * count}


def test_by_size_draws_by_size() -> None:
    federation = federate(DIGITS, "quantity-dirichlet(beta=1)", 6, seed=0)
    select, draws = by_size(), 3000
    times = Counter(party for now in range(draws) for party in select(federation, 1, 0, now))
    sizes = np.array([party.samples for party in federation.parties])
    found = np.array([times[party] for party in range(6)]) / draws
    assert found == pytest.approx(sizes / sizes.sum(), abs=0.03)


@pytest.mark.parametrize("reproducible", [False, True])
def test_poisson_parties_join_independently_at_one_rate(reproducible: bool) -> None:
    select, draws = poisson(reproducible), 3000
    cohorts = [select(FEDERATION, 3, 0, now) for now in range(draws)]
    joined = np.array([[party in cohort for party in range(12)] for cohort in cohorts])
    assert all(list(cohort) == sorted(set(cohort)) and {type(p) for p in cohort} <= {int} for cohort in cohorts)
    assert joined.mean(0) == pytest.approx(np.full(12, 0.25), abs=0.04)
    together = np.corrcoef(joined.T)[np.triu_indices(12, 1)]
    assert abs(together).max() < 0.1  # a cohort of fixed size would have -1/11 on average
    assert abs(together.mean()) < 0.02
    assert joined.sum(1).var() == pytest.approx(12 * 0.25 * 0.75, rel=0.15)
    assert min(map(len, cohorts)) == 0
    assert select(FEDERATION, 12, 0, 0) == tuple(range(12))
    assert cohorts[:50] != [select(FEDERATION, 3, 1, now) for now in range(50)]


def test_poisson_draws_are_secret_unless_they_follow_from_the_seed() -> None:
    def cohorts(select):
        return [select(FEDERATION, 6, 0, now) for now in range(20)]  # 240 draws: 2^-240 for the same ones by chance

    secret = poisson()
    assert cohorts(secret) == cohorts(secret)
    assert cohorts(secret) != cohorts(poisson())
    assert cohorts(poisson(reproducible=True)) == cohorts(SELECTIONS.build("poisson(reproducible=true)"))
    assert str(SELECTIONS.bind("poisson").full) == "poisson"  # as before the argument existed


def test_accountants_know_how_parties_are_drawn() -> None:
    built = {name: SELECTIONS.build(name) for name in (*EVERY, "poisson", "poisson(reproducible=true)")}
    assert [name for name, select in built.items() if is_secret(select)] == ["poisson"]
    known = {name: reads(select) for name, select in built.items()}
    assert {name: kind for name, kind in known.items() if kind} == {"by-size": "rows", "stratified": "labels"}


def test_a_round_without_parties_leaves_the_model() -> None:
    federation, digits_task = federate(DIGITS, "iid", 3, seed=0), task("linear", DIGITS)
    method = Method(fedavg(), sgd(steps=1))
    run = list(
        rounds(method, federation, digits_task, rounds=9, participation=1, selection=poisson(True), eval_every=9)
    )
    empty = [place for place, record in enumerate(run) if place and not record.cohort]
    assert empty
    for place in empty:
        assert (run[place].bytes_up, run[place].bytes_down) == (0, 0)
        assert run[place].state.server.params.equal(run[place - 1].state.server.params)


@pytest.mark.parametrize("parties", [10, 30])
def test_strata_cover_the_classes(parties: int) -> None:
    """One class a party: a cohort of ten has each class once, where chance leaves out a third of them."""
    federation = federate(DIGITS, "label-count(k=1)", parties, seed=0)
    held = federation.class_counts.numpy() > 0
    for now in range(10):
        assert (held[list(stratified()(federation, 10, 0, now))].sum(0) == 1).all()
    if parties > 10:
        chance = [held[list(uniform()(federation, 10, 0, now))].any(0).sum() for now in range(50)]
        assert np.mean(chance) < 8


def test_identical_parties_still_form_groups(toy) -> None:
    federation, _ = toy((20, 20, 20), classes=1)
    assert len(stratified()(federation, 2, 0, 0)) == 2


@pytest.mark.parametrize("name", EVERY)
def test_the_loop_trains_who_was_selected(name: str) -> None:
    select = SELECTIONS.build(name)
    method = Method(fedavg(), sgd(steps=1))
    run = rounds(method, FEDERATION, task("linear", DIGITS), rounds=4, seed=2, participation=0.25, selection=select)
    assert [record.cohort for record in run] == [select(FEDERATION, 3, 2, now) for now in range(4)]


# --- how many -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("participation", "size"),
    [(1.0, 10), (0.5, 5), (0.3, 3), (0.25, 3), (0.04, 1), (1, 1), (4, 4), (10, 10)],
)
def test_participation_is_a_fraction_or_a_count(participation: float | int, size: int) -> None:
    cohorts = [draw_cohort(10, participation, 0, now) for now in range(20)]
    assert {len(cohort) for cohort in cohorts} == {size}
    assert all(sorted(set(cohort)) == list(cohort) and set(cohort) <= set(range(10)) for cohort in cohorts)
    assert len(set(cohorts)) > 1 or size == 10


@pytest.mark.parametrize("participation", [0, -1, 0.0, -0.5, math.nan])
def test_participation_of_nobody_is_refused(participation: float | int) -> None:
    with pytest.raises(ConfigError, match="participation"):
        draw_cohort(10, participation, 0, 0)


def test_cohorts_are_uniform_and_depend_only_on_seed_and_round() -> None:
    drawn = [draw_cohort(10, 3, seed=1, round=now) for now in range(3000)]
    assert all(abs(count - 900) < 100 for count in Counter(p for cohort in drawn for p in cohort).values())
    pairs = Counter((a, b) for cohort in drawn for a in cohort for b in cohort if a < b)
    assert len(pairs) == 45
    assert all(abs(count - 200) < 60 for count in pairs.values())
    assert drawn[::-1] == [draw_cohort(10, 3, seed=1, round=now) for now in reversed(range(3000))]
    assert drawn[:50] != [draw_cohort(10, 3, seed=2, round=now) for now in range(50)]
