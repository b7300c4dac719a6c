"""Parties that do not answer: how often, and what a round does without them."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from laws import SOLVER, bits, close, draw_cohort, feedback, models, run
from silobench.engines import ENGINES
from silobench.errors import ConfigError, SpecError
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES, always, dropout
from silobench.method.solvers import sgd
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare

SIZES = (20, 9, 30, 12, 16, 40)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_rate_over_many_draws(rate: float) -> None:
    available, cohort = dropout(rate), tuple(range(50))
    answered = [len(available(cohort, 1, now)) for now in range(200)]
    draws = 50 * 200
    assert abs(sum(answered) / draws - (1 - rate)) < 5 * math.sqrt(rate * (1 - rate) / draws)
    # Independent draws: the number per round scatters as a binomial does.
    mean = sum(answered) / 200
    scatter = sum((each - mean) ** 2 for each in answered) / 199 / (50 * rate * (1 - rate))
    assert abs(scatter - 1) < 5 * math.sqrt(2 / 199)


def test_draws_depend_on_seed_round_and_party_only() -> None:
    available, cohort = dropout(0.5), tuple(range(30))
    answer = available(cohort, 1, 2)
    assert answer == available(cohort, 1, 2)
    assert set(available(cohort[::3], 1, 2)) == set(answer) & set(cohort[::3])
    assert len({answer, available(cohort, 1, 3), available(cohort, 2, 2)}) == 3
    assert dropout(0.0)(cohort, 1, 2) == always()(cohort, 1, 2) == cohort


@pytest.mark.parametrize("spec", ["dropout(rate=1)", "dropout(rate=-0.1)"])
def test_impossible_rates_are_refused(spec: str) -> None:
    with pytest.raises(SpecError):
        AVAILABILITIES.build(spec)


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "solo"])
def test_results_do_not_depend_on_workers(toy, spec: str) -> None:
    def facts(engine: str) -> list[Any]:
        records = run(
            spec, toy(SIZES, "mlp(6)"), SOLVER, feedback(), availability=dropout(0.4), participation=5, rounds=4,
            engine=ENGINES.build(engine),
        )  # fmt: skip
        return [{**bits(record), "engine": None, "workers": None} for record in records]

    assert facts("inline") == facts("pool(workers=1)") == facts("pool(workers=2)")


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("engine", ["inline", "stacked"])
def test_a_round_is_one_with_the_parties_that_answer(toy, engine: str) -> None:
    """As if only these had been drawn, but for the bytes that the others were sent."""
    available, options = dropout(0.2), {"rounds": 8, "participation": 4, "seed": 2}
    records = run("fedavg", toy(SIZES), availability=available, engine=ENGINES.build(engine), **options)

    def select(federation: Any, count: int, seed: int, now: int) -> tuple[int, ...]:
        return available(draw_cohort(6, 4, seed, now), seed, now)

    drawn = run("fedavg", toy(SIZES), selection=select, **options)
    assert close(models(records), models(drawn))
    for now, (record, other) in enumerate(zip(records, drawn, strict=True)):
        cohort = draw_cohort(6, 4, 2, now)
        assert record.cohort == cohort
        assert other.cohort == (cohort if record.replied is None else record.replied)
        assert record.train_loss == pytest.approx(other.train_loss, nan_ok=True)
        assert (record.bytes_up, record.steps) == (other.bytes_up, other.steps)
        assert record.bytes_down == 8 * 15 * 4
        assert record.bytes_up == 8 * 15 * len(other.cohort)
    assert {record.replied is None for record in records} == {True, False}


def test_the_memory_of_a_party_that_does_not_answer_stays(toy) -> None:
    records = run("scaffold", toy(SIZES), SOLVER, feedback(), availability=dropout(0.5), rounds=6)
    stays = 0
    for before, after in pairwise(records):
        for party in range(6):
            same = bits(before.state.memory.get(party)) == bits(after.state.memory.get(party))
            assert same == (party not in (after.cohort if after.replied is None else after.replied))
            stays += same
    assert 0 < stays < 30


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova", "feddyn", "fedbn", "solo"])
@pytest.mark.parametrize("engine", ["inline", "auto", "pool(workers=2)"])
def test_a_round_in_which_nobody_answers(toy, spec: str, engine: str) -> None:
    def nobody_in_round_one(cohort: Any, seed: int, now: int) -> Any:
        return () if now == 1 else cohort

    options: dict[str, Any] = {"availability": nobody_in_round_one, "engine": ENGINES.build(engine)}
    first, second, third = run(spec, toy(SIZES), **options)
    before, after = first.state.server, second.state.server
    assert (bits(before.params), bits(before.extras)) == (bits(after.params), bits(after.extras))
    assert bits(first.state.memory) == bits(second.state.memory)
    assert (second.round, second.replied, second.bytes_up, second.steps) == (2, (), 0, 0)
    assert second.bytes_down == (0 if spec == "solo" else first.bytes_down)
    assert second.accuracy == first.accuracy
    assert math.isnan(second.train_loss)
    row = second.as_json()
    assert (row["train_loss"], row["replied"]) == (None, [])
    assert "replied" not in first.as_json()
    json.dumps(row, allow_nan=False)
    if spec != "solo":
        assert not torch.equal(third.state.server.params, after.params)


def test_repliers_are_in_the_stored_rounds(tmp_path: Path) -> None:
    cell = {"dataset": "digits", "model": "linear", "parties": 3, "rounds": 8, "availability": "dropout(rate=0.6)"}
    (made,) = plan(cell)
    records = list(execute(prepare(made), tmp_path))
    rows = [json.loads(line) for line in (tmp_path / made.id / "rounds.jsonl").read_text().splitlines()]
    assert [row.get("replied") for row in rows] == [
        None if record.replied is None else list(record.replied) for record in records
    ]
    assert [] in [row.get("replied") for row in rows]


@pytest.mark.parametrize("spec", ["bsp", "gaia", "dgc"])
def test_minibatch_by_minibatch_all_parties_must_answer(toy, spec: str) -> None:
    solver = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)
    with pytest.raises(ConfigError, match="leave pace at synchronous and availability at always"):
        run(ALGORITHMS.build(spec), toy(SIZES), solver, availability=dropout(0.1))
