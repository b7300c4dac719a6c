"""Server optimizers: what they must equal, by plain loops, and where they come to rest."""

import math

import pytest
import torch

from laws import bits
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.servers import SERVERS, adagrad, adam, momentum, step, yogi
from silobench.method.solvers import sgd
from silobench.method.types import ServerOptimizer

SOLVER = sgd(lr=0.1, epochs=1, batch=8)
EVERY = ["momentum", "momentum(lr=0.5, beta=0.5)", "adagrad(lr=1.0)", "adam", "yogi"]


def walk(optimizer: ServerOptimizer, start: list[float], directions: list[list[float]]) -> list[list[float]]:
    params, found = torch.tensor(start, dtype=torch.float64), []
    state = optimizer.init(params)
    for direction in directions:
        params, state = optimizer.apply(params, torch.tensor(direction, dtype=torch.float64), state)
        found.append(params.tolist())
    return found


START = [1.0, -2.0, 0.5]
DIRECTIONS = [[0.3, -0.1, 0.0], [-0.2, -0.4, 1e-5], [0.05, 0.7, 3.0], [0.05, -0.7, -1e-4]]


@pytest.mark.parametrize("lr", [1.0, 0.3])
def test_momentum_without_any_is_a_plain_step(lr: float) -> None:
    assert walk(momentum(lr=lr, beta=0.0), START, DIRECTIONS) == walk(step(lr=lr), START, DIRECTIONS)


def test_momentum_by_hand() -> None:
    here, velocity = list(START), [0.0] * 3
    for direction, found in zip(DIRECTIONS, walk(momentum(lr=0.5, beta=0.8), START, DIRECTIONS), strict=True):
        for j in range(3):
            velocity[j] = 0.8 * velocity[j] + direction[j]
            here[j] += 0.5 * velocity[j]
        assert found == pytest.approx(here, rel=1e-12)


@pytest.mark.parametrize("name", ["adagrad", "adam", "yogi"])
def test_adaptive_steps_by_hand(name: str) -> None:
    """Reddi et al., Algorithm 2, number by number."""
    lr, tau, beta2 = 0.2, 1e-2, 0.95
    beta1 = 0.0 if name == "adagrad" else 0.8
    optimizers = {
        "adagrad": lambda: adagrad(lr=lr, tau=tau),
        "adam": lambda: adam(lr=lr, beta1=beta1, beta2=beta2, tau=tau),
        "yogi": lambda: yogi(lr=lr, beta1=beta1, beta2=beta2, tau=tau),
    }[name]()
    here, first, second = list(START), [0.0] * 3, [tau * tau] * 3
    for direction, found in zip(DIRECTIONS, walk(optimizers, START, DIRECTIONS), strict=True):
        for j, delta in enumerate(direction):
            first[j] = beta1 * first[j] + (1 - beta1) * delta
            if name == "adagrad":
                second[j] += delta * delta
            elif name == "adam":
                second[j] = beta2 * second[j] + (1 - beta2) * delta * delta
            elif second[j] > delta * delta:
                second[j] -= (1 - beta2) * delta * delta
            elif second[j] < delta * delta:
                second[j] += (1 - beta2) * delta * delta
            here[j] += lr * first[j] / (math.sqrt(second[j]) + tau)
        assert found == pytest.approx(here, rel=1e-12)


@pytest.mark.parametrize("spec", EVERY)
def test_on_a_bowl_they_come_to_rest_at_its_bottom(spec: str) -> None:
    optimizer = SERVERS.build(spec)
    params, bottom = torch.tensor([3.0, -4.0], dtype=torch.float64), torch.tensor([1.0, 2.0], dtype=torch.float64)
    state, began = optimizer.init(params), (params - bottom).norm()
    for _ in range(3000):
        params, state = optimizer.apply(params, 0.1 * (bottom - params), state)
    assert (params - bottom).norm() < 1e-3 * began


@pytest.mark.parametrize("spec", EVERY)
def test_a_run_with_one_resumes_bit_for_bit_and_sends_no_state(toy, spec: str) -> None:
    method = Method(fedavg(), SOLVER, server=SERVERS.build(spec))
    whole = list(rounds(method, *toy(), rounds=3))
    for done, record in enumerate(whole):
        resumed = rounds(method, *toy(), rounds=3, state=record.state)
        assert [bits(r) for r in resumed] == [bits(r) for r in whole[done + 1 :]]
    assert {(r.bytes_up, r.bytes_down) for r in whole} == {(3 * 60, 3 * 60)}
    plain = list(rounds(Method(fedavg(), SOLVER), *toy(), rounds=3))
    assert not torch.equal(plain[-1].state.server.params, whole[-1].state.server.params)
