"""Runs whose learning rate follows the validation loss: they drop, end, resume and store what they did."""

from pathlib import Path
from typing import Any

import pytest

import silobench as sb
from laws import bits
from silobench.analysis.cells import collect
from silobench.analysis.tables import cost_table
from silobench.analysis.units import size
from silobench.errors import ConfigError
from silobench.method.solvers import SOLVERS
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.training.state import RoundRecord

SPEC = "plateau(0.2, factor=0.5, patience=1, drops=3, threshold=0.05)"
CELL: dict[str, Any] = {
    "dataset": "digits",
    "model": "linear",
    "partition": "label-dirichlet(beta=0.5)",
    "parties": 5,
    "rounds": 200,
    "validation": 0.1,
}


def run(spec: str = SPEC, validation: float = 0.1, **options: Any) -> list[RoundRecord]:
    data = sb.load("digits")
    federation = sb.federate(data, "label-dirichlet(beta=0.5)", parties=5, validation=validation)
    method = sb.Method(sb.fedavg(), SOLVERS.build(f"sgd(lr={spec}, epochs=1, batch=32)"))
    return list(sb.rounds(method, federation, sb.task("linear", data), **{"rounds": 200} | options))


def test_the_rates_of_a_run_are_those_of_the_rule_and_it_ends_at_the_last_drop() -> None:
    records, knob = run(), SOLVERS.build(f"sgd(lr={SPEC})").lr
    assert 3 < len(records) < 200
    memory, rates, ends = {}, [], []
    for record in records:
        rates.append(knob.knobs(memory)["plateau"])
        memory, is_finished = knob.follow(memory, record.validation_loss)
        ends.append(is_finished)
    assert [record.knobs["plateau"] for record in records] == rates
    assert sorted(set(rates), reverse=True) == pytest.approx([0.2, 0.1, 0.05])
    assert ends == [False] * (len(records) - 1) + [True]


def test_rounds_are_the_maximum() -> None:
    assert len(run(rounds=3)) == 3


def test_the_rate_is_used_in_training() -> None:
    """Up to its first drop the run is one with a constant rate, and after it another one."""
    records = run()
    constant = run("0.2", rounds=len(records))
    drop = next(place for place, record in enumerate(records) if record.knobs["plateau"] < 0.2)
    same = [bits(a.state.server.params) == bits(b.state.server.params) for a, b in zip(records, constant, strict=True)]
    assert same == [True] * drop + [False] * (len(records) - drop)


def test_a_run_resumed_after_any_round_continues_bit_for_bit() -> None:
    whole = run()
    for done in (1, len(whole) // 2, len(whole) - 1):
        rest = run(state=whole[done - 1].state)
        assert [bits(record) for record in rest] == [bits(record) for record in whole[done:]]
    assert not run(state=whole[-1].state)  # a finished run stays finished


def test_only_tested_rounds_count() -> None:
    every, third = (
        run("plateau(0.2, patience=0, drops=1, threshold=0.9)"),
        run("plateau(0.2, patience=0, drops=1, threshold=0.9)", eval_every=3),
    )
    assert len(every) == 2
    assert len(third) == 6
    assert third[-1].accuracy is not None


def test_a_stored_run_that_ended_is_complete_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    solver = f"sgd(lr=warmup({SPEC}, over=3), epochs=1, batch=32)"
    (made,) = plan({**CELL, "algorithm": "fedavg", "solver": solver})
    list(execute(prepare(made), tmp_path / "whole"))
    for _ in range(3):
        begun = execute(prepare(made), tmp_path / "cut")
        next(begun)
        begun.close()
    list(execute(prepare(made), tmp_path / "cut"))
    whole, cut = (read_run(tmp_path / name / made.id) for name in ("whole", "cut"))
    assert whole.complete
    assert 3 < len(whole.rounds) < 200
    assert whole.facts.state_sha256 == cut.facts.state_sha256
    assert len(whole.rounds) == len(cut.rounds)
    assert not list(execute(prepare(made), tmp_path / "whole"))
    table = cost_table(collect([whole]))
    costs = {name: entry.text for name, entry in zip(table.columns, table.rows[0], strict=True)}
    sent = sum(row.bytes_up + row.bytes_down / 5 for row in whole.rounds) / len(whole.rounds)
    assert (costs["rounds"], costs["bytes per round"]) == (str(len(whole.rounds)), size(sent))


@pytest.mark.parametrize("spec", [SPEC, f"warmup({SPEC}, over=3)"])
def test_a_run_without_validation_rows_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"no party has such rows: hold some out, as with validation = 0\.1"):
        run(spec, validation=0.0)


def test_divergence_from_a_run_with_other_rates_is_refused() -> None:
    (made,) = plan({**CELL, "algorithm": "fedavg", "solver": f"sgd(lr={SPEC})", "measure": ["weight-divergence"]})
    with pytest.raises(ConfigError, match="depend on the run"):
        prepare(made)


def test_the_last_round_is_measured_and_tested_on_all_rows_where_a_run_ends_early(tmp_path: Path) -> None:
    choices = {"algorithm": "fedavg", "solver": f"sgd(lr={SPEC}, epochs=1, batch=32)", "eval_on": 1}
    (planned,) = plan({**CELL, **choices, "measure": ["replicas(every=1000)", "update-delta(every=1000)"]})
    records = list(execute(prepare(planned), tmp_path, "auto"))
    assert len(records) < CELL["rounds"]
    assert [list(record.measures) for record in records[-2:]] == [[], ["replicas", "update-delta"]]
    tested = [{accuracy is not None for accuracy in record.class_accuracy or ()} for record in records[-2:]]
    assert tested == [{True, False}, {True}]  # one row, and all rows


def test_a_warm_up_on_shared_rows_has_the_first_rate() -> None:
    data = sb.load("digits")
    federation = sb.federate(data, "shards(1) + share(beta=0.1, warmup=2)", parties=5, validation=0.1)
    ends = []
    for spec in (SPEC, "0.2"):
        method = sb.Method(sb.fedavg(), SOLVERS.build(f"sgd(lr={spec}, epochs=1)"))
        (record,) = sb.rounds(method, federation, sb.task("linear", data), rounds=1)
        ends.append(bits(record.state.server.params))
    assert ends[0] == ends[1]
