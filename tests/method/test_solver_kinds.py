"""A kind of solver is one subclass: what it must define, and where it is refused."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from commands import TINY, call, write
from laws import EVERY, Toy, bits, run
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, Problem, Solver, sgd
from silobench.method.types import Pull, Server, Vector
from silobench.runs.stored import read_runs

NEED_LINEAR_STEPS = [
    *("fednova", "dgc"),
    *(f"scaffold(option={o}, momentum={m})" for o, m in [(1, "outside"), (2, "outside"), (2, "inside")]),
]
ANY_SOLVER = sorted({*EVERY, "fedavg(iter_local=2)", "bsp", "fedsgd", "gaia"} - {"scaffold(init=random)"})


@dataclass(frozen=True)
class Sign(Solver):
    """Steps of one length along the sign of the gradient; the state counts them."""

    kind: ClassVar[str] = "sign"

    def initial(self, params: Vector) -> dict[str, Vector]:
        return {"steps": torch.tensor(0), "signs": torch.zeros_like(params)}

    def step(self, params: Vector, grad: Vector, state: dict[str, Vector], lr: float) -> None:
        state["steps"] += 1
        state["signs"] += grad.sign()
        params.sub_(grad.sign(), alpha=lr)


def sign(keep: bool = False, steps: int = 3) -> Sign:
    return Sign(0.1, 0.0, 0.0, 10, steps, 7, keep)


@pytest.mark.usefixtures("in_double")
def test_a_kind_defines_its_state_and_its_step(toy: Toy) -> None:
    federated = toy((20, 20))
    first, second = run("fedavg", federated, sign(keep=True), rounds=2)
    for done, record in enumerate((first, second), 1):
        memories = [memory["solver"] for memory in record.state.memory.values()]
        assert [int(memory["steps"]) for memory in memories] == [3 * done, 3 * done]
        moved = record.state.server.params - federated[1].initial
        mean = (memories[0]["signs"] + memories[1]["signs"]) / 2
        torch.testing.assert_close(moved, -0.1 * mean, rtol=0, atol=1e-12)
    assert not run("fedavg", federated, sign(), rounds=1)[0].state.memory


def test_the_memory_of_a_round_is_not_written_by_the_next(toy: Toy) -> None:
    federated = toy((20, 20))
    first, second = run("fedavg", federated, sign(keep=True), rounds=2)
    method = Method(ALGORITHMS.build("fedavg"), sign(keep=True))
    again = next(rounds(method, *federated, rounds=2, state=first.state))
    assert bits(again.state) == bits(second.state)


def test_a_kind_without_a_reach_of_its_own_reports_its_steps(toy: Toy) -> None:
    federated = toy((20,))
    ours = Problem(federated[1], federated[0], federated[0].parties[0], 0)
    local, _ = sign().train(ours, ours.task.initial, Server(ours.task.initial, {}, {}, 0, 1, {}), None, Pull(), {})
    assert (local.reach, local.momentum, local.steps) == (3.0, 0.0, 3)


def test_engines_with_steps_of_their_own_refuse_a_kind_that_they_do_not_know(toy: Toy) -> None:
    federated = toy((20, 20), "mlp(6)")
    inline = run("fedavg", federated, sign())
    chosen = run("fedavg", federated, sign(), engine=ENGINES.build("auto(workers=1)"))
    assert {record.engine for record in chosen} == {"inline"}
    assert bits(chosen[-1].state) == bits(inline[-1].state)
    for engine in ("native", "stacked"):
        with pytest.raises(ConfigError, match="has the steps of the solver sgd, but the solver is sign"):
            run("fedavg", federated, sign(), engine=ENGINES.build(f"{engine}(workers=1)"))


@pytest.mark.parametrize("spec", NEED_LINEAR_STEPS)
def test_algorithms_that_read_gradients_off_a_change_need_sgd(spec: str) -> None:
    algorithm = ALGORITHMS.build(spec)
    with pytest.raises(ConfigError, match="but the solver is sign: use sgd"):
        Method(algorithm, sign(steps=1))
    assert Method(algorithm, sgd(steps=1)).solver.is_linear


@pytest.mark.parametrize("spec", [spec for spec in ANY_SOLVER if spec not in NEED_LINEAR_STEPS])
def test_other_algorithms_run_with_any_kind(toy: Toy, spec: str) -> None:
    algorithm = ALGORITHMS.build(spec)
    (record,) = run(algorithm, toy((20, 20), "mlp(6)"), sign(keep=True, steps=1 if algorithm.lockstep else 3), rounds=1)
    assert record.steps == (1 if algorithm.lockstep else 3) * (1 if algorithm.pooled else 2)
    assert torch.isfinite(record.state.server.params).all()


def test_a_solver_of_your_own_is_the_file_of_the_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/solvers.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    plugin, experiment = write(tmp_path / "sign.py", code), write(tmp_path / "e.toml", TINY)
    try:
        for algorithm in ("fedavg", "bsp"):
            choices = [f"algorithm={algorithm}", "solver=sign(lr=0.01)"]
            settings = [part for choice in choices for part in ("--set", choice)]
            options = ["--plugin", plugin, *settings, "--workers", "1", "--out", tmp_path / algorithm]
            result = call(capsys, "run", experiment, *options)
            assert result.code == 0, result.err
            (stored,) = read_runs(tmp_path / algorithm)
            assert f"keep_mean={algorithm == 'bsp'}" in str(stored.config.solver)
    finally:
        SOLVERS.factories.pop("sign", None)
