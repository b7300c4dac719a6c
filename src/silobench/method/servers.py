"""Server optimizers: how the server moves along the direction that the algorithm computes."""

from collections.abc import Callable, Mapping

import torch

from silobench.method.checks import SERVER
from silobench.method.types import BelowOne, Positive, ServerOptimizer, Vector
from silobench.spec import Registry

SERVERS: Registry[ServerOptimizer] = Registry("server optimizer", SERVER)
State = Mapping[str, Vector]


def is_plain_step(optimizer: ServerOptimizer) -> bool:
    """Whether a server optimizer adds the direction to the model in every round: it has no state, and its lr is 1."""
    params, direction = torch.tensor([2.0]), torch.tensor([0.5])
    state = optimizer.init(params)
    return not state and bool(optimizer.apply(params, direction, state)[0] == params + direction)


@SERVERS.register
def step(lr: Positive = 1.0) -> ServerOptimizer:
    """Plain step: w ← w + lr · direction. With lr = 1, FedAvg's server takes the mean of the parties' models."""

    def apply(params: Vector, direction: Vector, state: State) -> tuple[Vector, State]:
        return params.add(direction, alpha=lr), state

    return ServerOptimizer(init=lambda params: {}, apply=apply)


@SERVERS.register
def momentum(lr: Positive = 1.0, beta: BelowOne = 0.9) -> ServerOptimizer:
    """FedAvgM (Hsu et al., 2019): v ← β v + direction, w ← w + lr · v."""

    def apply(params: Vector, direction: Vector, state: State) -> tuple[Vector, State]:
        velocity = beta * state["velocity"] + direction
        return params.add(velocity, alpha=lr), {"velocity": velocity}

    return ServerOptimizer(init=lambda params: {"velocity": torch.zeros_like(params)}, apply=apply)


@SERVERS.register
def adagrad(lr: Positive = 0.1, tau: Positive = 1e-3) -> ServerOptimizer:
    """FedAdagrad (Reddi et al., ICLR 2021): v ← v + Δ², w ← w + lr · Δ / (√v + τ)."""
    return _adaptive(lr, 0.0, tau, lambda v, square: v + square)


@SERVERS.register
def adam(lr: Positive = 0.01, beta1: BelowOne = 0.9, beta2: BelowOne = 0.99, tau: Positive = 1e-3) -> ServerOptimizer:
    """FedAdam (Reddi et al., ICLR 2021): v ← β₂ v + (1 - β₂) Δ², w ← w + lr · m / (√v + τ)."""
    return _adaptive(lr, beta1, tau, lambda v, square: beta2 * v + (1 - beta2) * square)


@SERVERS.register
def yogi(lr: Positive = 0.01, beta1: BelowOne = 0.9, beta2: BelowOne = 0.99, tau: Positive = 1e-3) -> ServerOptimizer:
    """FedYogi (Reddi et al., ICLR 2021): v ← v - (1 - β₂) Δ² sign(v - Δ²), w ← w + lr · m / (√v + τ)."""
    return _adaptive(lr, beta1, tau, lambda v, square: v - (1 - beta2) * square * torch.sign(v - square))


def _adaptive(lr: float, beta1: float, tau: float, second: Callable[[Vector, Vector], Vector]) -> ServerOptimizer:
    """Adaptive Federated Optimization, Reddi et al., ICLR 2021, Algorithm 2; Δ is the direction.

        m ← β₁ m + (1 - β₁) Δ,    v ← second(v, Δ²),    w ← w + lr · m / (√v + τ)

    As in the paper, m starts at 0 and v at τ², without bias correction.
    """

    def init(params: Vector) -> State:
        return {"first": torch.zeros_like(params), "second": torch.full_like(params, tau**2)}

    def apply(params: Vector, direction: Vector, state: State) -> tuple[Vector, State]:
        first = beta1 * state["first"] + (1 - beta1) * direction
        v = second(state["second"], direction.square())
        return params + lr * first / (v.sqrt() + tau), {"first": first, "second": v}

    return ServerOptimizer(init, apply)
