"""Helpers for tests of algorithms: specs to test, slow versions by hand, and comparisons of runs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from precision import bound_of_steps
from silobench.federation import Federation
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.selection import Cohort, cohort_size, uniform
from silobench.method.solvers import Problem, sgd
from silobench.method.types import Algorithm, Context, Memory, Transform, Update
from silobench.tasks.task import Task
from silobench.training.state import RoundRecord

Toy: TypeAlias = Callable[..., tuple[Federation, Task]]  # the fixture `toy`
SCAFFOLDS = [f"scaffold(option={o}, momentum={m})" for o in (1, 2) for m in ("outside", "inside")]
SEVERAL_TRAININGS = ["ditto(lam=0.5)", "apfl", "perfedavg(variant=HF)", "pfedme"]
BY_TORCH = ["moon(mu=0.5)", "fedrs(alpha=0.5)", *SEVERAL_TRAININGS]  # which no other engine trains
EVERY = [
    "fedavg",
    "fedprox(mu=0.1)",
    "fednova",
    "solo",
    "combined",
    *SCAFFOLDS,
    "scaffold(init=random)",
    "feddyn(alpha=0.1)",
    "fedbn",
    *BY_TORCH,
    "finetune(fedavg)",
]

SOLVER = sgd(lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch=8)


def run(algorithm: Algorithm | str, federated, solver=SOLVER, *transforms: Transform, **options) -> list[RoundRecord]:
    """Run an algorithm, three rounds by default; `options` are those of `rounds`."""
    algorithm = ALGORITHMS.build(algorithm) if isinstance(algorithm, str) else algorithm
    return list(rounds(Method(algorithm, solver, transforms), *federated, **{"rounds": 3} | options))


def models(records: list[RoundRecord]) -> Tensor:
    """Return the server's parameters after each round, [rounds, d]."""
    return torch.stack([record.state.server.params for record in records])


def close(ours: Tensor, by_hand: Tensor, rel: float = bound_of_steps(100, 50, torch.float64)) -> bool:
    """Return whether two vectors are equal up to rounding, by default that of three rounds in double precision."""
    return bool((ours.double() - by_hand.double()).norm() <= rel * by_hand.double().norm())


def feedback() -> Transform:
    """Return a transform that sends half of an update and adds the other half to the next one."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        whole = {name: part + memory.get(name, 0) for name, part in update.total.items()}
        return replace(update, total={n: part / 2 for n, part in whole.items()}), {n: p / 2 for n, p in whole.items()}

    return Transform(encode)


def lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a record or a state without measured seconds, which differ in every run."""
    fields = {name: value for name, value in record.items() if name not in ("seconds", "time")}
    if "phases" not in fields:
        return fields
    phases = fields["phases"].items()
    return {**fields, "phases": {name: {**each, "seconds": None} for name, each in phases}}


def bits(value: Any) -> Any:
    """Return a state or a record as plain nested values, exact to the bit, without wall-clock seconds."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, Mapping):
        return {key: bits(inner) for key, inner in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return bits(lasting(vars(value)))
    return value


def draw_cohort(parties: int, participation: float | int, seed: int, round: int) -> Cohort:
    """Return the cohort that the round loop draws by default in a federation with this many parties."""
    federation = cast(Federation, SimpleNamespace(parties=range(parties)))
    return uniform()(federation, cohort_size(parties, participation), seed, round)


class ByHand:
    """Plain loops in double precision over a linear model; only the order of rows and the cohorts are silobench's."""

    def __init__(self, federated, gradient, seed: int, lr=0.1, momentum=0.9, decay=0.01):
        self.federation, self.task = federated
        self.gradient, self.seed, self.lr, self.momentum, self.decay = gradient, seed, lr, momentum, decay
        self.solver = sgd(lr=lr, momentum=momentum, weight_decay=decay, epochs=2, batch=8)
        self.start = self.task.initial.double()
        self.sizes = [party.samples for party in self.federation.parties]

    def full_gradient(self, party: int, where: Tensor) -> Tensor:
        rows = self.federation.parties[party].rows
        return self.gradient(where, *self.federation.batch(rows)) + self.decay * where

    def walk(self, party: int, now: int, start: Tensor, pull=lambda x: 0.0, drift=0.0) -> tuple[Tensor, list[float]]:
        """Return where SGD ends, and the weight of each of its gradients in the displacement."""
        x, velocity, weights = start, torch.zeros_like(start), []
        problem = Problem(self.task, self.federation, self.federation.parties[party], self.seed)
        for rows in self.solver.batches(problem, now):
            grad = self.gradient(x, *self.federation.batch(rows)) + self.decay * x + pull(x)
            velocity = self.momentum * velocity + grad
            x = x - self.lr * (velocity + drift)
            weights = [w + self.momentum ** (len(weights) - i) for i, w in enumerate(weights)] + [1.0]
        return x, weights

    def shares(self, cohort: tuple[int, ...]) -> list[float]:
        total = sum(self.sizes[party] for party in cohort)
        return [self.sizes[party] / total for party in cohort]


def compare(hand: ByHand, algorithm: Algorithm, by_hand: Iterator[Tensor], participation: float | int) -> None:
    """Check that an algorithm gives the models that `by_hand` yields after each round."""
    ours = run(algorithm, (hand.federation, hand.task), hand.solver, seed=hand.seed, participation=participation)
    for record, expected in zip(ours, by_hand, strict=True):
        assert close(record.state.server.params, expected)
