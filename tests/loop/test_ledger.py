"""The privacy of a run: what rounds charge, what records state, budgets, and ledgers that survive a kill."""

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
from silobench.loop.privacy import LEDGER
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import dropout
from silobench.method.method import Method
from silobench.method.selection import by_size, poisson, uniform
from silobench.method.solvers import dp_sgd, sgd
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Memory, Transform, Update
from silobench.partitions import Partition
from silobench.privacy.accountant import epsilon
from silobench.privacy.mechanism import Mechanism
from silobench.runs.checkpoint import load_state
from silobench.runs.stored import read_run, run_paths
from silobench.tasks.task import Task
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
    ("options", "rate", "sampling"),
    [
        ({}, 1.0, "poisson"),
        ({"participation": 2, "selection": uniform()}, 0.5, "fixed"),
        ({"participation": 2, "selection": by_size()}, 1.0, "poisson"),  # large parties join more often
    ],
)
def test_the_draw_of_parties_is_part_of_their_release(
    toy: Toy, options: dict[str, Any], rate: float, sampling: Any
) -> None:
    record = run("fedavg", toy((20, 20, 20, 40)), sgd(lr=0.1, epochs=1), noisy(3.0), **options)[-1]
    facts = spent(record, "party")
    assert (facts["rate"], facts["steps"], facts["noise"]) == ([rate], [3], [3.0])
    assert facts["epsilon"] == epsilon([(Mechanism("party", 1e-4, 3.0, rate, sampling), 3)], 1e-4)


def test_rows_and_parties_have_accounts_of_their_own(toy: Toy) -> None:
    records = run("fedavg", toy(SIZES), PRIVATE, noisy(4.0, budget=2.5), rounds=50)
    assert set(records[0].privacy) == {"example", "party"}
    assert 1 < len(records) < 50
    assert spent(records[-1], "party")["epsilon"] <= 2.5
    assert spent(records[-1])["steps"] == [2 * len(records), 4 * len(records), 8 * len(records)]


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(each.build() for each in bind_chain(text))


def test_noise_on_parties_is_solved_for_the_draw_of_parties(toy: Toy) -> None:
    noises = {}
    for name, selection in (("fixed", uniform()), ("poisson", poisson())):
        noise = chain("clip(norm=1) | gaussian_noise(epsilon=4)")
        records = run(
            "fedavg", toy((10,) * 20), sgd(lr=0.1, epochs=1), *noise, participation=2, selection=selection, rounds=5
        )
        facts = spent(records[-1], "party")
        assert (len(records), facts["rate"], facts["steps"]) == (5, [0.1], [5])
        assert 3.8 < facts["epsilon"] <= 4
        noises[name] = facts["noise"][0]
    assert noises["poisson"] < noises["fixed"]


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


# --- kills --------------------------------------------------------------------------------------------

EXPERIMENT = """
dataset = "digits"
model = "linear"
parties = 5
participation = 3
solver = "dp_sgd(noise=8, epsilon=3, batch=256, steps=1, reproducible=true)"
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
