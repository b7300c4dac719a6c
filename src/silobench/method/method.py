"""`Method`: everything that is done to a federation, as one value."""

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
    """The plain sum, in the order in which the updates come."""
    return reduce(add, updates)


@dataclass(frozen=True)
class Method:
    """An algorithm, how parties train, what happens on the wire, and how the server steps."""

    algorithm: Algorithm
    solver: Solver = field(default_factory=sgd)
    transforms: tuple[Transform, ...] = ()
    server: ServerOptimizer = field(default_factory=step)
    aggregate: Callable[[Iterable[Update]], Update] = total
    buffers: Buffers = "average"
    """What becomes of normalisation statistics: averaged by the weights of the algorithm's messages, which are samples
    for FedAvg and 1 for FedDyn, BSP and DGC; left with each party, by which its model is then tested (SiloBN, Andreux
    et al., 2020); or kept by the server as they began, as if parameters alone were averaged."""

    def __post_init__(self) -> None:
        if self.algorithm.lockstep and self.solver.steps != 1:
            raise ConfigError(
                "this algorithm exchanges after every minibatch, and the solver takes more steps in a round: write "
                "sgd(..., steps=1, keep_momentum=True)."
            )
