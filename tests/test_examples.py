"""The examples that are ablations: the algorithm itself where what they change cannot matter, and not elsewhere."""

import runpy
from pathlib import Path

import pytest
import torch

from silobench.algorithms import ALGORITHMS
from silobench.methods import Method
from silobench.rounds import rounds
from silobench.solvers import sgd

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module", autouse=True)
def _registered():
    for name in ("scaffold_by_cohort", "fednova_plain_mean"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"))


def last(name: str, federated, participation: float = 1.0) -> torch.Tensor:
    solver = sgd(lr=0.1, epochs=2, batch=8)
    records = rounds(Method(ALGORITHMS.build(name), solver), *federated, rounds=4, participation=participation)
    return list(records)[-1].state.server.params


def test_the_cohort_is_everyone_when_all_take_part(toy) -> None:
    federated = toy((20, 9, 30, 16))
    ours, right = (last(name, federated) for name in ("scaffold_by_cohort", "scaffold"))
    torch.testing.assert_close(ours, right)
    assert not torch.allclose(last("scaffold_by_cohort", federated, 0.5), last("scaffold", federated, 0.5), rtol=1e-2)


def test_a_plain_mean_is_the_mean_by_samples_of_equal_parties(toy) -> None:
    equal, unequal = toy((20, 20, 20)), toy((20, 9, 60))
    torch.testing.assert_close(last("fednova_plain_mean", equal), last("fednova", equal))
    assert not torch.allclose(last("fednova_plain_mean", unequal), last("fednova", unequal), rtol=1e-2)
