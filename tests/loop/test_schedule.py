"""A schedule: when the model is tested, which choices are refused, and what comes before the first round."""

from dataclasses import replace
from typing import Any

import pytest

from conftest import Toy
from silobench.errors import ConfigError
from silobench.loop.rounds import rounds, run_rounds
from silobench.loop.schedule import Prelude, Schedule
from silobench.method.algorithms import ALGORITHMS
from silobench.method.controllers import CONTROLLERS
from silobench.method.method import Method
from silobench.method.selection import SELECTIONS
from silobench.method.solvers import sgd
from silobench.training.setting import Setting


def schedule_of(toy: Toy, algorithm: str = "fedavg", **choices: Any) -> Schedule:
    federation, task = toy()
    built = ALGORITHMS.build(algorithm)
    solver = sgd(steps=1, keep_momentum=True) if built.lockstep else sgd(epochs=1)
    return Schedule(Setting(Method(built, solver), federation, task, seed=3), **choices)


def test_the_last_round_is_tested_on_all_rows_and_others_as_chosen(toy: Toy) -> None:
    schedule = schedule_of(toy, rounds=5, eval_every=2, eval_on=0.5)
    assert [schedule.share_tested(number) for number in range(1, 6)] == [0, 0.5, 0, 0.5, 1.0]
    assert [record.accuracy is not None for record in run_rounds(schedule)] == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("algorithm", "choices", "message"),
    [
        ("fedavg", {"eval_every": 0}, "eval_every is 0"),
        ("fedavg", {"eval_on": 0.0}, "eval_on is 0.0"),
        ("fedavg", {"participation": 4}, "above the 3 parties"),
        ("gaia", {"participation": 2}, "leave participation at 1.0"),
        ("fedavg", {"controller": CONTROLLERS.build("skewscout")}, "skewscout"),
    ],
)
def test_choices_that_do_not_work_together_are_refused(
    toy: Toy, algorithm: str, choices: dict[str, Any], message: str
) -> None:
    schedule = schedule_of(toy, algorithm, **choices)
    with pytest.raises(ConfigError, match=message):
        schedule.check()
    with pytest.raises(ConfigError, match=message):
        next(run_rounds(schedule))


def test_a_centralised_algorithm_has_all_rows_at_one_party(toy: Toy) -> None:
    schedule = schedule_of(toy, "combined", participation=2)
    assert [party.samples for party in schedule.pooled().setting.federation.parties] == [60]
    assert (schedule.cohort, schedule.pooled().cohort) == (2, 1)
    federated = schedule_of(toy)
    assert federated.pooled() is federated


def test_rounds_has_the_arguments_of_a_schedule(toy: Toy) -> None:
    federation, task = toy()
    choices: dict[str, Any] = {
        "rounds": 3, "participation": 2, "selection": SELECTIONS.build("by-size"), "eval_every": 2, "eval_on": 10,
    }  # fmt: skip
    schedule = schedule_of(toy, "scaffold", **choices)
    method = schedule.setting.method
    for one, other in zip(run_rounds(schedule), rounds(method, federation, task, seed=3, **choices), strict=True):
        assert (one.cohort, one.accuracy, one.clock) == (other.cohort, other.accuracy, other.clock)
        assert one.state.server.params.equal(other.state.server.params)


def test_the_first_record_reports_the_prelude_once(toy: Toy) -> None:
    plain = schedule_of(toy, rounds=3)
    prelude = Prelude(bytes_down=1000, clock=7.0, measures={"warm-up": {"epochs": 2}})
    before, after = list(run_rounds(plain)), list(run_rounds(replace(plain, prelude=prelude)))
    assert [b.bytes_down - a.bytes_down for a, b in zip(before, after, strict=True)] == [1000, 0, 0]
    assert [record.measures for record in after] == [prelude.measures, {}, {}]
    assert after[0].clock == 7.0 + before[0].clock
    (resumed, _) = run_rounds(replace(plain, prelude=prelude), after[0].state)
    assert (resumed.measures, resumed.bytes_down, resumed.clock) == ({}, after[1].bytes_down, after[1].clock)
