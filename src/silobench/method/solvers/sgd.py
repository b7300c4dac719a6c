"""SGD with momentum."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal

import torch

from silobench.method.solvers.solver import SOLVERS, Solver, check_passes
from silobench.method.types import BelowOne, Count, NonNegative, Positive, Server, Vector


@dataclass(frozen=True)
class Sgd(Solver):
    """Minibatch SGD with momentum; see `sgd`."""

    kind: ClassVar[str] = "sgd"
    is_linear: ClassVar[bool] = True

    def initial(self, params: Vector) -> dict[str, Vector]:
        return {"momentum": torch.zeros_like(params)}

    def step(self, params: Vector, grad: Vector, state: dict[str, Vector], lr: float) -> None:
        velocity = state["momentum"].mul_(self.momentum).add_(grad)
        params.add_(velocity, alpha=-lr)

    def reach(self, steps: int) -> float:
        return reach(steps, self.momentum)

    def without_momentum(self) -> "Sgd":
        """Return a solver whose steps have no momentum, because the algorithm applies it."""
        return replace(self, momentum=0.0, keep_momentum=False, left=self.momentum)


def has_sgd_steps(solver: Solver) -> bool:
    """Whether a solver takes SGD's steps; a subclass with another `step` does not, whatever its kind."""
    return type(solver).step is Sgd.step


@cache
def reach(steps: int, momentum: float) -> float:
    """Return the sum of the weights of the gradients in the displacement of SGD after `steps` steps.

    >>> reach(5, 0.0), round(reach(2, 0.9), 6)  # the first of two gradients counts 1.9, the second 1
    (5.0, 2.9)
    """
    total = velocity = 0.0
    for _ in range(steps):  # accurate also for a momentum near 1, where the closed form suffers cancellation
        velocity = 1 + momentum * velocity
        total += velocity
    return total


@SOLVERS.register
def sgd(
    lr: Positive | Callable[[Server], float] = 0.01,
    momentum: BelowOne = 0.9,
    weight_decay: NonNegative = 1e-5,
    epochs: Count = 10,
    steps: Count | None = None,
    batch: Count | Literal["full"] = 64,
    keep_momentum: bool = False,
) -> Sgd:
    """Minibatch SGD; the defaults are NIID-Bench's.

    `lr` is a number or a schedule: see `silobench list schedules`. `steps` replaces epochs by a number of
    minibatches per round; `batch=full` takes all rows at once. Momentum starts from zero in every round, unless each
    party keeps its own with `keep_momentum`.
    """
    check_passes("sgd", epochs, steps)
    keep = keep_momentum and momentum > 0
    return Sgd(lr, momentum, weight_decay, epochs, steps, None if batch == "full" else batch, keep)
