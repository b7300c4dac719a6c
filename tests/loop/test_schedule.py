"""A schedule: when the model is tested, which choices are refused, and what comes before the first round."""

from dataclasses import replace
from typing import Any

import pytest

from laws import Toy, bits
from silobench.data import load
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.loop.clocks import device
from silobench.loop.exchanges import gossip, mesh
from silobench.loop.loop import run_rounds
from silobench.loop.network import Network, link
from silobench.loop.paces import buffered
from silobench.loop.prelude import with_prelude
from silobench.loop.rounds import rounds
from silobench.loop.schedule import Prelude, Schedule
from silobench.method.aggregates import krum
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import dropout
from silobench.method.controllers import CONTROLLERS
from silobench.method.method import Method
from silobench.method.selection import SELECTIONS
from silobench.method.solvers import sgd
from silobench.method.transforms import top_k
from silobench.partitions import sharing
from silobench.tasks.task import task
from silobench.training.setting import Setting


def schedule_of(toy: Toy, algorithm: str = "fedavg", transforms: tuple[Any, ...] = (), **choices: Any) -> Schedule:
    federation, task = toy()
    built = ALGORITHMS.build(algorithm)
    solver = sgd(steps=1, keep_momentum=True) if built.lockstep else sgd(epochs=1)
    return Schedule(Setting(Method(built, solver, transforms), federation, task, seed=3), **choices)


def test_the_last_round_is_tested_on_all_rows_and_others_as_chosen(toy: Toy) -> None:
    schedule = schedule_of(toy, rounds=5, eval_every=2, eval_on=0.5)
    assert [schedule.test_share(number) for number in range(1, 6)] == [0, 0.5, 0, 0.5, 1.0]
    assert [record.accuracy is not None for record in run_rounds(schedule)] == [False, True, False, True, True]


@pytest.mark.parametrize(
    ("algorithm", "choices", "message"),
    [
        ("fedavg", {"eval_every": 0}, "eval_every is 0"),
        ("fedavg", {"eval_on": 0.0}, "eval_on is 0.0"),
        ("fedavg", {"participation": 4}, "above the 3 parties"),
        ("gaia", {"participation": 2}, "leave participation at 1.0"),
        ("fedavg", {"controller": CONTROLLERS.build("skewscout")}, "skewscout"),
        ("fedavg", {"exchange": gossip(), "network": link(server="1Mbps")}, "the exchange gossip has no server"),
        ("fedavg", {"exchange": mesh(), "network": link(server="1Mbps")}, "the exchange mesh has no server"),
        ("fedavg", {"exchange": mesh(), "pace": buffered(2), "clock": device()}, "the exchange mesh has no server"),
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


def test_a_centralised_algorithm_does_not_depend_on_choices_for_several_parties(toy: Toy) -> None:
    plain = schedule_of(toy, "combined", rounds=3, clock=device())
    choices = {"exchange": gossip(), "availability": dropout(0.9), "pace": buffered(2)}
    other = replace(plain, setting=replace(plain.setting, method=replace(plain.setting.method, aggregate=krum())))
    for schedule in (replace(other, **choices), *(replace(plain, **{name: each}) for name, each in choices.items())):
        schedule.check()
        assert [bits(record) for record in run_rounds(schedule)] == [bits(record) for record in run_rounds(plain)]


@pytest.mark.parametrize("network", [link(), link(server="1Mbps"), link(spread=1.0)])
def test_models_travel_over_the_links_of_parties(toy: Toy, network: Network) -> None:
    choices = {"rounds": 2, "network": network, "transforms": (top_k(0.5),)}
    still, moving = (
        list(run_rounds(schedule_of(toy, controller=CONTROLLERS.build(controller), **choices)))
        for controller in ("fixed", "skewscout(period=1, grid=[0.5])")
    )
    size = moving[1].control["travelled"] // 3
    slowest = max(network.transfer(size, party, seed=3, sharing=3) for party in range(3))
    assert moving[1].clock - still[1].clock == pytest.approx(slowest)


@pytest.mark.parametrize("network", [link(), link(server="1Mbps"), link(spread=1.0)])
def test_shared_rows_are_sent_over_the_links_of_parties(network: Network) -> None:
    data = load("digits")
    federation = federate(data, "shards + share(beta=0.1)", parties=3)
    setting = Setting(Method(ALGORITHMS.build("fedavg")), federation, task("linear", data), seed=3)
    prelude = with_prelude(Schedule(setting, network=network)).prelude
    shared = sharing(federation.partition, data)
    assert prelude is not None
    assert shared is not None
    assert prelude.clock == max(network.transfer(shared.largest, party, seed=3, sharing=3) for party in range(3))


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
