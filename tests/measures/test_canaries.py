"""The measure canaries: honest runs stay below their claim, and broken mechanisms are caught."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import silobench.loop.privacy
from silobench.data import load
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.rounds import rounds
from silobench.measures import Course, canaries, measured
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import Problem, Solver, sgd
from silobench.method.solvers.dp_sgd import CANARIES, DpSgd, dp_sgd
from silobench.method.types import Vector
from silobench.privacy.accountant import epsilon_pld
from silobench.privacy.canaries import Canaries
from silobench.privacy.randomness import Randomness
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_runs
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

SAMPLED = dp_sgd(noise=1.1, steps=10, batch=64)
WHOLE = dp_sgd(noise=2.0, steps=1, batch="full")
MOST = 3.0  # the claims are below it


class WithoutNoise(DpSgd):
    def add_noise(self, total: Vector, noise: float, random: Randomness) -> None:
        pass


class ClippedMean(DpSgd):
    """Clips the mean gradient of a batch, and adds noise as if single rows had been clipped (OARF's code)."""

    def clipped_sum(self, problem: Problem, rows: Tensor) -> Tensor:
        grad, planted, count = problem.task.network.grad, problem.canaries, len(rows)
        assert planted is not None
        rows, drawn = planted.split(rows)
        loss = problem.backward(rows)
        grad.mul_(len(rows))
        planted.add(grad, drawn)
        grad.div_(count)
        grad.mul_(min(1.0, self.clip / float(grad.norm())) * min(self.batch or math.inf, problem.party.samples))
        return loss


class WithoutSampling(DpSgd):
    """Takes all rows in every step, and counts on the privacy of samples."""

    def sampled(self, problem: Problem, round: int, random: Randomness) -> Iterator[Tensor]:
        return itertools.repeat(problem.rows, self.count(problem.party.samples))


def as_kind(solver: DpSgd, kind: type[DpSgd]) -> DpSgd:
    return kind(**{field.name: getattr(solver, field.name) for field in fields(solver)})


BROKEN = {
    "noise left out": lambda solver: as_kind(solver, WithoutNoise),
    "the mean is clipped": lambda solver: as_kind(solver, ClippedMean),
    "noise from a known seed": lambda solver: replace(solver, reproducible=True),
}


@pytest.fixture(autouse=True)
def _secrets_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw secret numbers from a fixed seed, so that no test fails by chance; the observer does not know it."""
    numbers = itertools.count()
    monkeypatch.setattr(Randomness, "secret", lambda: Randomness.seeded(0, "test", next(numbers)))
    monkeypatch.setattr(silobench.loop.privacy, "epsilon_pld", lambda entries, delta: None)  # takes a second


@pytest.fixture(scope="module")
def parts() -> tuple[Federation, Task]:
    """One party with 719 rows, and a network of 2,834 parameters."""
    data = load("digits")
    federation = federate(data, "iid", 2)
    return replace(federation, parties=federation.parties[:1]), task("mlp", data)


def run(parts: tuple[Federation, Task], solver: Solver, seed: int = 0, n: int = 1, **options: Any) -> list[RoundRecord]:
    method, measure = Method(ALGORITHMS.build("fedavg"), solver), canaries(**options)
    course = Course(Setting(method, *parts, seed), rounds=n)
    measure.check(course.setting, 1)
    records = rounds(method, *parts, seed=seed, rounds=n, eval_every=n, plant=measure.plant)
    return list(measured(records, {"canaries": measure}, course))


def audited(*arguments: Any, **options: Any) -> Any:
    return run(*arguments, **options)[-1].measures["canaries"]


@pytest.mark.parametrize("solver", [SAMPLED, WHOLE], ids=["sampled", "whole"])
@pytest.mark.parametrize("seed", range(10))
def test_the_bound_of_an_honest_run_is_below_its_claim(parts, solver: DpSgd, seed: int) -> None:
    seen = audited(parts, solver, seed)
    assert seen["epsilon"] < seen["claimed"] < MOST
    assert seen["verdict"] == "the claim is not refuted"


@pytest.mark.parametrize("solver", [SAMPLED, WHOLE], ids=["sampled", "whole"])
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_mechanisms_are_caught(parts, solver: DpSgd, kind: str) -> None:
    seen = audited(parts, BROKEN[kind](solver))
    assert seen["claimed"] < MOST < seen["epsilon"]
    assert seen["verdict"] == "the claim is refuted"
    assert seen["canaries"] == 1000
    assert seen["confidence"] == 0.95


def test_a_step_of_all_rows_is_caught(parts) -> None:
    assert audited(parts, as_kind(SAMPLED, WithoutSampling))["verdict"] == "the claim is refuted"


def test_the_audit_sees_something_of_an_honest_run(parts) -> None:
    """Else it would prove nothing that bounds are below claims."""
    bounds = [audited(parts, dp_sgd(noise=1.0, steps=1, batch="full"), seed)["epsilon"] for seed in range(5)]
    assert 1.0 < np.mean(bounds) < 3.0


def test_a_seed_is_known_by_drawing_the_noise_again(parts) -> None:
    """The observer of reproducible noise knows how often each canary was sampled: the evidence is that of no noise."""
    solver = replace(SAMPLED, reproducible=True, noise=0.1)
    (record,) = run(parts, solver, seed=4)
    random, party = Randomness.seeded(4, "dp noise", 0, 0), parts[0].parties[0]
    planted = Canaries.planted(4, 0, len(parts[0].dataset.train), parts[1].network.layout.trainable, 1000, 100.0)
    times, rate = np.zeros(1000), solver.rate(party.samples)
    for _ in range(10):
        drawn = random.sample(rate, party.samples + 1000) - party.samples
        times[drawn[drawn >= 0]] += 1
        random.normal(parts[1].network.layout.trainable)
    times *= planted.joined.numpy()
    evidence = record.state.memory[0]["solver"][CANARIES].numpy()
    # A sampled canary is at 1, another at 0: each is half a clip off the middle, and 0.5 / 0.1² is 50.
    assert evidence == pytest.approx(times * (math.log(rate) + 50) + (10 - times) * math.log1p(-rate), abs=0.01)


def test_the_claim_is_the_smallest_that_the_run_states(parts, monkeypatch) -> None:
    assert audited(parts, SAMPLED)["claimed"] == run(parts, SAMPLED)[0].privacy["example"]["parties"][0]
    monkeypatch.setattr(silobench.loop.privacy, "epsilon_pld", epsilon_pld)
    (record,) = run(parts, SAMPLED)
    stated, seen = record.privacy["example"], record.measures["canaries"]
    assert seen["claimed"] == stated["epsilon_pld"] < stated["parties"][0]
    assert seen["delta"] == stated["delta"]


def test_without_noise_no_epsilon_is_claimed(parts) -> None:
    seen = audited(parts, dp_sgd(noise=0.0, steps=10, batch=64))
    assert seen["claimed"] is None
    assert seen["verdict"] == "no epsilon is claimed"
    assert seen["epsilon"] > MOST


def test_canaries_are_sampled_and_clipped_like_rows(parts) -> None:
    """Without noise, the evidence of a canary is how often it was sampled, if it joined, whatever its length."""
    solver = dp_sgd(noise=0.0, clip=0.5, steps=40, batch=64)
    rate = solver.rate(719)
    for length in (None, 0.5):
        (record,) = run(parts, solver, length=length)
        evidence = record.state.memory[0]["solver"][CANARIES].numpy()
        joined = Canaries.planted(0, 0, 1, 2834, 1000, 1.0).joined.numpy()
        times = evidence.round()
        assert np.abs(evidence - times).max() < 1e-4  # canaries are found in sums of about 100 rows, in float32
        assert not times[~joined].any()
        deviation = math.sqrt(40 * rate * (1 - rate) / joined.sum())
        assert abs(times[joined].mean() - 40 * rate) < 5 * deviation  # the seed is fixed


def test_half_of_the_canaries_join_each_at_its_own_parameter() -> None:
    planted = Canaries.planted(3, 0, 100, 2834, 1000, 1.0)
    assert len(planted.places.unique()) == 1000
    assert abs(int(planted.joined.sum()) - 500) < 80  # five deviations
    again, other = (Canaries.planted(seed, 0, 100, 2834, 1000, 1.0) for seed in (3, 4))
    assert torch.equal(again.joined, planted.joined)
    assert not torch.equal(other.joined, planted.joined)
    assert not torch.equal(other.places, planted.places)


def test_a_resumed_run_has_the_same_audit(parts) -> None:
    solver = replace(SAMPLED, reproducible=True)
    whole = run(parts, solver, n=3)
    method, measure = Method(ALGORITHMS.build("fedavg"), solver), canaries()
    state = whole[0].state
    rest = rounds(method, *parts, rounds=3, eval_every=3, plant=measure.plant, state=state)
    again = list(measured(rest, {"canaries": measure}, Course(Setting(method, *parts, 0), rounds=3), state))
    assert again[-1].measures == whole[-1].measures
    assert "canaries" not in whole[1].measures


def test_canaries_can_be_planted_at_any_party() -> None:
    data = load("digits")
    federation, built = federate(data, "iid", 3), task("mlp", data)
    (record,) = run((federation, built), replace(SAMPLED, steps=4), party=1, count=200)
    assert record.measures["canaries"]["party"] == 1
    assert CANARIES in record.state.memory[1]["solver"]
    assert record.state.memory.keys() == {1}


def test_a_run_from_a_configuration_is_audited(tmp_path: Path) -> None:
    cell = {"dataset": "digits", "parties": 2, "model": "mlp", "rounds": 2, "measure": ["canaries", "membership"]}
    ready = prepare(bind({**cell, "solver": "dp_sgd(noise=1.1, steps=4)"}))
    last = list(execute(ready, tmp_path))[-1]
    (stored,) = read_runs(tmp_path)
    assert stored.measured("canaries") == {2: last.measures["canaries"]}
    assert last.measures["canaries"]["epsilon"] < last.measures["canaries"]["claimed"]
    assert stored.measured("membership").keys() == {2}


def test_other_solvers_and_too_many_canaries_are_refused(parts) -> None:
    def check(solver: Solver, **options: Any) -> None:
        canaries(**options).check(Setting(Method(ALGORITHMS.build("fedavg"), solver), *parts, 0), 1)

    for solver in (sgd(lr=0.1), replace(SAMPLED, sampling="shuffled"), dp_sgd(noise=0.0, clip="inf")):
        with pytest.raises(ConfigError, match="audits the epsilon of dp_sgd with Poisson samples and a finite clip"):
            check(solver)
    with pytest.raises(ConfigError, match="party=1 was given, but the parties are 0 to 0"):
        check(SAMPLED, party=1)
    with pytest.raises(ConfigError, match="use at most 2834"):
        check(SAMPLED, count=2835)
    with pytest.raises(ConfigError, match="use at most 500"):
        check(replace(SAMPLED, delta=1e-3))
    check(SAMPLED, count=2834)


def test_canaries_that_were_not_planted_are_missed(parts) -> None:
    method = Method(ALGORITHMS.build("fedavg"), SAMPLED)
    records = rounds(method, *parts, rounds=1)
    with pytest.raises(ConfigError, match=r"write plant=measure\.plant in sb\.rounds"):
        list(measured(records, {"canaries": canaries()}, Course(Setting(method, *parts, 0), rounds=1)))
