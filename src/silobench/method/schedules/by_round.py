"""Schedules by round: constant, exponential, step and polynomial."""

from silobench.method.schedules.schedule import SCHEDULES, Round
from silobench.method.types import Knob
from silobench.spec.ranges import Count, NonNegative, Positive


@SCHEDULES.register
def constant(start: Positive) -> Knob:
    """Return the same value in every round; a plain number is short for this."""
    return start


@SCHEDULES.register
def exponential(start: Positive, decay: Positive) -> Knob:
    """start · decay^round (Zhao et al., 2018: 0.995 on MNIST, 0.992 on CIFAR-10)."""
    return lambda server: start * decay**server.round


@SCHEDULES.register
def step(start: Positive, at: tuple[Round, ...], factor: Positive = 0.1) -> Knob:
    """`start`, multiplied by `factor` at each of the rounds `at`, as in step(0.1, at=[64, 96])."""
    return lambda server: start * factor ** sum(server.round >= when for when in at)


@SCHEDULES.register
def polynomial(start: Positive, over: Count, end: NonNegative = 0.0, power: Positive = 1.0) -> Knob:
    """From `start` to `end` over `over` rounds: end + (start - end)(1 - round/over)^power."""
    return lambda server: end + (start - end) * (1 - min(server.round, over) / over) ** power
