"""Evaluation: which test rows are scored, and that any engine gives the same scores."""

from dataclasses import replace
from typing import Any

import pytest
from engine_cases import DIGITS, run, same

from natives import needs_native
from silobench.engines import Engine, inline, pool
from silobench.errors import ConfigError
from silobench.federation import federate
from silobench.method.solvers import sgd
from silobench.tasks.task import task


@pytest.mark.parametrize(("share", "count"), [(0.5, 15), (7, 7), (1, 1), (0.01, 1), (1.0, 30), (30, 30), (99, 30)])
def test_a_share_of_the_test_rows_is_scored_and_all_of_them_at_the_end(toy, share: float | int, count: int) -> None:
    federation, its_task = toy()
    solver = sgd(0.1, epochs=1, batch=8)
    records = run("fedavg", (federation, its_task), inline(), solver, rounds=5, eval_every=2, eval_on=share)
    assert [record.round for record in records if record.accuracy is not None] == [2, 4, 5]
    (part,) = federation.test_parts(share)
    assert len(part.rows) == count
    assert part.rows.tolist() == sorted(set(part.rows.tolist()))
    for record in records[1::2]:
        score = its_task.evaluate(record.state.server.params, its_task.buffers, [federation.part(part)])
        assert (record.accuracy, record.loss) == (score.accuracy, score.loss)
    whole = its_task.evaluate(records[-1].state.server.params, its_task.buffers, federation.test_batches())
    assert (records[-1].accuracy, whole.rows.sum()) == (whole.accuracy, 30)


def test_the_rows_that_are_scored_are_drawn_by_the_seed(toy) -> None:
    federation, _ = toy()
    drawn = [tuple(replace(federation, seed=seed).test_parts(0.5)[0].rows.tolist()) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    "engine",
    [
        pool(workers=2),
        Engine(("stacked",), workers=3),
        Engine(("stacked",), workers=2),
        pytest.param(Engine(("native",), workers=2), marks=needs_native),
    ],
)
@pytest.mark.parametrize("spec", ["fedavg", "solo"])
def test_scores_are_the_same_whoever_computes_them(monkeypatch, engine: Engine, spec: str) -> None:
    monkeypatch.setattr("silobench.federation._EVALUATION_ROWS", (50, 50))  # many parts
    federated, solver = (federate(DIGITS, "iid", 3), task("linear", DIGITS)), sgd(0.1, epochs=1)
    ours, alone = (run(spec, federated, e, solver, rounds=2, eval_on=0.7) for e in (engine, replace(engine, workers=0)))
    assert same(ours) == same(alone)


@pytest.mark.parametrize("options", [{"eval_every": 0}, {"eval_on": 0}, {"eval_on": -0.5}])
def test_evaluating_on_nothing_is_refused(toy, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="eval_on"):
        run("fedavg", toy(), inline(), sgd(), **options)
