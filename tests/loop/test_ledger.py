"""The privacy of a run: what rounds charge, what records state, budgets, and ledgers that survive a kill."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from commands import call, run_killed, write
from laws import Toy, bits, run
from silobench.errors import ConfigError
from silobench.federation import Federation, Party
from silobench.loop.clocks import device
from silobench.loop.paces import buffered
from silobench.loop.privacy import LEDGER
from silobench.loop.rounds import rounds
from silobench.loop.schedule import Schedule
from silobench.method.algorithms import ALGORITHMS, fedavg
from silobench.method.availability import dropout
from silobench.method.control import Controller, Orders, Probe
from silobench.method.controllers import skewscout
from silobench.method.method import Method
from silobench.method.schedules import plateau
from silobench.method.selection import by_size, poisson, stratified, uniform
from silobench.method.solvers import dp_sgd, sgd
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Memory, Server, Transform, Update
from silobench.partitions import Partition
from silobench.privacy.accountant import epsilon
from silobench.privacy.mechanism import Mechanism
from silobench.runs.checkpoint import load_state
from silobench.runs.stored import read_run, run_paths
from silobench.tasks.task import Task
from silobench.training.setting import checked_setting
from silobench.training.state import RoundRecord

SIZES = (20, 40, 80)
PRIVATE = dp_sgd(noise=2.0, batch=10)  # one epoch: 2, 4 and 8 steps


@pytest.fixture(autouse=True)
def _quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out privacy loss distributions, which take half a second, where a test does not ask for them."""
    if "distributions" not in request.fixturenames:
        monkeypatch.setattr("silobench.loop.privacy.epsilon_pld", lambda entries, delta: None)


@pytest.fixture
def distributions() -> None:
    """Let the last record have the epsilon by privacy loss distributions."""


def spent(record: RoundRecord, unit: str = "example") -> Any:
    return record.privacy[unit]


def sharing(toy: Toy, rows: tuple[list[int], ...]) -> tuple[Federation, Task]:
    """Return a federation in which parties hold these rows, some of them at several parties."""
    federation, task = toy((60,))
    arrays = tuple(np.array(each) for each in rows)
    parties = tuple(Party(i, torch.from_numpy(each), torch.arange(0), str(i)) for i, each in enumerate(arrays))
    return replace(federation, parties=parties, partition=Partition(arrays)), task


def noisy(multiplier: float, budget: float | None = None) -> Transform:
    """Return a transform that states a release of parties, and leaves messages as they are."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update, memory

    return Transform(encode, release=lambda context: Mechanism("party", 1e-4, multiplier, budget=budget))


# --- rows ---------------------------------------------------------------------------------------------


def test_every_step_is_charged_at_its_true_rate(toy: Toy, distributions: None) -> None:
    records = run("fedavg", toy(SIZES), PRIVATE)
    for number, record in enumerate(records, 1):
        facts = spent(record)
        assert facts["steps"] == [2 * number, 4 * number, 8 * number]
        assert facts["rate"] == [10 / 20, 10 / 40, 10 / 80]
        each = [epsilon([(Mechanism("example", 1e-5, 2.0, 10 / rows), number * rows // 10)], 1e-5) for rows in SIZES]
        assert facts["parties"] == each
        assert facts["epsilon"] == max(each)
        assert (facts["delta"], facts["holds"], facts["accountant"]) == (1e-5, True, "rdp")
    assert 0.7 < spent(records[-1])["epsilon_pld"] / spent(records[-1])["epsilon"] < 1
    assert "epsilon_pld" not in spent(records[0])


def test_only_parties_that_trained_are_charged(toy: Toy) -> None:
    records = run("fedavg", toy(SIZES), PRIVATE, availability=dropout(0.5), participation=2, rounds=6)
    trainings = [0, 0, 0]
    for record in records:
        for party in record.cohort if record.replied is None else record.replied:
            trainings[party] += 1
        steps = record.privacy.get("example", {"steps": [None] * 3})["steps"]
        assert [each or 0 for each in steps] == [2 * trainings[0], 4 * trainings[1], 8 * trainings[2]]
    assert min(trainings) < max(trainings) < 6


def test_baselines_are_charged_for_the_rows_that_they_train_on(toy: Toy) -> None:
    (record,) = run("combined", toy(SIZES), PRIVATE, rounds=1)
    assert (spent(record)["steps"], spent(record)["rate"]) == ([14], [10 / 140])
    (record,) = run("solo", toy(SIZES), PRIVATE, noisy(1.0), rounds=1)
    assert spent(record)["steps"] == [2, 4, 8]
    assert "party" not in record.privacy  # a baseline sends nothing


def test_a_run_without_noise_says_nothing(toy: Toy) -> None:
    record = run("fedavg", toy(SIZES), sgd(lr=0.1, epochs=1))[-1]
    assert not record.privacy
    assert LEDGER not in record.state.extra
    assert "privacy" not in record.as_json()


@pytest.mark.parametrize(
    ("solver", "reason"),
    [
        (dp_sgd(noise=2.0, batch=10, sampling="shuffled"), "batches are shuffled"),
        (dp_sgd(noise=2.0, batch=10, reproducible=True), "follows from the seed"),
        (dp_sgd(noise=0.0, batch=10), "no noise is added"),
    ],
)
def test_an_epsilon_that_is_no_guarantee_says_why(toy: Toy, solver: Any, reason: str) -> None:
    (record,) = run("fedavg", toy(SIZES), solver, rounds=1)
    assert not spent(record)["holds"]
    assert reason in spent(record)["reason"]
    stated = json.loads(json.dumps(record.as_json()["privacy"]["example"], allow_nan=False))["epsilon"]
    assert (stated is None) == math.isinf(spent(record)["epsilon"]) == (reason == "no noise is added")


def test_a_row_at_several_parties_is_charged_by_each_of_them(toy: Toy) -> None:
    rows = (list(range(20)), list(range(15, 35)), list(range(35, 60)))
    record = run("fedavg", sharing(toy, rows), PRIVATE)[-1]
    both = [(Mechanism("example", 1e-5, 2.0, 0.5), 6)] * 2
    assert spent(record)["epsilon"] == epsilon(both, 1e-5) > max(spent(record)["parties"])
    target = dp_sgd(epsilon=3.0, batch=10)
    record = run("fedavg", sharing(toy, rows), target)[-1]
    assert record.round == 3
    assert max(spent(record)["parties"]) < 2.9 < spent(record)["epsilon"] <= 3.0


def test_a_row_that_a_party_holds_several_times_has_no_guarantee(toy: Toy) -> None:
    rows = ([0] * 5 + list(range(1, 16)), list(range(20, 40)))
    (record,) = run("fedavg", sharing(toy, rows), PRIVATE, rounds=1)
    assert not spent(record)["holds"]
    assert "holds the same row several times" in spent(record)["reason"]


# --- targets and budgets ------------------------------------------------------------------------------


@pytest.mark.parametrize("participation", [1.0, 2])
def test_noise_is_solved_for_the_rounds_of_the_party_that_trains_most(toy: Toy, participation: float | int) -> None:
    records = run("fedavg", toy((20, 30, 20)), dp_sgd(epsilon=2.0, batch=10), participation=participation, rounds=8)
    assert len(records) == 8
    facts = spent(records[-1])
    assert 1.99 < facts["epsilon"] <= 2.0
    trainings = [sum(party in record.cohort for record in records) for party in range(3)]
    assert facts["steps"] == [count * steps for count, steps in zip(trainings, (2, 3, 2), strict=True)]


def test_a_run_ends_before_the_round_that_would_exceed_its_budget(toy: Toy) -> None:
    solver = dp_sgd(noise=2.0, epsilon=3.0, batch=10)
    records = run("fedavg", toy(SIZES), solver, rounds=50, eval_every=50)
    last, number = records[-1], len(records)
    assert 1 < number < 50
    one_more = epsilon([(Mechanism("example", 1e-5, 2.0, 0.5), 2 * (number + 1))], 1e-5)
    assert spent(last)["epsilon"] <= 3.0 < one_more
    assert last.privacy["ended"] == f"round {number + 1} would bring epsilon to {one_more:.4g}, but its budget is 3"
    assert "ended" not in records[-2].privacy
    assert last.state.has_ended
    assert not last.converged
    assert last.accuracy is not None
    assert last.final  # as after any last round
    assert run("fedavg", toy(SIZES), solver, rounds=50, state=last.state) == []


def test_a_run_is_refused_if_its_first_round_exceeds_the_budget(toy: Toy) -> None:
    with pytest.raises(ConfigError, match=r"round 1 would bring epsilon to .*, but its budget is 0.1: give more noise"):
        run("fedavg", toy(SIZES), dp_sgd(noise=2.0, epsilon=0.1, batch=10))


@pytest.mark.parametrize("limit", [3.0, 4.8])  # already exceeded, and exceeded by one more round
def test_a_run_is_not_resumed_if_its_next_round_exceeds_the_budget(toy: Toy, limit: float) -> None:
    last = run("fedavg", toy(SIZES), PRIVATE, rounds=6, eval_every=6)[-1]
    one_more = epsilon([(Mechanism("example", 1e-5, 2.0, 0.5), 14)], 1e-5)
    assert 3.0 < spent(last)["epsilon"] <= 4.8 < one_more
    solver = dp_sgd(noise=2.0, epsilon=limit, batch=10)
    trained = list[RoundRecord]()
    resumed = rounds(Method(ALGORITHMS.build("fedavg"), solver), *toy(SIZES), rounds=7, state=last.state)
    reason = f"round 7 would bring epsilon to {one_more:.4g}, but its budget is {limit:g}: give more noise"
    with pytest.raises(ConfigError, match=reason):
        trained.extend(resumed)
    assert trained == []
    assert run("fedavg", toy(SIZES), solver, rounds=6, state=last.state) == []  # no round is left
    enough = dp_sgd(noise=2.0, epsilon=one_more + 0.01, batch=10)
    assert len(run("fedavg", toy(SIZES), enough, rounds=7, state=last.state)) == 1


# --- parties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ({}, 1.0),
        ({"participation": 2, "selection": poisson()}, 0.5),
        ({"participation": 2, "selection": uniform()}, 1.0),  # whoever knows the seed knows who takes part
        ({"participation": 2, "selection": poisson(reproducible=True)}, 1.0),
        ({"participation": 2, "selection": by_size()}, 1.0),
        ({"participation": 2, "selection": poisson(), "pace": buffered(1), "clock": device(speed=100)}, 1.0),
    ],
)
def test_a_secret_draw_of_parties_is_part_of_their_release(toy: Toy, options: dict[str, Any], rate: float) -> None:
    record = run("fedavg", toy((20, 20, 20, 40)), sgd(lr=0.1, epochs=1), noisy(3.0), **options)[-1]
    facts = spent(record, "party")
    assert (facts["rate"], facts["steps"], facts["noise"]) == ([rate], [3], [3.0])
    assert facts["epsilon"] == epsilon([(Mechanism("party", 1e-4, 3.0, rate), 3)], 1e-4)


def test_rows_and_parties_have_accounts_of_their_own(toy: Toy) -> None:
    records = run("fedavg", toy(SIZES), PRIVATE, noisy(4.0, budget=2.5), rounds=50)
    assert set(records[0].privacy) == {"example", "party"}
    assert 1 < len(records) < 50
    assert spent(records[-1], "party")["epsilon"] <= 2.5
    assert spent(records[-1])["steps"] == [2 * len(records), 4 * len(records), 8 * len(records)]


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(each.build() for each in bind_chain(text))


def test_noise_on_parties_is_solved_for_the_draw_of_parties(toy: Toy) -> None:
    noises = []
    for selection, text, rate in (
        (poisson(), "", 0.15),
        (uniform(), "", 1.0),
        (poisson(reproducible=True), "", 1.0),
        (uniform(), " | secure_sum(splits=2)", 1.0),
    ):
        noise = chain(f"clip(norm=1) | gaussian_noise(epsilon=4){text}")
        records = run(
            "fedavg", toy((10,) * 20), sgd(lr=0.1, epochs=1), *noise, participation=3, selection=selection, rounds=5
        )
        facts = spent(records[-1], "party")
        assert (len(records), facts["rate"], facts["steps"], facts["holds"]) == (5, [rate], [5], True)
        assert 3.8 < facts["epsilon"] <= 4
        noises.append(facts["noise"][0])
    assert 2 * noises[0] < noises[1] == noises[2] == noises[3]


def test_parties_of_a_secure_sum_know_the_draw(toy: Toy) -> None:
    noise = chain("clip(norm=1) | gaussian_noise(multiplier=3) | secure_sum(splits=2, too_few=skip)")
    (record,) = run(
        "fedavg", toy((10,) * 6), sgd(lr=0.1, epochs=1), *noise, participation=3, selection=poisson(), rounds=1
    )
    assert spent(record, "party")["rate"] == [1.0]


def test_targets_and_budgets_hold_whatever_a_secret_draw_is(toy: Toy) -> None:
    """A killed run draws again, so every party may take part in every round."""
    federation, task = toy((20, 20, 20))
    choices: dict[str, Any] = {"participation": 1, "selection": poisson()}
    setting = checked_setting(Method(fedavg(), dp_sgd(epsilon=2.0, batch=10)), federation, task, 0)
    solvers = [Schedule(setting, rounds=8, **chosen).setting.solver for chosen in (choices, {})]
    assert solvers[0].noises == solvers[1].noises
    solver = dp_sgd(noise=2.0, epsilon=2.5, batch=10)  # enough for one training of each party, not for two
    records = run("fedavg", (federation, task), solver, rounds=60, eval_every=60, **choices)
    assert [bool(record.cohort) for record in records] == [False] * (len(records) - 1) + [True]
    assert "ended" in records[-1].privacy


# --- choices by the data ------------------------------------------------------------------------------


def test_a_choice_by_exact_numbers_of_the_data_is_not_covered(toy: Toy) -> None:
    scout = skewscout(period=1, sample=5)
    parties = chain("clip(norm=1) | gaussian_noise(multiplier=9)")
    follows = sgd(lr=plateau(0.1), epochs=1)
    for solver, transforms, options, unit, reason in (
        (PRIVATE, chain("top_k"), {"controller": scout}, "example", "exact scores on training rows"),
        (PRIVATE, (), {"selection": stratified(), "participation": 2}, "example", "rows of each class"),
        (PRIVATE, (), {"selection": stratified()}, "example", None),  # all take part
        (PRIVATE, (), {"selection": by_size(), "participation": 2}, "example", None),
        (replace(PRIVATE, lr=plateau(0.1)), (), {}, "example", None),  # validation rows are other rows
        (follows, parties, {}, "party", "loss on validation rows"),
    ):
        federation, task = toy(SIZES)
        held = tuple(replace(each, rows=each.rows[:-4], validation=each.rows[-4:]) for each in federation.parties)
        federated = replace(federation, parties=held), task
        facts = spent(run("fedavg", federated, solver, *transforms, rounds=2, **options)[-1], unit)
        assert facts["holds"] == (reason is None)
        assert reason is None or reason in facts["reason"]


@pytest.mark.parametrize("text", ["secure_sum(splits=2, range=64)", "clip(norm=1) | gaussian_noise(multiplier=9)"])
def test_models_do_not_travel_where_transforms_protect_parties(toy: Toy, text: str) -> None:
    with pytest.raises(ConfigError, match=r"skewscout sends the models of single parties .*: use controller = fixed"):
        run("fedavg", toy(SIZES), sgd(lr=0.1, epochs=1), *chain(text), controller=skewscout(period=1))


def test_a_controller_must_state_that_models_travel(toy: Toy) -> None:
    def steer(server: Server, memory: Memory, probe: Probe) -> Orders:
        return Orders({}, report={"home": probe.travel(5, 1).home})

    with pytest.raises(ConfigError, match="write travels=True"):
        run("fedavg", toy(SIZES), PRIVATE, controller=Controller(steer))
    record = run("fedavg", toy(SIZES), PRIVATE, controller=Controller(steer, travels=True))[-1]
    assert not spent(record)["holds"]
    assert run("fedavg", toy(SIZES), sgd(lr=0.1, epochs=1), controller=Controller(steer))[-1].control["home"]


def test_a_budget_holds_although_parties_take_their_noise_with_them(toy: Toy) -> None:
    """The noise of parties that are lost is missing, so a round may cost more than one in which all answer."""
    secure = "secure_sum(protocol=pairwise, threshold=4, too_few=skip)"
    noise = chain(f"clip(norm=1) | skellam_noise(multiplier=3, epsilon=8) | {secure}")
    records = run("fedavg", toy((10,) * 6), sgd(lr=0.1, epochs=1), *noise, availability=dropout(0.1), rounds=40)
    costs = {len(record.replied or record.cohort) for record in records}
    assert len(costs) > 1
    assert len(records) < 40
    assert spent(records[-1], "party")["accountant"] == "zcdp"
    assert 6 < spent(records[-1], "party")["epsilon"] <= 8


STARTED = """
dataset = "digits"
model = "linear"
parties = 5
solver = "sgd(epochs=1, batch=512)"
transforms = "clip(norm=1) | gaussian_noise(multiplier=9)"
rounds = 1
eval_on = 10
"""


def test_a_model_of_another_run_is_not_covered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def facts(start: str, out: Path) -> Any:
        file = write(tmp_path / "e.toml", f'{STARTED}start = "{start}"')
        assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
        (private,) = (each for each in map(read_run, run_paths(out)) if each.rounds[-1].privacy)
        return private.path, private.rounds[-1].privacy["party"]

    path, fresh = facts("random", tmp_path / "random")
    assert fresh["holds"]
    for number, start in enumerate(("centralised(rounds=1)", f"run(path='{path}')")):
        _, later = facts(start, tmp_path / str(number))
        assert later == {**fresh, "holds": False, "reason": later["reason"]}
        assert "starts from the model of another run" in later["reason"]


SKIPPING = "secure_sum(protocol=pairwise, too_few=skip)"


@pytest.mark.parametrize(
    ("solver", "noise"),
    [
        (sgd(lr=0.1, epochs=1), "skellam_noise(multiplier=50, epsilon=9) | "),
        (sgd(lr=0.1, epochs=1), "gaussian_noise(multiplier=50, epsilon=9) | "),
        (dp_sgd(noise=50, epsilon=9, batch=5), ""),
        (sgd(lr=0.1, epochs=1), ""),
    ],
    ids=["skellam", "gaussian", "dp_sgd", "plain"],
)
def test_cohorts_that_a_secure_sum_refuses_are_lost_rounds(toy: Toy, solver: Any, noise: str) -> None:
    transforms = chain(f"clip(norm=1) | {noise}{SKIPPING}")
    records = run(
        "fedavg", toy((10,) * 6), solver, *transforms, participation=2, selection=poisson(reproducible=True), rounds=12
    )
    sizes = [len(record.cohort) for record in records]
    assert {0, 1} < set(sizes)
    assert len(records) == 12
    for before, record in itertools.pairwise(records):
        has_blank = "gaussian" in noise and not record.cohort  # of zeros, with noise
        stays = torch.equal(before.state.server.params, record.state.server.params)
        assert stays == (len(record.cohort) < 2 and not has_blank)
        if "skellam" in noise and stays:
            assert spent(record, "party") == spent(before, "party")
    assert all(record.reports.get("lost rounds") for record in records if len(record.cohort) == 1)
    assert noise == "" or math.isfinite(spent(records[-1], "party")["epsilon"])


@pytest.mark.parametrize("algorithm", ["solo", "combined"])
def test_baselines_ignore_transforms(toy: Toy, algorithm: str) -> None:
    for noise in ("", "skellam_noise(epsilon=3) | "):
        records = run(algorithm, toy(SIZES), PRIVATE, *chain(f"clip(norm=1) | {noise}secure_sum(splits=2)"))
        assert spent(records[-1])["holds"]
        assert "party" not in records[-1].privacy


# --- kills --------------------------------------------------------------------------------------------

EXPERIMENT = """
dataset = "digits"
model = "linear"
parties = 5
participation = 3
solver = "dp_sgd(noise=5, epsilon=3, batch=256, steps=1, reproducible=true)"
rounds = 400
"""


def test_a_killed_run_has_the_ledger_of_one_never_interrupted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, killed, whole = write(tmp_path / "e.toml", EXPERIMENT), tmp_path / "killed", tmp_path / "whole"
    command = ["run", file, "--workers", "1", "--out"]
    run_killed(killed, 3, *command, killed)
    (path,) = run_paths(killed)
    assert not read_run(path).complete
    assert call(capsys, *command, killed).code == 0
    assert call(capsys, *command, whole).code == 0
    one, other = (load_state(out / path.name) for out in (killed, whole))
    assert bits(one.extra) == bits(other.extra)
    assert one.extra[LEDGER]["count"].sum() > 0
    rows = [read_run(out / path.name).rounds for out in (killed, whole)]
    assert [row.privacy for row in rows[0]] == [row.privacy for row in rows[1]]
    assert "ended" in rows[0][-1].privacy
    assert call(capsys, *command, killed).code == 0  # another start spends nothing more
    assert bits(load_state(path).extra) == bits(one.extra)
