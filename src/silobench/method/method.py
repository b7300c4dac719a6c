"""`Method`: how a federation learns, as one value."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from silobench.errors import ConfigError
from silobench.method.aggregates import MEAN
from silobench.method.chain import chain_problem
from silobench.method.servers import step
from silobench.method.solvers import Solver, sgd
from silobench.method.types import Aggregate, Algorithm, ServerOptimizer, Transform
from silobench.spec.registry import need_part, part_name

Buffers: TypeAlias = Literal["average", "local", "keep"]


@dataclass(frozen=True)
class Method:
    """An algorithm, a solver for local training, transforms of messages, an aggregate and a server optimizer."""

    algorithm: Algorithm
    solver: Solver = field(default_factory=sgd)
    transforms: tuple[Transform, ...] = ()
    server: ServerOptimizer = field(default_factory=step)
    aggregate: Aggregate = MEAN
    buffers: Buffers = "average"
    """How normalisation statistics are treated: averaged with the weights of the algorithm's messages (samples for
    FedAvg, 1 for FedDyn, BSP and DGC); local to each party, whose model is then tested with them (SiloBN, Andreux et
    al., 2020); or kept at the server's initial values, as if only parameters were averaged."""

    def __post_init__(self) -> None:
        self._need_parts()
        if self.algorithm.lockstep and self.solver.steps != 1:
            raise ConfigError(
                f"{part_name(self.algorithm, 'algorithm')} exchanges after every minibatch, but the solver takes more "
                "steps in a round: use sgd(..., steps=1, keep_momentum=True)."
            )
        refusals = (
            self.algorithm.refuses,
            self.solver.refuses,
            *(transform.refuses for transform in self.transforms),
            self.aggregate.refuses,
        )
        for reason in filter(None, (chain_problem(self.transforms), *(refuses(self) for refuses in refusals))):
            raise ConfigError(reason)

    def _need_parts(self) -> None:
        """Raise `ConfigError` for a part of another kind, or for its function or its name in place of it."""
        need_part(self.algorithm, Algorithm, "the algorithm of an sb.Method", "sb.Method(sb.fedavg())")
        need_part(self.solver, Solver, "the solver of an sb.Method", "sb.Method(sb.fedavg(), sb.sgd(lr=0.01))")
        need_part(self.transforms, tuple, "transforms of an sb.Method", "transforms=(sb.clip(norm=1.0),)")
        for transform in self.transforms:
            need_part(transform, Transform, "one of the transforms of an sb.Method", "transforms=(sb.clip(norm=1.0),)")
        need_part(self.server, ServerOptimizer, "the server of an sb.Method", "server=sb.step(lr=1.0)")
        need_part(self.aggregate, Aggregate, "the aggregate of an sb.Method", "aggregate=sb.median()")
        if self.buffers not in get_args(Buffers):
            raise ConfigError(f"buffers is {self.buffers!r}, but one of average, local and keep is needed: choose one.")

    @property
    def sends_mostly_zeros(self) -> bool:
        """Whether the algorithm or a transform leaves most entries of a message at zero."""
        return self.algorithm.mostly_zeros or any(transform.mostly_zeros for transform in self.transforms)

    @property
    def hides(self) -> bool:
        """Whether messages are sent, and the server learns only their sum."""
        return any(transform.hides for transform in self.transforms) and not self.algorithm.silent

    @property
    def has_noise(self) -> bool:
        """Whether a transform adds noise to the sum of the messages, so that it protects parties."""
        return any(transform.equal_weights for transform in self.transforms) and not self.algorithm.silent

    @property
    def needs_only_sum(self) -> bool:
        """Whether the server needs nothing but the sum of the messages."""
        return self.aggregate.adds
