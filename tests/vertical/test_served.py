"""A split network is tested as it would be served: activations of test rows cross the cut as in training."""

import numpy as np
import pytest
import torch

from silobench.vertical.methods import VERTICAL_ALGORITHMS
from silobench.vertical.served import ServedNetwork
from vertical_cases import last, problem, records, table

NOISE = "split(defence=noise(deviation=100))"  # leaves nothing of the activations of the other party


def test_noise_on_activations_is_in_the_test_too() -> None:
    task = problem("columns(by=block)", 2, model="mlp(hidden=8, top=4)")
    served = VERTICAL_ALGORITHMS.build(NOISE).trainer(task)
    state = served.initial()
    module, plain = served.module(state).eval(), VERTICAL_ALGORITHMS.build("split").trainer(task).module(state).eval()
    x = task.federation.test_x
    with torch.no_grad():
        first, second, clear = module(x), module(x), plain(x)
    assert not torch.allclose(first, clear, atol=1)
    assert not torch.equal(first, second)  # each batch has its own noise
    with torch.no_grad():
        assert torch.equal(served.module(state).eval()(x), first)  # and each test the same


@pytest.mark.parametrize("bits", [2, 16])
def test_transforms_of_activations_are_in_the_test_too(bits: int) -> None:
    task = problem("columns(by=block)", 2, "linear", transforms=f"quantize(bits={bits})")
    trainer = VERTICAL_ALGORITHMS.build("split").trainer(task)
    state = trainer.initial()
    module, x = trainer.module(state), task.federation.test_x
    assert isinstance(module, ServedNetwork)
    with torch.no_grad():
        error = (module(x) - module.network(x)).abs().max()
        largest = module.network.activations(x)[1].abs().max()
    steps = 2 ** (bits - 1) - 1  # of quantize, between 0 and the largest magnitude
    assert 0 < error <= largest / steps * (1 + 1e-5)


@pytest.mark.parametrize(
    ("method", "choices"), [("split(defence=noise(deviation=2))", {}), ("split", {"transforms": "quantize(bits=2)"})]
)
def test_all_results_of_a_test_are_of_the_same_outputs(method: str, choices: dict[str, str]) -> None:
    dataset = table(test=400)
    task = problem("columns(by=block, overlap=0.6)", 3, "mlp(hidden=8, top=4)", dataset, **choices)
    record = last(task, method)
    aligned = record.final["by_rows"]["aligned"]
    assert aligned["rows"] < 400
    assert aligned["score"] == record.accuracy
    assert np.trace(record.final["confusion"]) / aligned["rows"] == pytest.approx(record.accuracy)


def test_rows_that_a_party_lacks_do_not_change_what_it_sends() -> None:
    """Quantisation is scaled by the rows of a message: those that the party has, where absence is learnt."""
    task = problem("columns(by=block, overlap=0.5, absent=embedding)", 2, transforms="quantize(bits=2)")
    trainer = VERTICAL_ALGORITHMS.build("split").trainer(task)
    x = task.federation.test_x
    present, changed = x[:, -1] > 0, x.clone()
    changed[np.ix_(~present, task.federation.deal.columns[1])] = 100.0  # far beyond the rows that it has
    with torch.no_grad():
        outputs = [trainer.module(trainer.initial()).eval()(each) for each in (x, changed)]
    assert torch.equal(outputs[0], outputs[1])


def test_a_record_has_the_scores_of_the_served_network() -> None:
    task = problem("columns(by=block)", 2, "mlp(hidden=8, top=4)")
    *_, noisy = records(task, NOISE)
    *_, clear = records(task, "split")
    assert (noisy.loss or 0) > (clear.loss or 0)
