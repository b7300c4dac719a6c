"""Helpers for tests of algorithms: the specs to test, and comparisons of runs up to rounding or to the bit."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor

from precision import bound_of_steps
from silobench.federation import Federation
from silobench.method.selection import Cohort, cohort_size, uniform
from silobench.method.types import Context, Memory, Transform, Update
from silobench.training.state import RoundRecord

SCAFFOLDS = [f"scaffold(option={o}, momentum={m})" for o in (1, 2) for m in ("outside", "inside")]
BY_TORCH = ["moon(mu=0.5)", "fedrs(alpha=0.5)"]  # with a custom loss
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
]


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


def bits(value: Any) -> Any:
    """Return a state or a record as plain nested values, exact to the bit, without wall-clock seconds."""
    if isinstance(value, Tensor):
        return tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, Mapping):
        return {key: bits(inner) for key, inner in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: bits(inner) for name, inner in vars(value).items() if name != "seconds"}
    return value


def draw_cohort(parties: int, participation: float | int, seed: int, round: int) -> Cohort:
    """Return the cohort that the round loop draws by default in a federation with this many parties."""
    federation = cast(Federation, SimpleNamespace(parties=range(parties)))
    return uniform()(federation, cohort_size(parties, participation), seed, round)
