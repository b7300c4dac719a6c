"""Student's t distribution: density, tail and quantile, without the time that loading scipy takes.

With tan(a) = t / sqrt(dof), the mass from 0 to t and the mass above t are sin(a) cos(a)^dof times a series of positive
terms each. The first series is used for small t and the second for large t, so that no digits cancel.
"""

import math
from collections.abc import Callable
from functools import cache

_HUGE = 1e100  # t: the mass above is 0 in double precision, and the square does not overflow
_SMALL = 1.0  # t: below it less than 0.35 of the mass is between 0 and t


def density(dof: float, t: float) -> float:
    """Return the density at `t`.

    >>> round(density(1, 0.0), 9), round(density(2, 1.0), 9)
    (0.318309886, 0.19245009)
    """
    if abs(t) > _HUGE:
        return 0.0
    return (
        math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2))
        / math.sqrt(dof * math.pi)
        * math.pow(dof / (dof + t * t), (dof + 1) / 2)
    )


def upper_tail(dof: float, t: float) -> float:
    """Return the mass above `t`.

    >>> upper_tail(2, 0.0), round(upper_tail(2, 4.30265273), 9)
    (0.5, 0.025)
    """
    if math.isnan(t):
        return t
    if t < 0:
        return 1.0 - upper_tail(dof, -t)
    if t > _HUGE:
        return 0.0
    sine, cosine = t * t / (dof + t * t), dof / (dof + t * t)  # squared
    scale = (
        math.exp(math.lgamma((dof + 1) / 2) - math.lgamma(dof / 2))
        * math.sqrt(sine / math.pi)
        * math.pow(cosine, dof / 2)
    )
    if t < _SMALL:
        return 0.5 - scale * _series(lambda k: (dof + 2 * k + 1) / (2 * k + 3) * sine)
    return scale / dof * _series(lambda k: (dof + 2 * k + 1) / (dof + 2 * k + 2) * cosine)


def _series(ratio: Callable[[int], float]) -> float:
    """Return the sum of positive terms: the first is 1, and `ratio` states each next one over the one before."""
    total, term, place = 1.0, 1.0, 0
    while total + term != total:
        term *= ratio(place)
        total += term
        place += 1
    return total


@cache
def quantile(dof: float, mass: float) -> float:
    """Return the point with this mass below it, for a mass above a half.

    >>> round(quantile(2, 0.975), 9)
    4.30265273
    """
    low, high = 0.0, 1.0
    while upper_tail(dof, high) > 1 - mass:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if upper_tail(dof, middle) > 1 - mass else (low, middle)
    return high
