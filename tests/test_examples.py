"""The examples: each ablation equals the algorithm if its change cannot matter; the measure adds up."""

import runpy
from pathlib import Path

import pytest
import torch

from laws import close
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from wrong_inputs.plugins import registries_as_before

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module", autouse=True)
def _registered():
    with registries_as_before():
        for name in ("scaffold_by_cohort", "fednova_plain_mean"):
            runpy.run_path(str(EXAMPLES / f"{name}.py"))
        yield


def last(name: str, federated, participation: float = 1.0) -> torch.Tensor:
    solver = sgd(lr=0.1, epochs=2, batch=8)
    records = rounds(Method(ALGORITHMS.build(name), solver), *federated, rounds=4, participation=participation)
    return list(records)[-1].state.server.params


@pytest.mark.usefixtures("in_double")
def test_the_cohort_is_everyone_when_all_take_part(toy) -> None:
    federated = toy((20, 9, 30, 16))
    ours, original = (last(name, federated) for name in ("scaffold_by_cohort", "scaffold"))
    assert close(ours, original)
    assert not close(last("scaffold_by_cohort", federated, 0.5), last("scaffold", federated, 0.5), rel=1e-2)


@pytest.mark.usefixtures("in_double")
def test_a_plain_mean_is_the_mean_by_samples_of_equal_parties(toy) -> None:
    equal, unequal = toy((20, 20, 20)), toy((20, 9, 60))
    assert close(last("fednova_plain_mean", equal), last("fednova", equal))
    assert not close(last("fednova_plain_mean", unequal), last("fednova", unequal), rel=1e-2)


def test_a_measure_of_ones_own(tmp_path: Path) -> None:
    """The lengths of the steps add up to the length of the path, also across an interruption."""
    runpy.run_path(str(EXAMPLES / "step_length.py"))
    cell = {"dataset": "digits", "model": "linear", "rounds": 4, "measure": "step_length", "parties": 3}
    (planned,) = plan({**cell, "solver": "sgd(lr=0.1, epochs=1)"})
    interrupted = execute(prepare(planned), tmp_path)
    first = next(interrupted)
    interrupted.close()
    rest = list(execute(prepare(planned), tmp_path))
    steps = [record.measures["step-length"] for record in (first, *rest)]
    assert steps[0]["straight"] == pytest.approx(1)
    path = sum(step["length"] for step in steps)
    start, end = prepare(planned).setting.task.initial, rest[-1].state.server.params
    assert steps[-1]["straight"] == pytest.approx(float((end - start).norm()) / path, rel=1e-5)
    assert read_run(tmp_path / planned.id).rounds[2].measures["step-length"] == steps[2]
