"""Controllers set knobs between rounds. These are the values that a controller and the round loop exchange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from silobench.method.types import Dial, Memory, Server
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, expects
from silobench.spec.renaming import renamed
from silobench.tasks.metrics import ACCURACY, Metric


@dataclass(frozen=True)
class Travel:
    """Scores of the parties' models at home (their own training rows) and away (those of other parties).

    A score is a value of `metric`, which is the accuracy unless the objective has another main metric.
    """

    home: tuple[float, ...]  # [parties]
    away: tuple[float, ...]  # [parties], the mean over the other parties that tested the model
    nbytes: int  # sent for the tests
    metric: Metric = ACCURACY

    @property
    def loss(self) -> float:
        """How much worse a model is away from home, averaged over parties, in the metric's units; above 0 is worse."""
        return sum(map(self.metric.gain, self.home, self.away)) / len(self.home)


class Probe(Protocol):
    """Measurements that a controller can make before a round."""

    @property
    def spent(self) -> int:
        """Bytes of all messages so far, including those for `travel`."""

    @property
    def whole(self) -> int:
        """Bytes of a round in which whole models are exchanged."""

    def travel(self, sample: int, trips: int) -> Travel:
        """Test every party's model on `sample` training rows of its own, and of each of `trips` other parties."""

    def draw(self, count: int) -> Sequence[float]:
        """Return random numbers from 0 to 1; the same ones whenever this round is run."""


@renamed(told="report")
@dataclass(frozen=True)
class Orders:
    """A controller's knobs for a round, its memory, and a report of its decision."""

    knobs: Mapping[str, float] = field(default_factory=dict)
    memory: Memory = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)  # empty in a round without a decision


def _no_orders(server: Server, memory: Memory, probe: Probe) -> Orders:
    return Orders()


@dataclass(frozen=True)
class Controller:
    """Sets knobs between rounds. They are part of the broadcast, so an algorithm need not know the controller."""

    steer: Callable[[Server, Memory, Probe], Orders] = _no_orders
    """(server, memory, probe) -> orders for the round that starts."""
    dialled: Callable[[Sequence[Dial]], "Controller"] | None = None
    """(dials of the method) -> the controller for these dials; raises `ConfigError` if there is none it can set."""
    travels: bool = False
    """Whether `steer` calls ``probe.travel``, so that models and exact scores of training rows leave their parties."""


CONTROLLER = Contract(
    Controller,
    "an sb.Controller(steer, ...)",
    {"steer": Form("server, memory, probe", expects(Orders, "an sb.Orders"))},
)
CONTROLLERS: Registry[Controller] = Registry(
    "controller",
    replace(CONTROLLER, hooks={**CONTROLLER.hooks, "dialled": Form("dials", contract=CONTROLLER)}),
)


@CONTROLLERS.register
def fixed() -> Controller:
    """Leave every knob as the specs set it."""
    return Controller()
