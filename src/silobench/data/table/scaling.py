"""Scales of numeric columns: pooled statistics, statistics of each group, or differentially private ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scaling: TypeAlias = Literal["standard", "group", "private", "none"]
Numbers: TypeAlias = NDArray[np.float64]

STEPS = 4  # of a private scale: a histogram, a count, a sum, and a sum of squares
_EXPONENTS = 128  # powers of two on each side of zero: magnitudes from 2^-64 to 2^64
_FALSE_BINS = 1e-3  # probability that some empty bin of a histogram looks occupied
_BINS = 2 * _EXPONENTS + 1


class NoBoundsError(Exception):
    """A column has too few rows for bounds that are not noise."""


@dataclass(frozen=True)
class Scale:
    """How a number is filled and scaled: a missing one is `fill`, and (x - shift) / scale is the feature."""

    fill: float
    shift: float = 0.0
    scale: float = 1.0

    @property
    def is_finite(self) -> bool:
        """Whether the statistics are numbers: those of values such as 1e300 are not, because their squares overflow."""
        return math.isfinite(self.fill) and math.isfinite(self.shift) and math.isfinite(self.scale)

    def apply(self, values: Numbers) -> NDArray[np.float32]:
        """Return the feature of each value."""
        filled = np.where(np.isnan(values), self.fill, values)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow gives infinity, which `Dataset` refuses
            return ((filled - self.shift) / self.scale).astype(np.float32)


def nonzero_scale(mean: Any, deviation: Any) -> Any:
    """Return the deviation of each column, but 1 for a constant column, whose deviation is a rounding error."""
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 1)


def pooled_scale(values: Numbers, is_only_feature: bool, standardise: bool = True) -> Scale:
    """Return the scale by the mean and deviation of the training values.

    Sums run from the first row to the last, as NumPy adds the rows of a matrix, so that one column at a time has the
    bits of the whole matrix. A matrix of one column is added in pairs.
    """
    known = ~np.isnan(values)
    with np.errstate(over="ignore", invalid="ignore"):  # `Scale.is_finite` tells
        fill = _total(np.where(known, values, 0), is_only_feature) / max(int(known.sum()), 1)
        if not standardise:
            return Scale(float(fill))
        filled = np.where(known, values, fill)
        mean = _total(filled, is_only_feature) / len(filled)
        squares = filled - mean
        squares *= squares
        deviation = np.sqrt(_total(squares, is_only_feature) / len(filled))
    return Scale(float(fill), float(mean), float(nonzero_scale(mean, deviation)))


def _total(values: Numbers, in_pairs: bool) -> np.float64:
    total: np.float64 = values.sum() if in_pairs else values.cumsum()[-1]
    return total


def group_scales(values: Numbers, groups: NDArray[np.str_], pooled: Scale) -> Mapping[str, Scale]:
    """Return each group's scale by its own training values; a group without values has the pooled scale."""
    scales = {}
    for group in np.unique(groups).tolist():
        part = values[groups == group]
        scales[group] = pooled if np.isnan(part).all() else pooled_scale(part, is_only_feature=False)
    return scales


def apply_scales(
    values: Numbers, pooled: Scale, by_group: Mapping[str, Scale], groups: NDArray[np.str_] | None
) -> NDArray[np.float32]:
    """Return the feature of each value by the scale of its group; an unknown group has the pooled scale."""
    result = pooled.apply(values)
    if groups is not None:
        for group, scale in by_group.items():
            rows = np.flatnonzero(groups == group)
            result[rows] = scale.apply(values[rows])
    return result


def private_scale(values: Numbers, epsilon: float, rng: np.random.Generator) -> Scale:
    """Return a scale from statistics with Laplace noise; all together are `epsilon`-differentially private.

    Neighbouring tables differ by one row, added or removed. Each of four steps uses a quarter of epsilon: a histogram
    over powers of two gives bounds, and a count, a sum and a sum of squares are taken of the values clipped to them.
    """
    known, share = values[~np.isnan(values)], epsilon / STEPS
    low, high = private_bounds(known, share, rng)
    centre, radius = (low + high) / 2, (high - low) / 2
    centred = np.clip(known, low, high) - centre
    count = max(1.0, len(known) + rng.laplace(0, 1 / share))
    mean = (centred.sum() + rng.laplace(0, radius / share)) / count
    square = (np.dot(centred, centred) + rng.laplace(0, radius**2 / share)) / count
    mean = min(max(mean, -radius), radius)
    variance = min(square - mean**2, radius**2)
    deviation = math.sqrt(variance) if variance > 0 else radius or 1.0
    shift = float(centre + mean)
    return Scale(shift, shift, float(nonzero_scale(np.float64(shift), np.float64(deviation))))


def private_bounds(known: Numbers, share: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return bounds of most values: edges of the outermost powers of two whose noisy count is not noise.

    A row is in one bin, so a bin's count changes by at most 1, and the noise has the scale 1 / share. If no bin is
    larger than noise explains, `NoBoundsError` is raised.
    """
    counts = np.bincount(_bins(known), minlength=_BINS)
    noisy = counts + rng.laplace(0, 1 / share, len(counts))
    occupied = np.flatnonzero(noisy > _threshold(share))
    if not len(occupied):
        raise NoBoundsError
    return _edges(int(occupied[0]))[0], _edges(int(occupied[-1]))[1]


def _threshold(share: float) -> float:
    """Return the count that the noise of an empty bin hardly ever exceeds."""
    return math.log(_BINS / (2 * _FALSE_BINS)) / share


def private_rows(epsilon: float) -> float:
    """Return how many rows a column needs for private bounds, whatever the noise, if a quarter of them share a bin.

    A bin passes the threshold, even if the noise takes as much away from it as it hardly ever does.
    """
    return 4 * 2 * _threshold(epsilon / STEPS)


def _bins(values: Numbers) -> NDArray[np.int64]:
    """Return the bin of each value: the middle one for 0, others by sign and power of two."""
    exponents = np.clip(np.frexp(values)[1], 1 - _EXPONENTS // 2, _EXPONENTS // 2) + _EXPONENTS // 2  # 1 to 128
    return np.where(values == 0, _EXPONENTS, _EXPONENTS + np.sign(values) * exponents).astype(np.int64)


def _edges(place: int) -> tuple[float, float]:
    """Return the bounds of a bin: [2^(e-1), 2^e) for a positive value, mirrored for a negative one."""
    exponent = abs(place - _EXPONENTS)
    if not exponent:
        return 0.0, 0.0
    high = math.ldexp(1.0, exponent - _EXPONENTS // 2)
    return (high / 2, high) if place > _EXPONENTS else (-high, -high / 2)
