"""Controllers choose knobs between rounds. These are the values that a controller and the round loop exchange."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from silobench.method.types import Dial, Memory, Server


@dataclass(frozen=True)
class Travel:
    """How parties' models do on their own training rows and on those of others: accuracies, [parties] each."""

    home: tuple[float, ...]
    away: tuple[float, ...]  # the mean over those it travelled to
    nbytes: int

    @property
    def loss(self) -> float:
        """The accuracy that a model loses away from home, on average."""
        return sum(a - b for a, b in zip(self.home, self.away, strict=True)) / len(self.home)


class Probe(Protocol):
    """What a controller can find out before a round."""

    @property
    def spent(self) -> int:
        """Bytes that all messages took so far, travelling included."""

    @property
    def whole(self) -> int:
        """Bytes that a round takes in which everything is exchanged."""

    def travel(self, sample: int, trips: int) -> Travel:
        """Let every party's model be tested on `sample` training rows at home, and of `trips` other parties."""

    def draw(self, count: int) -> Sequence[float]:
        """Numbers from 0 to 1, the same whenever this round is run."""


@dataclass(frozen=True)
class Orders:
    """What a controller wants for a round, what it has to remember, and what it tells of a decision."""

    knobs: Mapping[str, float] = field(default_factory=dict)
    memory: Memory = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)  # nothing where nothing was decided


def _leave(server: Server, memory: Memory, probe: Probe) -> Orders:
    return Orders()


@dataclass(frozen=True)
class Controller:
    """Chooses knobs between rounds, which travel in the broadcast: no algorithm knows who turned them."""

    steer: Callable[[Server, Memory, Probe], Orders] = _leave
    """(server, what it remembers, what it can find out) -> orders for the round that begins"""
    dialled: Callable[[Sequence[Dial]], "Controller"] | None = None
    """(dials of the method) -> the controller for these; raises if it cannot turn any."""
