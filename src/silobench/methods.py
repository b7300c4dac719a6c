"""`Method`: everything that is done to a federation, as one value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from silobench.servers import step
from silobench.solvers import Solver, sgd
from silobench.types import Algorithm, ServerOptimizer, Transform, Update


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
