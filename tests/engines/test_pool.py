"""The engine `pool` gives the same results as `inline`, bit for bit."""

from typing import Any

import pytest
import torch
from engine_cases import DIGITS, run, same

from laws import EVERY, SCAFFOLDS, feedback, models
from silobench.engines import Engine, inline, pool
from silobench.federation import federate
from silobench.method.solvers import sgd
from silobench.method.transforms import clip
from silobench.method.types import Algorithm, Vector
from silobench.tasks.task import task


@pytest.fixture(scope="module")
def unequal_digits():
    """Digits at five parties of unequal sizes that keep a fifth of their rows aside."""
    return federate(DIGITS, "quantity-dirichlet(beta=0.5)", 5, seed=1, validation=0.2)


@pytest.mark.parametrize(
    ("model", "spec"),
    [*(("mlp(6)", spec) for spec in EVERY), *(("cnn", spec) for spec in ("fednova", "solo", SCAFFOLDS[1]))],
)
def test_pool_has_the_bits_of_inline_for_any_number_of_workers(unequal_digits, model: str, spec: str) -> None:
    federated = unequal_digits, task(model, DIGITS)
    solver = sgd(lr=0.05, steps=2, batch=16, keep_momentum=True)
    options = {"rounds": 3, "participation": 0.6, "seed": 1, "eval_every": 2}
    transforms = feedback(), clip(norm=0.5)
    alone = run(spec, federated, inline(), solver, *transforms, **options)
    assert spec in ("solo", "combined") or alone[-1].validation is not None
    for workers in (1, 3):  # all parties at one worker, or each at another one
        others = run(spec, federated, pool(workers=workers), solver, *transforms, **options)
        assert same(others) == same(alone)
        parties = 1 if spec == "combined" else 3
        used = {("pool", workers)} if parties > 1 else {("inline", 1)}  # one party needs nobody else
        assert {(record.engine, record.workers) for record in others} == used


@pytest.mark.parametrize("engine", [inline(), pool(workers=2)], ids=str)
def test_denormal_numbers_count_as_zero_in_rounds_and_only_there(unequal_digits, engine: Engine) -> None:
    """They make training ten times as slow where momenta fade away."""

    def product() -> float:
        return float(torch.full((1,), 1e-40).mul(1e38))  # a hundredth, unless the first factor counts as 0

    def correct(grad: Vector, *_: Any) -> Vector:
        return grad + torch.full((1,), 1e-40).mul(1e38)

    federated = unequal_digits, task("mlp(6)", DIGITS)
    solver = sgd(lr=0.05, steps=2, batch=16)
    assert product() > 0.009
    found, expected = (
        models(run(algorithm, federated, engine, solver, rounds=2))
        for algorithm in (Algorithm(correct=correct), Algorithm(correct=lambda grad, *_: grad))
    )
    assert torch.equal(found, expected)
    assert product() > 0.009
    assert torch.set_flush_denormal(True)
    try:
        run("fedavg", federated, engine, solver, rounds=1)
        assert product() == 0  # as it was
    finally:
        torch.set_flush_denormal(False)
