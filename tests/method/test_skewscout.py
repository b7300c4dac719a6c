"""SkewScout: what it decides and why, what its travelling costs, and that a killed run decides the same again."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import call, run_killed, write
from silobench.data import load
from silobench.engines import inline
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.probe import travel
from silobench.loop.rounds import rounds
from silobench.method.algorithms import bsp, dgc, fedavg, gaia
from silobench.method.control import Controller, Orders, Travel
from silobench.method.controllers import oracle, skewscout
from silobench.method.controllers.dials import chosen_dial
from silobench.method.controllers.skewscout import _annealed, _best, _better, _Objective, _Seen
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.transforms import top_k
from silobench.method.types import Dial, Transform
from silobench.runs.experiment import expand, plan
from silobench.runs.stored import read_runs
from silobench.tasks.task import task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

SOLVER = sgd(lr=0.02, momentum=0.9, steps=1, batch=10, keep_momentum=True)
NAN = math.nan


@pytest.fixture(scope="module")
def skewed() -> Any:
    data = load("digits")
    return federate(data, "label-percent(percent=100)", 5), task("mlp(16)", data)


def run(algorithm: Any, federated: Any, controller: Controller, *transforms: Transform, n: int = 40):
    method = Method(algorithm, SOLVER, transforms)
    return list(rounds(method, *federated, rounds=n, eval_every=n, controller=controller))


def decisions_of(records: list[RoundRecord]) -> list[dict[str, Any]]:
    return [dict(record.control) for record in records if record.control]


# --- the objective and the searches -------------------------------------------------------------------


def seen(losses: list[float], costs: list[float], place: int) -> _Seen:
    return _Seen(losses, costs, place, _Objective(0.05, 50.0, 1.0))


def test_the_objective_is_equation_one() -> None:
    objective = _Objective(sigma_al=0.05, lambda_al=50.0, lambda_c=1.0)
    assert objective(0.05, 0.3) == pytest.approx(0.3)
    assert objective(-0.2, 0.3) == pytest.approx(0.3)
    assert objective(0.15, 0.3) == pytest.approx(50 * 0.1 + 0.3)


def test_what_was_never_tried_counts_as_the_best_it_can_be() -> None:
    some = seen([NAN, 0.15, NAN], [NAN, 0.3, NAN], 1)
    assert some.value(0) == pytest.approx(0.3)  # no loss, and at least this traffic
    assert some.value(2) == pytest.approx(5.0)  # at least this loss, and no traffic
    assert _best(some, 0, lambda count: []) == 0


@pytest.mark.parametrize(
    ("losses", "costs", "place", "then"),
    [
        ([NAN, 0.01, NAN], [NAN, 0.3, NAN], 1, 2),  # good enough: try less
        ([NAN, 0.2, NAN], [NAN, 0.3, NAN], 1, 0),  # too bad: more
        ([0.0, 0.01, 0.2], [0.5, 0.3, 0.1], 1, 1),  # both neighbours are worse
        ([0.0, 0.2, 0.3], [0.5, 0.3, 0.1], 2, 1),  # remembered: one step at a time
        ([0.0, 0.01, 0.04], [0.5, 0.3, 0.1], 1, 2),
        ([0.3], [0.5], 0, 0),  # nothing to choose
    ],
)
def test_hill_climbing(losses: list[float], costs: list[float], place: int, then: int) -> None:
    assert _best(seen(losses, costs, place), 0, lambda count: []) == then


def test_stochastic_climbing_takes_a_better_neighbour_by_chance() -> None:
    some = seen([0.0, 0.2, 0.1], [0.5, 0.3, 0.2], 1)  # 7.8 here; 0.5 and 2.7 beside it: gains 7.3 and 5.1
    assert _better(some, 0, lambda count: [0.0]) == 0
    assert _better(some, 0, lambda count: [0.58]) == 0
    assert _better(some, 0, lambda count: [0.60]) == 2
    best = seen([0.0, 0.01, 0.2], [0.5, 0.3, 0.1], 1)
    assert _better(best, 0, lambda count: [0.5]) == 1


def test_annealing_takes_a_worse_neighbour_ever_less_willingly() -> None:
    step = _annealed(temperature=1.0, cooling=0.5)
    some = seen([0.0, 0.01, NAN], [0.5, 0.3, NAN], 1)
    assert step(some, 0, lambda count: [0.1, math.exp(-0.2) - 0.01]) == 0  # 0.2 worse
    assert step(some, 0, lambda count: [0.1, math.exp(-0.2) + 0.01]) == 1
    assert step(some, 1, lambda count: [0.1, math.exp(-0.2) - 0.01]) == 1  # colder now
    assert step(some, 0, lambda count: [0.9, 0.999]) == 2  # better: always


# --- travelling ---------------------------------------------------------------------------------------


def test_models_lose_accuracy_away_from_home_where_labels_are_skewed(skewed) -> None:
    loose = run(gaia(threshold=0.5), skewed, Controller())[-1].state
    setting = Setting(Method(gaia(threshold=0.5), SOLVER), *skewed, 0)
    far = travel(setting, inline(), loose, 200, 4)
    even = federate(load("digits"), "iid", 5), skewed[1]
    near = travel(
        Setting(setting.method, *even, 0), inline(), run(gaia(threshold=0.5), even, Controller())[-1].state, 200, 4
    )
    assert far.loss > 0.5 > 0.1 > near.loss
    assert far.nbytes == 5 * 4 * skewed[1].initial.nbytes


def test_travelling_by_hand(skewed) -> None:
    """Every model at home and at all others, one row at a time."""
    federation, model = skewed
    setting = Setting(Method(gaia(threshold=0.2), SOLVER), federation, model, 0)
    state = run(gaia(threshold=0.2), skewed, Controller(), n=15)[-1].state
    found = travel(setting, inline(), state, sample=10**6, trips=4)
    for k in range(5):
        params = state.server.params + state.memory[k]["algorithm"]["residual"]
        model.network.params.copy_(params)
        with torch.no_grad():
            right = [
                (model.network.module(federation.batch(party.rows)[0]).argmax(1) == federation.y[party.rows])
                .double()
                .mean()
                for party in federation.parties
            ]
        assert found.home[k] == pytest.approx(float(right[k]))
        assert found.away[k] == pytest.approx(float(sum(right) - right[k]) / 4)


@pytest.mark.parametrize(
    ("algorithm", "transforms", "local_model"),
    [
        (gaia(threshold=0.5), (), lambda state, k: state.server.params + state.memory[k]["algorithm"]["residual"]),
        (dgc(warmup=0), (), lambda state, k: state.server.params + state.memory[k]["algorithm"]["v"]),
        (fedavg(iter_local=7), (), lambda state, k: state.memory[k]["algorithm"]["model"]),
        (fedavg(iter_local=5), (), lambda state, k: state.memory[k]["algorithm"]["apart"]),  # just averaged
        (bsp(), (top_k(),), lambda state, k: state.server.params + state.memory[k]["transform-0"]["delta"]),
    ],
    ids=["gaia", "dgc", "alone", "averaged", "top_k"],
)
def test_the_model_that_travels_includes_changes_not_sent_yet(skewed, algorithm, transforms, local_model) -> None:
    state = run(algorithm, skewed, Controller(), *transforms, n=10)[-1].state
    setting = Setting(Method(algorithm, SOLVER, transforms), *skewed, 0)
    for k in range(5):
        ours, _ = setting.local_model_at(state.server, state.memory[k])
        assert torch.equal(ours, local_model(state, k))
        assert not torch.equal(ours, state.server.params)


# --- the controller in the loop -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "transforms", "knob", "search"),
    [
        (gaia(), (), "threshold", "hill-climbing"),
        (gaia(), (), "threshold", "stochastic"),
        (gaia(), (), "threshold", "annealing"),
        (fedavg(iter_local=20), (), "iter_local", "stochastic"),
        (dgc(), (), "warmup", "annealing"),
        (bsp(), (top_k(),), "fraction", "hill-climbing"),
    ],
    ids=["gaia-climbing", "gaia-stochastic", "gaia-annealing", "fedavg", "dgc", "top_k"],
)
def test_it_drives_every_knob_and_writes_down_why(skewed, algorithm, transforms, knob: str, search: Any) -> None:
    grid = (1.0, 2.0, 5.0) if knob == "iter_local" else ()  # a longer one waits for its exchange
    records = run(algorithm, skewed, skewscout(grid=grid, period=5, sample=50, search=search), *transforms)
    decisions = decisions_of(records)
    assert [record.round for record in records if record.control] == [6, 11, 16, 21, 26, 31, 36]
    for record, decision in zip((r for r in records if r.control), decisions, strict=True):
        before, after = records[record.round - 2], record
        assert before.knobs == {knob: decision["theta"]}
        assert after.knobs == {knob: decision["next"]}
        assert decision["accuracy_loss"] == pytest.approx(decision["home"] - decision["away"])
        assert decision["travelled"] == 5 * skewed[1].initial.nbytes
        assert decision["reason"].startswith("accuracy loss")
    assert len({record.knobs[knob] for record in records}) > 1


@pytest.mark.parametrize(("start", "decisions"), [(5.0, [6, 26]), (20.0, [21, 41])])
def test_a_setting_is_judged_only_after_it_has_exchanged(skewed, start: float, decisions: list[int]) -> None:
    """Averaging after 20 minibatches costs a twentieth of whole models, however short the period is; never nothing."""
    scout = skewscout(grid=(5, 20), start=start, period=5, sample=50, lambda_al=0.0)
    records = run(fedavg(iter_local=20), skewed, scout, n=41)
    assert [record.round for record in records if record.control] == decisions
    whole = {5.0: 1 / 5, 20.0: 1 / 20}
    for said in decisions_of(records):
        assert said["cost"] == pytest.approx(whole[said["theta"]])


def test_the_cost_of_a_setting_is_its_share_of_whole_models_without_travelling(skewed) -> None:
    records = run(gaia(), skewed, skewscout(period=5, sample=50))
    whole = 2 * 5 * skewed[1].initial.nbytes
    for number, decision in enumerate(decisions_of(records)):
        took = records[number * 5 : number * 5 + 5]
        sent = sum(record.bytes_up + record.bytes_down for record in took)
        travelled = sum(record.control.get("travelled", 0) for record in took)
        assert decision["cost"] == pytest.approx((sent - travelled) / (5 * whole))
    assert records[-1].state.spent == sum(record.bytes_up + record.bytes_down for record in records)


def test_travelling_is_counted_as_traffic_and_takes_time(skewed) -> None:
    records = run(bsp(), skewed, skewscout(knob="fraction", period=5), top_k())
    first = records[5]
    size = skewed[1].initial.nbytes
    assert first.bytes_up >= 5 * size
    assert first.clock - records[4].clock >= 8 * size / 100e6


def test_it_goes_where_the_traffic_is_needed(skewed) -> None:
    """From the loosest setting on skewed labels to a tighter one; and back where there is no skew."""
    tight = run(gaia(), skewed, skewscout(period=5, start=0.5), n=60)
    assert tight[-1].knobs["threshold"] < 0.5
    even = federate(load("digits"), "iid", 5), skewed[1]
    loose = run(gaia(), even, skewscout(period=5, start=0.02), n=60)
    assert loose[-1].knobs["threshold"] > 0.02


def test_old_values_are_forgotten_with_forget(skewed) -> None:
    """A party whose models lose nothing goes on to less traffic, is thrown back, and tries again after a while."""

    class Loses:
        spent, whole = 0, 1

        def travel(self, sample: int, trips: int) -> Travel:
            return Travel((0.9,), (0.1 if self.theta > 0.1 else 0.9,), 0)

        def draw(self, count: int) -> list[float]:
            return [0.0] * count

    def settings(forget: int | None) -> list[float]:
        scout = skewscout(period=1, forget=forget).dialled([Dial("threshold", (0.02, 0.1, 0.5))])
        server, memory, probe, seen = run_one(skewed), {}, Loses(), []
        for now in range(12):
            probe.spent += 1 if not seen or seen[-1] > 0.1 else 5
            orders = scout.steer(replace(server, round=now), memory, probe)
            memory, probe.theta = orders.memory, orders.knobs["threshold"]
            seen.append(probe.theta)
        return seen

    assert settings(None) == [0.1, 0.5] + [0.1] * 10
    assert settings(4).count(0.5) == 3


def test_it_goes_on_from_its_memory(skewed) -> None:
    def control() -> Controller:
        return skewscout(period=5, sample=50, search="annealing")

    whole = run(gaia(), skewed, control())
    method = Method(gaia(), SOLVER)
    again = list(rounds(method, *skewed, rounds=40, eval_every=40, controller=control(), state=whole[17].state))
    assert [record.knobs for record in again] == [record.knobs for record in whole[18:]]
    assert decisions_of(again) == [dict(record.control) for record in whole[18:] if record.control]
    assert torch.equal(again[-1].state.server.params, whole[-1].state.server.params)


EXPERIMENT = """
dataset = "digits"
model = "mlp(32)"
partition = "label-percent(percent=100)"
parties = 5
algorithm = "gaia"
solver = "sgd(lr=0.02, momentum=0.9, batch=20)"
controller = "skewscout(period=10, sample=50, search=annealing)"
rounds = 160
eval_every = 50
"""


def _facts(out: Path) -> tuple[list[Any], list[Any]]:
    """Return the digests of the one run's model and state, and its rounds without their timings."""
    (run,) = (file.parent for file in out.glob("*/run.json"))
    facts = json.loads((run / "run.json").read_text())
    rows = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    return [facts[key] for key in ("model_sha256", "state_sha256")], [
        row | {"seconds": None, "time": None} for row in rows
    ]


def test_a_killed_run_decides_the_same_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "e.toml", EXPERIMENT)
    command = ["run", file, "--workers", "1", "--out"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for n in (3, 60):
        run_killed(killed, n, *command, killed)
        assert not read_runs(killed)[0].complete
    assert call(capsys, *command, killed).code == 0
    assert call(capsys, *command, whole).code == 0
    assert _facts(killed) == _facts(whole)
    assert sum(bool(row.control) for row in read_runs(killed)[0].rounds) == 15


# --- what is refused, and the oracle ------------------------------------------------------------------


def test_a_method_without_a_knob_is_refused(skewed) -> None:
    with pytest.raises(ConfigError, match="neither the algorithm nor the transforms have one"):
        run(bsp(), skewed, skewscout())
    with pytest.raises(ConfigError, match="no knob 'treshold': did you mean threshold"):
        run(gaia(), skewed, skewscout(knob="treshold"))
    with pytest.raises(ConfigError, match=r"start=0.15 is not a setting of threshold.*0.02, 0.05"):
        run(gaia(), skewed, skewscout(start=0.15))


def test_an_oracle_is_many_runs(skewed) -> None:
    choices = {"dataset": "digits", "parties": 5, "controller": "oracle(grid=[0.1, 0.3])", "rounds": 3}
    assert len(expand(choices)) == 1
    plans = plan({**choices, "algorithm": "gaia"})
    assert [planned.cell.algorithm for planned in plans] == ["bsp", "gaia(threshold=0.1)", "gaia(threshold=0.3)"]
    assert {planned.cell.controller for planned in plans} == {"fixed"}
    of_fedavg = plan({**choices, "algorithm": "fedavg(iter_local=20)", "controller": "oracle(grid=[50, 5])"})
    assert [planned.cell.algorithm for planned in of_fedavg[1:]] == ["fedavg(iter_local=5)", "fedavg(iter_local=50)"]
    assert of_fedavg[1].id == plan({**choices, "algorithm": "fedavg(iter_local=5)", "controller": "fixed"})[0].id
    of_warmup = plan({**choices, "algorithm": "dgc", "controller": "oracle(grid=[8, 1.5])"})
    assert [planned.label["algorithm"] for planned in of_warmup[1:]] == ["dgc(warmup=8.0)", "dgc(warmup=1.5)"]
    with pytest.raises(SpecError, match="iter_local must be a whole number"):
        plan({**choices, "algorithm": "fedavg(iter_local=20)", "controller": "oracle(grid=[5.5])"})
    with_top_k = plan({**choices, "algorithm": "bsp", "transforms": "top-k"})
    assert [planned.cell.transforms for planned in with_top_k] == ["", "top-k(fraction=0.3)", "top-k(fraction=0.1)"]
    of_both = plan({**choices, "algorithm": "gaia", "controller": ["skewscout", "oracle"]})
    assert len(of_both) == 1 + 1 + 7
    of_dgc = plan({**choices, "algorithm": "dgc", "controller": "oracle(knob=sparsity, grid=[0.9])"})
    assert of_dgc[1].cell.algorithm == "dgc(sparsity=[0.9])"
    with pytest.raises(ConfigError, match="neither the algorithm nor the transforms have one"):
        plan({**choices, "algorithm": "fedavg"})
    with pytest.raises(ConfigError, match="several runs"):
        run(gaia(), skewed, oracle())


def test_a_grid_is_put_in_order_from_the_most_traffic_to_the_least() -> None:
    ascending, descending = Dial("threshold", (0.02, 0.5)), Dial("fraction", (0.5, 0.01))
    assert chosen_dial("oracle", [ascending], None, (0.3, 0.1, 0.2)).grid == (0.1, 0.2, 0.3)
    assert chosen_dial("oracle", [descending], None, (0.1, 0.3)).grid == (0.3, 0.1)


def test_any_method_can_expose_a_knob(skewed) -> None:
    """What is not ours: an algorithm that names a dial."""
    mine = replace(bsp(), dials=(Dial("haste", (1.0, 2.0)),))
    records = run(mine, skewed, skewscout(period=5, sample=20))
    assert {record.knobs["haste"] for record in records} <= {1.0, 2.0}


def test_a_lonely_party_has_nowhere_to_go(toy) -> None:
    alone = toy((20,))
    assert travel(Setting(Method(bsp(), SOLVER), *alone, 0), inline(), State(run_one(alone)), 5, 1).loss == 0.0


def run_one(federated: Any) -> Any:
    return next(rounds(Method(bsp(), SOLVER), *federated, rounds=1)).state.server


def test_the_loss_of_a_travel_is_the_mean_over_parties() -> None:
    assert Travel((0.9, 0.7), (0.4, 0.6), 0).loss == pytest.approx(0.3)
    assert Orders().report == {}
