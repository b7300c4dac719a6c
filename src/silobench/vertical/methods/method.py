"""`VerticalMethod`: how parties with different columns learn together; and the values that it works with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from silobench.loop.clocks import Clock
from silobench.loop.network import Network as Link
from silobench.loop.timeline import Timeline
from silobench.method.solvers import Solver
from silobench.method.types import Memory, Phase, Transform
from silobench.spec import Registry
from silobench.spec.contract import Contract
from silobench.tasks.objectives import Objective
from silobench.training.state import State
from silobench.vectors import Vector
from silobench.vertical.defences import DEFENCES
from silobench.vertical.federation import VerticalFederation
from silobench.vertical.leaks import CutView, LeakMeasure
from silobench.vertical.networks import SplitNetwork, VerticalModel, VerticalSizes


@dataclass(frozen=True)
class VerticalProblem:
    """Everything that a method needs for a run: the parties, what they learn, and how messages travel."""

    federation: VerticalFederation
    model: VerticalModel
    solver: Solver
    objective: Objective
    link: Link
    clock: Clock
    seed: int
    rounds: int
    transforms: tuple[Transform, ...] = ()  # of activations
    broadcast: tuple[Transform, ...] = ()  # of gradients
    eval_every: int = 1
    eval_on: float | int = 1.0
    measures: Mapping[str, LeakMeasure] = field(default_factory=dict)

    def network(self) -> SplitNetwork:
        """Return the split network at which every run of the seed starts."""
        federation, deal, names = self.federation, self.federation.deal, self.federation.dataset.columns
        sizes = VerticalSizes(
            tuple(map(len, deal.columns)),
            self.objective.outputs(federation.dataset),
            deal.label,
            tuple(tuple(names[place] for place in columns) for columns in deal.columns) if names else (),
            self._values,
            names,
        )
        columns = [torch.from_numpy(np.ascontiguousarray(each)) for each in deal.columns]
        is_partial = ~(deal.train.all(1) & deal.test.all(1))
        embedded = np.flatnonzero(is_partial).tolist() if deal.absent == "embedding" else ()
        return self.model.build(sizes, columns, federation.features, self.seed, embedded)

    @property
    def party_clock(self) -> Clock:
        """The clock by the number of a party in the federation of this problem: a baseline has one party, number 0."""
        speed, first = self.clock.speed, self.federation.first
        if speed is None or not first:
            return self.clock
        return replace(self.clock, speed=lambda seed, party: speed(seed, first + party))

    def _values(self, party: int, place: int) -> Tensor:
        federation = self.federation
        values: Tensor = federation.x[federation.rows, int(federation.deal.columns[party][place])].unique()
        return values


@dataclass(frozen=True)
class Trained:
    """A finished round of training, before its test."""

    params: Vector
    buffers: Vector
    memory: Mapping[int, Mapping[str, Memory]]  # by party
    loss: float
    steps: int
    rows: int  # row visits
    phases: tuple[Phase, ...]  # bytes, messages and seconds by kind of message, over all batches
    dense: tuple[int, int]  # bytes to the label holder and back, if nothing were compressed
    clock: float  # virtual seconds
    timeline: Timeline
    seconds: Mapping[str, float]  # by phase
    reports: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Memory] = field(default_factory=dict)  # for `State.extra`
    slowest: float | None = None  # measured seconds of training where parties work side by side; None for their sum
    computing: float | None = None  # virtual seconds of training, which are part of the clock; None if measured


class Trainer(Protocol):
    """The training of a method on a problem, round by round. It has no state but its networks, which are scratch."""

    @property
    def size(self) -> int:
        """The number of parameters of the model."""

    def initial(self) -> State:
        """Return the state before the first round."""

    def round(self, state: State, knobs: Mapping[str, float]) -> Trained:
        """Train for one round; `knobs` are those of the learning rate."""

    def module(self, state: State) -> nn.Module:
        """Return the trained model: a function of the joint input."""

    def view(self, state: State, rows: Tensor) -> CutView | None:
        """Return what crosses the cut for some training rows; None if nothing does."""


class VerticalMethod(ABC):
    """A method of learning over columns. Add one as a class, and a function that is registered and returns it."""

    def restricted(self, federation: VerticalFederation) -> VerticalFederation:
        """Return the federation that the method trains on; a baseline has fewer parties or columns."""
        return federation

    def check(self, problem: VerticalProblem) -> None:  # noqa: B027  # most methods have nothing to refuse
        """Raise `ConfigError` for choices that do not work together."""

    def has_cut(self, problem: VerticalProblem) -> bool:
        """Whether activations and gradients cross between parties, for measures of what they leak."""
        return bool(problem.federation.others)

    def facts(self, problem: VerticalProblem) -> dict[str, Any]:
        """Return facts for the field `vertical` of run.json."""
        return {}

    def notes(self, problem: VerticalProblem) -> tuple[str, ...]:
        """Return sentences to show before the first round."""
        return ()

    @abstractmethod
    def trainer(self, problem: VerticalProblem) -> Trainer:
        """Return the training of the method on a problem."""


VERTICAL_ALGORITHMS: Registry[VerticalMethod] = Registry(
    "vertical algorithm", Contract(VerticalMethod, "an sb.VerticalMethod"), DEFENCES
)
