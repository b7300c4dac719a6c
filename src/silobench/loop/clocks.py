"""Clocks: how long parties compute, on the virtual clock."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge
from pydantic import BeforeValidator, Discriminator, Tag

from silobench.errors import SpecError
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described
from silobench.spec.ranges import Spread


@dataclass(frozen=True)
class Clock:
    """The computing time of parties.

    `speed` is a function (seed, party) -> rows per second. Without it computing is measured: it is in the `seconds` of
    a round's record, and the virtual clock is that of the network only, so that it is the same in every run. `parties`
    is the number of parties that it knows a speed of, if it has a list of them.
    """

    speed: Callable[[int, int], float] | None = None
    parties: int | None = None

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


def _is_list(value: Any) -> str:
    return "list" if isinstance(value, tuple | list) else "number"


_Speed: TypeAlias = Annotated[float, Ge(1e-3)]  # rows per second
_Speeds: TypeAlias = Annotated[Sequence[_Speed], BeforeValidator(tuple)]
# The tags let an error be about a number or about a list, whichever was given.
Speed: TypeAlias = Annotated[
    Annotated[_Speed, Tag("number")] | Annotated[_Speeds, Tag("list")],
    Discriminator(_is_list),
]


@CLOCKS.register
def device(speed: Speed = 1000.0, spread: Spread = 0.0) -> Clock:
    """Parties train on `speed` rows per second; `spread` is the standard deviation of the logarithm of their speeds.

    A list has a speed for each party, as in ``device(speed=[1000, 1000, 500])``; the baseline `combined`, with all rows
    at one place, has the first of them. With a spread, the seed of a run determines the speed of each party. Speeds
    stay the same in all rounds.
    """
    if speed == ():
        raise SpecError("device: speed is an empty list: give a speed for each party, or one number for all.")
    count = len(speed) if isinstance(speed, Sequence) else None

    def speed_of(seed: int, party: int) -> float:
        of_party = speed[party] if isinstance(speed, Sequence) else speed
        if not spread:
            return of_party
        return of_party * math.exp(spread * float(stream(seed, "device", party=party).standard_normal()))

    return Clock(speed_of, count)
