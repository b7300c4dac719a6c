"""Ranges of a search space: lists of values, and intervals on a linear or a logarithmic scale."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

from silobench.errors import ConfigError, SpecError, value_shown
from silobench.spec import parse

Value: TypeAlias = "bool | int | float | str"
_DIGITS = 3  # significant digits of a number that is drawn: enough for tuning, and readable in the name of a run
_LARGEST = sys.float_info.max  # a whole number above it is no float
MOST_VALUES = 10_000  # of a range with steps
_EXAMPLE = 'write a list such as [16, 32], or "log(0.001, 1.0)", "range(0.0, 0.9)" or "range(1, 10, step=3)"'


@dataclass(frozen=True)
class Choices:
    """A list of values."""

    values: tuple[Value, ...]

    def __contains__(self, value: object) -> bool:
        return any(type(value) is type(each) and value == each for each in self.values)

    def text(self) -> list[Value]:
        """Return the range as an experiment file states it."""
        return list(self.values)


@dataclass(frozen=True)
class Interval:
    """Numbers between two bounds, both included; whole numbers if both bounds are."""

    low: float
    high: float
    step: float | None = None
    is_log: bool = False

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @cached_property
    def values(self) -> tuple[float, ...]:
        """The values of an interval with steps, or of whole numbers on a linear scale; none otherwise."""
        if self._step is None:
            return ()
        count = math.floor((self.high - self.low) / self._step + 1e-9) + 1
        if self.is_whole:
            return tuple(self.low + place * self._step for place in range(count))
        low, step = Decimal(repr(self.low)), Decimal(repr(self._step))  # in floats, 0.1 + 2 * 0.1 is not 0.3
        return tuple(float(low + place * step) for place in range(count))

    def near(self, number: float) -> float:
        """Return the value of an interval with steps that is nearest to a number between its bounds."""
        assert self._step is not None
        return self.values[round((number - self.low) / self._step)]

    @property
    def is_too_fine(self) -> bool:
        """Whether it has more values than anyone can try, or than the memory can hold."""
        return self._step is not None and self.high - self.low >= MOST_VALUES * self._step

    @property
    def _step(self) -> float | None:
        return self.step or (1 if self.is_whole and not self.is_log else None)

    def __contains__(self, value: object) -> bool:
        return _is_number(value) and self.low <= value <= self.high and (not self.values or value in self.values)  # type: ignore[operator]

    def has_on_scale(self, value: object) -> bool:
        """Whether a value is a number that the scale has, also outside of the bounds, as a default may be."""
        return _is_number(value) and (value > 0 or not self.is_log)  # type: ignore[operator]

    def text(self) -> str:
        """Return the range as an experiment file states it."""
        step = f", step={self.step}" if self.step is not None else ""
        return f"{'log' if self.is_log else 'range'}({self.low}, {self.high}{step})"


Range: TypeAlias = Choices | Interval


def rounded(number: float) -> float:
    """Return a number with three significant digits.

    >>> rounded(0.0123456)
    0.0123
    """
    return float(f"{number:.{_DIGITS}g}")


def range_of(key: str, written: Any) -> Range:
    """Read a range of a search space: a list of values, or the text of an interval.

    >>> range_of("solver.lr", "log(0.001, 1.0)")
    Interval(low=0.001, high=1.0, step=None, is_log=True)
    >>> range_of("solver.batch", [16, 32]).values
    (16, 32)
    """
    if isinstance(written, Sequence) and not isinstance(written, str):
        return _choices(key, written)
    if not isinstance(written, str):
        raise ConfigError(f"the range of {key} is {value_shown(written)}, but a range is needed: {_EXAMPLE}.")
    try:
        spec = parse(written)
    except SpecError as error:
        raise ConfigError(f"the range of {key} is '{written}', which cannot be read: {_EXAMPLE}.") from error
    extra = dict(spec.kwargs)
    step = extra.pop("step", None)
    numbers = [*spec.args, *([] if step is None else [step])]
    if spec.name not in ("log", "range") or len(spec.args) != 2 or extra or not all(map(_is_number, numbers)):
        raise ConfigError(f"the range of {key} is '{written}', which is not a range: {_EXAMPLE}.")
    low, high = spec.args
    interval = Interval(low, high, step, spec.name == "log")  # type: ignore[arg-type]
    _check(key, written, interval)
    return interval


def _choices(key: str, written: Sequence[Any]) -> Choices:
    if not written:
        raise ConfigError(f"the range of {key} is an empty list: give at least one value.")
    for value in written:
        if not isinstance(value, bool | int | float | str):
            raise ConfigError(f"the range of {key} has {value_shown(value)}: give numbers, texts, true or false.")
    return Choices(tuple(dict.fromkeys(written)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _check(key: str, written: str, interval: Interval) -> None:
    """Refuse an interval that has no values."""
    if interval.low >= interval.high:
        raise ConfigError(f"the range of {key} is {written}, but the first bound must be below the second.")
    if interval.is_log and (interval.low <= 0 or interval.step is not None):
        raise ConfigError(
            f"the range of {key} is {written}, but a logarithmic range needs bounds above 0 and has no step: write "
            "log(0.001, 1.0), or range(...)."
        )
    if interval.step is not None and (interval.step <= 0 or (interval.is_whole and not isinstance(interval.step, int))):
        raise ConfigError(f"the range of {key} is {written}, but its step must be above 0, and whole between integers.")
    if interval.is_too_fine:
        raise ConfigError(
            f"the range of {key} is {written}, but a range has at most {MOST_VALUES:,} values: give a larger step, or "
            "log(...)."
        )


Space: TypeAlias = Mapping[str, Range]
