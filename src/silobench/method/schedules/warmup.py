"""A linear warm-up to another schedule (Goyal et al., 2017)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from silobench.method.schedules.schedule import SCHEDULES
from silobench.method.types import Knob, Server, at
from silobench.spec.ranges import Count, NonNegative, Positive


@dataclass(frozen=True)
class Warmup:
    """A linear warm-up; see `warmup`. What the schedule after it does between rounds, it does too."""

    then: Knob
    over: int
    start: float

    def __call__(self, server: Server) -> float:
        goal, done = at(self.then, server), server.round + 1
        return goal if done >= self.over else self.start + (goal - self.start) * done / self.over

    @property
    def follow(self) -> Any:
        return getattr(self.then, "follow", None)

    @property
    def knobs(self) -> Any:
        return getattr(self.then, "knobs", None)

    @property
    def needs_validation(self) -> bool:
        return getattr(self.then, "needs_validation", False)


@SCHEDULES.register
def warmup(then: Positive | Callable[[Server], float], over: Count, start: NonNegative = 0.0) -> Knob:
    """From `start` to the schedule `then` in `over` equal steps, as in warmup(step(0.1, at=[64]), over=5).

    The first round has the rate after the first of these steps, so that it is above 0; round `over` has the rate of
    `then`, which is a number or a schedule. `then` counts its rounds from the first round of the run.
    """
    return Warmup(then, over, start)
