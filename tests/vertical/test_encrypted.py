"""Activations under encryption: the label holder gets their sum on a grid, exactly, and nothing else."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption.paillier import Paillier
from silobench.vertical.crossing import Batch, Carried, Crossing
from silobench.vertical.encrypted import SCHEMES, EncryptedCrossing
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalProblem
from silobench.vertical.methods.split_trainer import SplitTrainer
from vertical_cases import problem, records

BATCH = Batch(seed=0, round=0, step=0)
SMALL = Paillier(range=1024.0, bits=512)


class InTheClear(Crossing):
    """The same protocol without encryption: activations are rounded to multiples of 2^-20 and added up."""

    def up(self, activations: Mapping[int, Tensor], batch: Batch) -> Carried:
        first, *others = activations
        total = sum(np.rint(each.numpy().astype(np.float64) * 2**20) for each in activations.values()) / 2**20
        arrived = {party: torch.zeros_like(activations[party]) for party in others}
        return Carried(arrived | {first: torch.from_numpy(total.astype(np.float32))}, {}, 0)


def trained(task: VerticalProblem, crossing: Crossing) -> Tensor:
    trainer = SplitTrainer(task, task.network(), (task.solver,) * len(task.federation.deal), crossing)
    return trainer.round(trainer.initial(), {}).params


@pytest.mark.parametrize("scheme", [SCHEMES["ckks"], SMALL], ids=["ckks", "paillier"])
def test_it_trains_as_sums_on_the_grid_do_in_the_clear(scheme: object) -> None:
    task = problem("columns(by=block)", 3, "mlp(hidden=6, top=4, cut=sum)", solver="sgd(lr=0.1, batch=200, epochs=1)")
    encrypted = trained(task, EncryptedCrossing(scheme=scheme))  # type: ignore[arg-type]
    assert torch.equal(encrypted, trained(task, InTheClear()))
    plain = trained(task, Crossing())
    assert not torch.equal(encrypted, plain)
    assert torch.allclose(encrypted, plain, atol=1e-4)


def test_what_arrives_is_the_sum_and_nothing_else() -> None:
    activations = {1: torch.tensor([[0.5, -2.0]]), 2: torch.tensor([[0.25, 1.0]]), 3: torch.tensor([[1.0, 1.0]])}
    crossing = EncryptedCrossing(scheme=SMALL)
    carried = crossing.up(activations, BATCH)
    assert carried.arrived[1].tolist() == [[1.75, 0.0]]
    assert not carried.arrived[2].any()
    assert not carried.arrived[3].any()
    assert [each.tolist() for each in crossing.seen(carried.arrived).values()] == [[[1.75, 0.0]]] * 3
    message = crossing.secret.public.encrypt(activations[1].numpy()).to_bytes()
    assert dict(carried.sizes) == dict.fromkeys((1, 2, 3), len(message))
    assert carried.dense == 3 * 2 * 4


@pytest.mark.parametrize("name", SCHEMES)
def test_half_a_step_is_more_than_the_error_of_a_sum(name: str) -> None:
    crossing = EncryptedCrossing(scheme=SCHEMES[name])
    assert [crossing.step(parties) / 2 > parties * SCHEMES[name].precision for parties in (1, 4, 50)] == [True] * 3
    assert crossing.step(2) == 2.0**-20


def test_a_large_activation_ends_the_run_with_a_sentence() -> None:
    with pytest.raises(RunError, match="party 2 is 2e\\+03, but encryption has room for magnitudes up to 1024"):
        EncryptedCrossing(scheme=SMALL).up({2: torch.tensor([[2000.0]])}, BATCH)


def test_only_sums_can_be_encrypted() -> None:
    method = VERTICAL_ALGORITHMS.build("split(encryption=ckks)")
    with pytest.raises(ConfigError, match="needs a model with cut=sum"):
        method.check(problem("columns(by=block)", 3, "mlp"))
    with pytest.raises(ConfigError, match="absent=embedding"):
        method.check(problem("columns(by=block, overlap=0.5, absent=embedding)", 3, "linear"))
    method.check(problem("columns(by=block)", 3, "linear"))
    assert "only one: the label holder sees" in method.notes(problem("columns(by=block)", 2, "linear"))[0]


def test_the_time_of_encryption_is_in_the_record() -> None:
    task = problem("columns(by=block)", 3, "linear", solver="sgd(lr=0.1, batch=200, steps=1)")
    record = next(records(task, "split(encryption=ckks)"))
    assert record.time["parties"]["encrypt"] > 0
    assert record.bytes_up > 100 * record.dense_up
