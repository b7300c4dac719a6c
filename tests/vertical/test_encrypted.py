"""Activations under encryption: the label holder gets their sum on a grid, exactly."""

import sys
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from silobench.errors import ConfigError, RunError
from silobench.privacy.encryption.paillier import Paillier
from silobench.privacy.encryption.scheme import Scheme
from silobench.vertical.crossing import Batch, Carried, Crossing
from silobench.vertical.encrypted import SCHEMES, EncryptedCrossing, grid_step
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
    assert [grid_step(parties) / 2 > parties * SCHEMES[name].precision for parties in (1, 4, 50)] == [True] * 3
    assert [grid_step(parties) for parties in (4, 5, 9, 19)] == [2.0**-20, 2.0**-19, 2.0**-19, 2.0**-18]


@pytest.mark.parametrize("parties", [4, 5])
def test_both_schemes_give_the_same_bits(parties: int) -> None:
    values = torch.from_numpy(np.random.default_rng(0).standard_normal((parties, 20, 2)).astype(np.float32))
    activations = dict(enumerate(values, start=1))
    first, second = (EncryptedCrossing(scheme=each).up(activations, BATCH).arrived for each in (SCHEMES["ckks"], SMALL))
    assert torch.equal(first[1], second[1])
    assert torch.allclose(first[1], values.sum(0), atol=parties * 2.0**-19)


def test_the_key_is_counted_in_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, Scheme], SCHEMES), "paillier", SMALL)
    task = problem("columns(by=block)", 3, "linear", solver="sgd(lr=0.1, batch=200, steps=1)")
    first, *_, third = records(task, "split(encryption=paillier)")
    size = len(SMALL.generate().public.to_bytes())
    assert first.phases["key"] == {"up": 0, "down": 2 * size, "messages": 2, "seconds": 0.0}
    assert list(third.phases) == ["activations", "gradients"]
    assert first.bytes_down - third.bytes_down == 2 * size
    assert first.dense_down - third.dense_down == 2 * size
    assert first.clock > third.clock / 3  # the network also carries the key
    assert "key" not in next(records(task)).phases


def test_a_large_activation_ends_the_run_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, Scheme], SCHEMES), "paillier", SMALL)
    task = problem("columns(by=block)", 3, "linear", solver="sgd(lr=1e9, batch=200, epochs=1)")
    with pytest.raises(
        RunError, match=r"^round 2: an activation of party-1 is \S+, but encryption has room for"
    ) as error:
        list(records(task, "split(encryption=paillier)"))
    assert error.value.details == ""  # it is not a traceback: the sentence says what to change


def test_a_note_counts_the_rows_whose_sum_is_the_activation_of_one_party() -> None:
    task = problem("columns(by=block, overlap=0.6)", 3, "linear")
    (note,) = VERTICAL_ALGORITHMS.build("split(encryption=ckks)").notes(task)
    single = int((task.federation.deal.train[1:].sum(0) == 1).sum())
    assert f"but {single} of 100 training rows are at only one of them" in note
    assert single > 0
    crossing, x = EncryptedCrossing(scheme=SMALL), task.federation.x
    activations = {party: each.detach() for party, each in enumerate(task.network().activations(x)) if party}
    alone = task.federation.deal.train[1] & ~task.federation.deal.train[2]
    difference = (crossing.up(activations, BATCH).arrived[1] - activations[1]).abs()
    assert difference[alone].max() <= 2.0**-20  # half a step, and the rounding of float32
    assert not VERTICAL_ALGORITHMS.build("split").notes(task)
    dropped = problem("columns(by=block, overlap=0.6, absent=drop)", 3, "linear")
    assert not VERTICAL_ALGORITHMS.build("split(encryption=ckks)").notes(dropped)


@pytest.mark.parametrize(("scheme", "name"), [("ckks", "tenseal"), ("paillier-unpacked", "gmpy2")])
def test_a_missing_package_is_reported_before_the_first_round(
    scheme: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"encryption needs the package {name}"):
        VERTICAL_ALGORITHMS.build(f"split(encryption={scheme})").check(problem("columns(by=block)", 3, "linear"))


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
