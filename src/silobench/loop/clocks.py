"""Clocks: how long parties compute, on the virtual clock."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge

from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described
from silobench.spec.ranges import Spread


@dataclass(frozen=True)
class Clock:
    """The computing time of parties.

    `speed` is a function (seed, party) -> rows per second. Without it computing is measured: it is in the `seconds` of
    a round's record, and the virtual clock is that of the network only, so that it is the same in every run.
    """

    speed: Callable[[int, int], float] | None = None

    def computing(self, rows: int, party: int, seed: int) -> float:
        """Return the virtual seconds that a party trains on `rows` rows, counting repetitions."""
        return rows / self.speed(seed, party) if self.speed else 0.0


def _speed(value: Any, arguments: Sequence[Any]) -> str | None:
    is_speed = isinstance(value, int | float) and 0 < value < math.inf
    return None if is_speed else f"{described(value)}, but rows per second are expected: a number above 0"


CLOCKS: Registry[Clock] = Registry(
    "clock", Contract(Clock, "an sb.Clock(speed)", {"speed": Form("seed, party", _speed)})
)


@CLOCKS.register
def measured() -> Clock:
    """Measure how long parties compute on this machine."""
    return Clock()


@CLOCKS.register
def device(speed: Annotated[float, Ge(1e-3)] = 1000.0, spread: Spread = 0.0) -> Clock:
    """Parties train on `speed` rows per second; `spread` is the standard deviation of the logarithm of their speeds.

    The seed of a run determines the speed of each party, and it stays the same in all rounds.
    """

    def speed_of(seed: int, party: int) -> float:
        if not spread:
            return speed
        return speed * math.exp(spread * float(stream(seed, "device", party=party).standard_normal()))

    return Clock(speed_of)
