"""Adam and AdamW: every step as torch does it, moments kept or not, terms of algorithms before the moments."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import Toy, bits, close, run
from precision import bound, bound_of_steps
from silobench.errors import ConfigError, SpecError
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, Problem
from silobench.method.types import Pull, Server
from silobench.papers.hsieh2020 import numbers as hsieh2020
from silobench.papers.niid_bench import numbers as niid_bench
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.label import Label
from silobench.runs.plan import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run

VARIANTS = [(0.0, False), (0.1, False), (0.1, True)]  # weight decay, and whether it is AdamW's
CELL = {"dataset": "digits", "model": "mlp(8)", "partition": "shards(1)", "algorithm": "fedavg", "rounds": 4}


def optimizer(parameters: Any, decoupled: bool, **options: Any) -> torch.optim.Optimizer:
    return (torch.optim.AdamW if decoupled else torch.optim.Adam)(parameters, **options)


def server(round: int = 0) -> Server:
    return Server(torch.zeros(1), {}, {}, round, 1, {})


def problem(toy: Toy, model: str = "linear") -> Problem:
    federation, task = toy((20,), model)
    return Problem(task, federation, federation.parties[0], 0)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("decay", "decoupled"), VARIANTS)
@pytest.mark.parametrize("model", ["linear", "mlp(6, 5)"])
def test_every_step_is_torchs(toy: Toy, model: str, decay: float, decoupled: bool) -> None:
    solver = SOLVERS.build(f"adam(lr=0.02, weight_decay={decay}, decoupled={decoupled}, epochs=50, batch=7)")
    ours, seen = problem(toy, model), []
    network, start = ours.task.network, ours.task.initial

    def correct(grad: torch.Tensor, params: torch.Tensor) -> torch.Tensor:
        seen.append(params.clone())
        return grad

    local, memory = solver.train(ours, start, server(), correct, Pull(), {})
    assert local.steps == len(seen) == 150
    assert (local.reach, local.momentum, local.lr, memory) == (150.0, 0.0, 0.02, {})

    network.params.copy_(start)
    theirs = optimizer(network.module.parameters(), decoupled, lr=0.02, weight_decay=decay)
    for rows, after in zip(solver.batches(ours, 0), [*seen[1:], local.end], strict=True):
        theirs.zero_grad(set_to_none=False)
        x, y = ours.federation.batch(rows)
        torch.nn.functional.cross_entropy(network.module(x), y).backward()
        theirs.step()
        assert close(network.params, after, bound_of_steps(150, 30, torch.float64))


@settings(deadline=None)  # torch loads its compiler with the first optimizer
@given(
    gradients=st.lists(st.lists(st.floats(0.01, 10), min_size=3, max_size=3), min_size=1, max_size=60),
    signs=st.lists(st.sampled_from([-1.0, 1.0]), min_size=3, max_size=3),
    beta1=st.sampled_from([0.0, 0.5, 0.9]),
    beta2=st.sampled_from([0.0, 0.9, 0.999]),
    variant=st.sampled_from(VARIANTS),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_any_gradients_move_the_model_as_torch_does(
    gradients: list[list[float]],
    signs: list[float],
    beta1: float,
    beta2: float,
    variant: tuple[float, bool],
    dtype: torch.dtype,
) -> None:
    """Gradients of one sign: those that cancel would leave a first moment of rounding errors."""
    decay, decoupled = variant
    solver = SOLVERS.build(f"adam(beta1={beta1}, beta2={beta2}, weight_decay={decay}, decoupled={decoupled})")
    start = torch.tensor(signs, dtype=dtype) * 3  # weight decay has the sign of the gradients too
    params, theirs = start.clone(), torch.nn.Parameter(start.clone())
    state = solver.initial(params)
    torchs = optimizer([theirs], decoupled, lr=0.001, betas=(beta1, beta2), weight_decay=decay)
    for values in gradients:
        grad = torch.tensor(values, dtype=dtype) * torch.tensor(signs, dtype=dtype)
        theirs.grad = grad.clone()
        torchs.step()
        solver.step(params, grad.add(params, alpha=solver.weight_decay), state, 0.001)
    assert int(state["steps"]) == len(gradients)
    assert close(params, theirs.detach(), bound(20 * len(gradients), dtype))


@given(st.floats(-1e3, 1e3).filter(lambda g: abs(g) > 1e-3))
def test_the_first_step_has_the_length_of_the_learning_rate(gradient: float) -> None:
    solver = SOLVERS.build("adam(lr=0.5)")
    params = torch.zeros(1, dtype=torch.float64)
    solver.step(params, torch.tensor([gradient], dtype=torch.float64), solver.initial(params), 0.5)
    assert float(params) == pytest.approx(-0.5 * gradient / (abs(gradient) + 1e-8), rel=bound(20, torch.float64))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("keep", [True, False])
def test_moments_are_kept_only_with_keep_moments(toy: Toy, keep: bool) -> None:
    """Two parties of equal size over three rounds, against one torch optimizer per party."""
    federation, task = toy((20, 20))
    solver = SOLVERS.build(f"adam(lr=0.02, weight_decay=0.01, epochs=2, batch=7, keep_moments={keep})")
    *_, last = rounds(Method(fedavg(), solver), federation, task, rounds=3)
    layers = [torch.nn.Linear(4, 3) for _ in federation.parties]
    optimizers = [torch.optim.Adam(layer.parameters(), lr=0.02, weight_decay=0.01) for layer in layers]
    shared = task.initial
    for now in range(3):
        ends = []
        for party, layer, theirs in zip(federation.parties, layers, optimizers, strict=True):
            if not keep:
                theirs.state.clear()
            torch.nn.utils.vector_to_parameters(shared.clone(), layer.parameters())
            for rows in solver.batches(Problem(task, federation, party, 0), now):
                x, y = federation.batch(rows)
                theirs.zero_grad()
                torch.nn.functional.cross_entropy(layer(x), y).backward()
                theirs.step()
            ends.append(torch.nn.utils.parameters_to_vector(layer.parameters()).detach().clone())
        shared = (ends[0] + ends[1]) / 2
    assert close(last.state.server.params, shared)
    assert [int(memory["solver"]["steps"]) for memory in last.state.memory.values()] == ([18, 18] if keep else [])


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("place", ["pull", "linear", "correct", "drift"])
def test_terms_of_an_algorithm_join_the_gradient_and_drift_the_model(toy: Toy, gradient: Any, place: str) -> None:
    ours, anchor, lr = problem(toy), torch.linspace(-1, 1, 15), 0.05
    term = {
        "pull": lambda x: 0.5 * (x - anchor),
        "linear": lambda x: anchor,
        "correct": lambda x: 0.3 * x + anchor,
        "drift": lambda x: 0.0,
    }[place]
    pull = {"pull": Pull(0.5, anchor), "linear": Pull(linear=anchor), "drift": Pull(drift=anchor)}.get(place, Pull())
    correct = (lambda grad, x: grad + term(x)) if place == "correct" else None
    solver = SOLVERS.build(f"adam(lr={lr}, steps=9, batch=7)")
    local, _ = solver.train(ours, ours.task.initial, server(), correct, pull, {})
    weights = torch.nn.Parameter(ours.task.initial.clone())
    theirs = torch.optim.Adam([weights], lr=lr)
    for rows in solver.batches(ours, 0):
        point = weights.detach()
        weights.grad = gradient(point, *ours.federation.batch(rows)) + term(point)
        theirs.step()
        if place == "drift":
            weights.data -= lr * anchor
    assert close(local.end, weights.detach())


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("decay", "decoupled"), VARIANTS)
def test_the_full_gradient_has_the_weight_decay_that_is_part_of_the_loss(
    toy: Toy, gradient: Any, decay: float, decoupled: bool
) -> None:
    ours, point = problem(toy), torch.linspace(-1, 1, 15)
    solver = SOLVERS.build(f"adam(weight_decay={decay}, decoupled={decoupled}, steps=1)")
    local, _ = solver.train(ours, ours.task.initial, server(), None, Pull(), {})
    by_hand = gradient(point, *ours.federation.batch(ours.party.rows)) + (0 if decoupled else decay) * point
    assert close(local.gradient(point), by_hand)


@pytest.mark.parametrize("algorithm", ["fedprox(mu=0.1)", "feddyn(alpha=0.1)", "solo", "moon(mu=0.5)"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_run_resumed_after_any_round_continues_bit_for_bit(toy: Toy, algorithm: str, keep: bool) -> None:
    federated, solver = toy((20, 30), "mlp(6)"), SOLVERS.build(f"adam(steps=3, batch=8, keep_moments={keep})")
    whole = run(algorithm, federated, solver, rounds=4)
    for done in range(1, 4):
        rest = run(algorithm, federated, solver, rounds=4, state=whole[done - 1].state)
        assert bits(rest[-1].state) == bits(whole[-1].state)


@pytest.mark.parametrize("measure", [[], ["weight-divergence"]])
def test_a_stored_run_keeps_the_moments_in_its_checkpoint(tmp_path: Path, measure: list[str]) -> None:
    (made,) = plan({**CELL, "solver": "adam(epochs=1, keep_moments=true)", "measure": measure})
    list(execute(prepare(made), tmp_path / "whole"))
    for _ in range(3):
        begun = execute(prepare(made), tmp_path / "cut")
        next(begun)
        begun.close()
    list(execute(prepare(made), tmp_path / "cut"))
    whole, cut = (read_run(tmp_path / name / made.id) for name in ("whole", "cut"))
    assert whole.facts.state_sha256 == cut.facts.state_sha256
    assert [row.measures for row in whole.rounds] == [row.measures for row in cut.rounds]
    assert {row.engine for row in whole.rounds} == {"inline"}


def test_an_experiment_in_lockstep_keeps_the_moments() -> None:
    solver = bind({**CELL, "algorithm": "bsp", "solver": "adam(lr=0.01)"}).config["solver"]
    assert "steps=1" in solver
    assert "keep_moments=True" in solver
    assert (
        "keep_moments=False"
        in bind({**CELL, "algorithm": "bsp", "solver": "adam(keep_moments=false)"}).config["solver"]
    )


def test_the_bound_of_sgd_is_not_evaluated_for_adam() -> None:
    (made,) = plan({**CELL, "solver": "adam(epochs=1)", "measure": ["weight-divergence(bound=sampled)"]})
    with pytest.raises(ConfigError, match="sgd"):
        prepare(made)


@pytest.mark.parametrize(
    "bad", ["lr=0", "beta1=1", "beta2=-0.1", "eps=0", "weight_decay=-1", "decoupled=1", "steps=0", "batch=half"]
)
def test_arguments_out_of_range_are_refused(bad: str) -> None:
    with pytest.raises(SpecError, match=bad.split("=")[0]):
        SOLVERS.build(f"adam({bad})")


def test_steps_and_epochs_together_are_refused() -> None:
    with pytest.raises(SpecError, match="adam: steps=5 and epochs=3 were both given"):
        SOLVERS.build("adam(steps=5, epochs=3)")


def test_published_numbers_of_sgd_are_not_compared_with_adam() -> None:
    plain = {"participation": 1.0, "transforms": "", "server": "step"}
    cubes = {"dataset": "fcube", "partition": "octants", "algorithm": "fedavg", "model": "linear", **plain}
    pictures = {"dataset": "cifar-10", "partition": "iid", "algorithm": "bsp", "model": "alexnet", **plain}
    for label, parties, solver, published in [
        (cubes, 4, "sgd(epochs=5)", niid_bench.accuracy),
        (pictures, 5, "sgd(batch=20)", hsieh2020.accuracy),
    ]:
        assert published(Label({**label, "solver": solver}), parties)
        assert published(Label({**label, "solver": solver.replace("sgd", "adam")}), parties) is None
