"""`Ring`: real numbers as integers modulo 2^32 or 2^64, so that sums under masks are exact and cannot overflow."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.errors import ConfigError, RunError

_FINEST = 1000  # so that 2^exponent is a float64


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^bits that stand for multiples of 2^-exponent; the upper half is negative.

    The scale is a power of two, so that a number on a coarser grid of this kind is encoded without rounding.

    >>> ring = Ring.of(limit=1.0, count=3, bits=32)
    >>> ring.exponent
    29
    >>> ring.decode(ring.encode(np.array([0.5])) + ring.encode(np.array([-0.75]))).tolist()
    [-0.25]
    """

    bits: int
    exponent: int
    limit: float  # the largest magnitude of a value that is encoded

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise ConfigError(f"a ring has {self.bits} bits, but 32 or 64 are needed: choose one of them.")

    @classmethod
    def of(cls, limit: float, count: int, bits: int) -> "Ring":
        """Return the ring with the finest scale for which `count` values of magnitude up to `limit` cannot overflow."""
        if not (0 < limit < float("inf") and count >= 1):
            raise ConfigError(
                f"a secure sum of {count} values up to {limit} is not possible: it needs at least one value and a"
                " positive, finite range."
            )
        largest = (2 ** (bits - 1) - 1) // count  # what one value may be as an integer
        if largest < 1:
            raise ConfigError(f"{count} values do not fit into a secure sum of {bits} bits: choose 64 bits.")
        exponent = min(bits - _magnitude(limit), _FINEST)  # too fine; now the first one that is not
        while round(_scaled(limit, exponent)) > largest:
            exponent -= 1
        return cls(bits, exponent, limit)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of encoded values."""
        return np.dtype(f"uint{self.bits}")

    @property
    def step(self) -> float:
        """The distance of neighbouring values; encoding is wrong by at most half of it."""
        return 2.0**-self.exponent

    def encode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values as integers, rounded to the nearest; an error if one of them is beyond the limit."""
        values = np.asarray(values, np.float64)
        if values.size and not (values.min() >= -self.limit and values.max() <= self.limit):  # false for NaN too
            outside = values[~(np.abs(values) <= self.limit)].flat[0]
            raise RunError(
                f"a value of an update is {outside:.6g}, but the secure sum is set up for magnitudes up to"
                f" {self.limit:.6g}: clip updates before secure_sum, or raise its range.",
                "",
            )
        scaled = values * 2.0**self.exponent
        return np.rint(scaled, out=scaled).astype(f"int{self.bits}").view(self.dtype)

    def decode(self, integers: NDArray[Any]) -> NDArray[np.float64]:
        """Return integers as values, as near as float64 allows."""
        return integers.view(f"int{self.bits}").astype(np.float64) * self.step


def _magnitude(limit: float) -> int:
    """Return the largest e with 2^e <= limit."""
    return int(np.frexp(limit)[1]) - 1


def _scaled(limit: float, exponent: int) -> Fraction:
    return Fraction(limit) * Fraction(2) ** exponent
