"""Rulers: where the values of an axis are, with ticks at round numbers and one unit for all of them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from silobench.analysis.units import duration, size
from silobench.report.charts.values import Axis, Point

_PREFIXES = {"B": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")), "s": ((7200, "h"), (600, "min"), (1, "s"))}
_SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SMALL = 0.4  # an axis starts at 0 if its smallest value is below this share of its largest
_LEAST = 1e-250  # the smallest number of a logarithmic axis
_MOST_DIGITS = 7  # of the number at a tick, before or after the point; others have a power of ten
MOST_POINTS = 200  # of a drawn line


@dataclass(frozen=True)
class Ruler:
    """An axis with its ends, ticks and unit. `factor` is the size of the shown unit, such as 1000 for kB."""

    axis: Axis
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    factor: float = 1.0
    unit: str = ""

    @property
    def is_log(self) -> bool:
        return self.axis.scale == "log"

    @property
    def label(self) -> str:
        """The title of the axis with the unit that its ticks have."""
        return f"{self.axis.title}, {self.unit}" if self.unit else self.axis.title

    def share(self, value: float) -> float:
        """Return where a value is between the low end, 0, and the high end, 1."""
        low, high, at = (math.log10(max(one, _LEAST)) if self.is_log else one for one in (self.low, self.high, value))
        return (at - low) / (high - low)

    def shown(self, value: float, digits: int = 4) -> float | int:
        """Return a value in the shown unit, with as many digits as people read, and all before the point."""
        value = value / self.factor
        short = float(f"{value:.{digits}g}") if abs(value) < 1000 else round(value)
        return int(short) if short == int(short) else short

    def text(self, value: float) -> str:
        """Return a value as text: the name of a place, or a number in the shown unit."""
        names = self.axis.names
        if names and 0 <= round(value) < len(names):
            return names[round(value)]
        if self.factor == 1.0 and not self.unit and self.axis.unit in _WORDS:
            return _WORDS[self.axis.unit](value)
        return number(value / self.factor)


_WORDS = {"B": size, "s": duration}


def ruler(axis: Axis, values: Iterable[float], from_zero: bool = False, most: int = 6) -> Ruler:
    """Return the ruler of an axis for some values; `from_zero` is for bars, `most` is the number of ticks."""
    if axis.names:
        ticks = [(float(place), name) for place, name in enumerate(axis.names)]
        return Ruler(axis, -0.5, len(axis.names) - 0.5, ticks)
    usable = [value for value in values if math.isfinite(value) and (axis.scale != "log" or value >= _LEAST)]
    if axis.scale == "log":
        return _log_ruler(axis, usable)
    low, high = _ends(axis, usable, from_zero)
    factor, unit = _prefix(axis.unit, max(abs(low), abs(high)))
    step = _step(low / factor, high / factor, most, axis.scale == "whole")
    if axis.high is None and axis.scale != "whole":  # the last tick is at the end or beyond the data
        end = step * factor * math.ceil(high / (step * factor) - 0.35)
        high = high if high <= _most(axis, usable) < end else max(high, end)
    first, last = math.ceil(low / factor / step - 1e-9), math.floor(high / factor / step + 1e-9)
    form = _form(step, max(abs(low), abs(high)) / factor)
    ticks = [(place * step * factor, f"{place * step:{form}}") for place in range(first, last + 1)]
    return Ruler(axis, low, high, ticks, factor, unit)


def _form(step: float, largest: float) -> str:
    """Return how numbers at ticks are written: with as many digits as tell one tick from the next.

    >>> [f"{5 * step:{_form(step, largest)}}" for step, largest in ((2.5, 20), (1e6, 8e6), (5e10, 3e11))]
    ['12.5', '5,000,000', '2.5e+11']
    """
    fraction = max(0, math.ceil(-math.log10(step) - 1e-9) + (step / 10 ** math.floor(math.log10(step)) == 2.5))
    if fraction <= _MOST_DIGITS and largest < 10**_MOST_DIGITS:
        return f"z,.{fraction}f"
    return f"z.{max(0, math.floor(math.log10(largest)) - math.floor(math.log10(step))) + 2}g"


def _ends(axis: Axis, values: Sequence[float], from_zero: bool) -> tuple[float, float]:
    """Return the ends of a linear axis: the values with a margin, from 0 where that costs little room."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if axis.scale == "whole":
        low, high = (low, high) if high > low else (low - 1, high + 1)
    elif from_zero or (0 <= low < _SMALL * high):
        low, high = min(low, 0.0), max(high, 0.0)
    else:
        margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - margin, min(high + margin, _most(axis, values))
    low, high = (low if axis.low is None else axis.low), (high if axis.high is None else axis.high)
    return (low, high) if high > low else (low, low + 1.0)


def _most(axis: Axis, values: Sequence[float]) -> float:
    """Return where an axis ends at the latest: percentages of a whole end at 100."""
    return 100.0 if axis.unit == "percent" and max(values, default=0.0) <= 100 else math.inf


def _log_ruler(axis: Axis, values: Sequence[float]) -> Ruler:
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    low, high = (low if axis.low is None else axis.low), (high if axis.high is None else axis.high)
    if high / low < 1.5:
        low, high = low / 1.5, high * 1.5
    margin = (high / low) ** 0.04
    low, high = low / margin, high * margin
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    width = math.log10(high / low)
    factors = (1,) if width > 3 else (1, 3) if width > 1.5 else (1, 2, 5)
    stride = max(1, len(decades) // 6)
    places = [factor * 10.0**power for power in decades if not power % stride for factor in factors]
    empty = Ruler(axis, low, high, ())
    plain = axis.unit in _WORDS
    places = [at for at in places if low <= at <= high]
    if len(places) < 2:  # a short axis between 2 and 5 has none of them
        step = _step(low, high, 6, is_whole=False)
        places = [place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ticks = [(at, empty.text(at)) for at in places]
    return replace(empty, ticks=ticks, unit="" if plain else axis.unit)


def _prefix(unit: str, largest: float) -> tuple[float, str]:
    """Return the size and the name of the unit that suits the largest number."""
    if unit == "s" and 0 < largest < 1:
        return 1e-3, "ms"
    for least, name in _PREFIXES.get(unit, ()):
        if largest >= least:
            return _SECONDS.get(name, least), name
    return 1.0, unit


def _step(low: float, high: float, most: int, is_whole: bool) -> float:
    """Return the smallest round step that needs at most so many ticks.

    >>> _step(0, 100, 6, False), _step(1, 8, 6, True), _step(-0.33, 0.23, 6, False)
    (20.0, 2.0, 0.1)
    """
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    for step in (factor * scale for scale in (power, 10 * power) for factor in _STEPS):
        fits = math.floor(high / step + 1e-9) - math.ceil(low / step - 1e-9) + 1 <= most
        if fits and (not is_whole or (step >= 1 and step % 1 == 0)):
            return rounded(step)
    return 1.0 if is_whole else high - low


def rounded(value: float) -> float:
    """Return a number with five digits."""
    return float(f"{value:.5g}")


def number(value: float) -> str:
    """Return a number with four digits, or with all digits before the point.

    >>> number(95.3333), number(1234567.0), number(0.00012345), number(-0.0)
    ('95.33', '1,234,567', '0.0001234', '0')
    """
    if not math.isfinite(value):
        return "-"
    if value and not 1e-5 <= abs(value) < 1e15:
        return f"{value:.3g}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 3 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:z.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def amount(value: float, axis: Axis) -> str:
    """Return a value with the unit of its axis.

    >>> amount(1_500_000, Axis("traffic", "B")), amount(95.333, Axis("accuracy", "percent"))
    ('1.5 MB', '95.33 percent')
    """
    return _WORDS[axis.unit](value) if axis.unit in _WORDS else f"{number(value)} {axis.unit}".rstrip()


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Return at most so many points of a line, with the smallest and the largest value of each stretch.

    >>> [point.x for point in thinned([Point(x, x == 7) for x in range(100)], 10)]
    [0, 1, 7, 25, 50, 74, 99]
    """
    finite = [point for point in points if math.isfinite(point.x)]
    if len(finite) <= most:
        return finite
    stretches = max(1, (most - 2) // 2)
    kept = {0, len(finite) - 1}
    for place in range(stretches):
        start, end = (1 + (len(finite) - 2) * at // stretches for at in (place, place + 1))
        known = [at for at in range(start, end) if math.isfinite(finite[at].y)]
        if known:
            kept |= {min(known, key=lambda at: finite[at].y), max(known, key=lambda at: finite[at].y)}
    return [finite[at] for at in sorted(kept)]
