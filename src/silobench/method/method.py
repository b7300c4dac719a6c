"""`Method`: how a federation learns, as one value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Literal, TypeAlias

from silobench.errors import ConfigError
from silobench.method.servers import step
from silobench.method.solvers import Solver, sgd
from silobench.method.types import Algorithm, ServerOptimizer, Transform, Update

Buffers: TypeAlias = Literal["average", "local", "keep"]


def total(updates: Iterable[Update]) -> Update:
    """Return the sum of updates, added in their order."""
    return reduce(add, updates)


@dataclass(frozen=True)
class Method:
    """An algorithm, a solver for local training, transforms of messages, and a server optimizer."""

    algorithm: Algorithm
    solver: Solver = field(default_factory=sgd)
    transforms: tuple[Transform, ...] = ()
    server: ServerOptimizer = field(default_factory=step)
    aggregate: Callable[[Iterable[Update]], Update] = total
    buffers: Buffers = "average"
    """How normalisation statistics are treated: averaged with the weights of the algorithm's messages (samples for
    FedAvg, 1 for FedDyn, BSP and DGC); local to each party, whose model is then tested with them (SiloBN, Andreux et
    al., 2020); or kept at the server's initial values, as if only parameters were averaged."""

    def __post_init__(self) -> None:
        if self.algorithm.lockstep and self.solver.steps != 1:
            raise ConfigError(
                "this algorithm exchanges after every minibatch, but the solver takes more steps in a round: use "
                "sgd(..., steps=1, keep_momentum=True)."
            )
        if reason := self.algorithm.refuses(self):
            raise ConfigError(reason)
