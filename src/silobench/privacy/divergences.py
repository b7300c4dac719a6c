"""Rényi divergences of one noisy release, by order: of all units, of Poisson samples, and of samples of a fixed size.

The formulas are those of dp-accounting, which the tests compare. Its loops over terms in Python take fifty
milliseconds for one kind of release, which is too long where every party has its own sampling rate.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.privacy.mechanism import Sampling

Curve: TypeAlias = NDArray[np.float64]  # Rényi divergence of a release by order
Orders: TypeAlias = tuple[float, ...]

ORDERS: Orders = (*(1 + tenth / 10 for tenth in range(1, 100)), *map(float, range(11, 64)), 128.0, 256.0, 512.0, 1024.0)
_ROUNDING = 1e-11  # of a sum of some thousand terms, whose logarithms have errors below 1e-12
_LARGEST_FIXED = 64  # higher orders of samples of a fixed size take long, and matter only for tiny epsilons
_PARTS = 1_000_000  # a rate of samples of a fixed size is rounded up to a multiple of its inverse
_TERMS = (64, 1000)  # of a series at a fractional order: most converge within the first number
_NEGLIGIBLE = 30.0  # the logarithm of how much smaller than the sum the last terms are


@lru_cache(maxsize=4096)
def divergences(
    noise: float, rate: float, orders: Orders = ORDERS, sampling: Sampling = "poisson", rho: float | None = None
) -> Curve:
    """Return the Rényi divergences of one release; its arguments are those of a `Mechanism`."""
    array = np.array(orders)
    if rho is not None:
        # Drawing units at random cannot make it larger. The bound for Skellam noise is known for whole orders from 2,
        # and divergences grow with the order.
        return np.asarray(rho * np.maximum(np.ceil(array), 2))
    if noise <= 0:
        return np.full(len(orders), np.inf)
    if rate == 1:
        return array / (2 * noise**2)
    if sampling != "fixed":
        return _poisson(noise, rate, array)
    # The bound for samples of a fixed size is about replacing one unit by another one, which changes the sum by twice
    # a contribution. It covers leaving one out, for which the release without any sampling is a bound as well.
    return np.minimum(_fixed(noise / 2, rate, array), array / (2 * noise**2))


def _poisson(noise: float, rate: float, orders: Curve) -> Curve:
    """Return the divergences of Poisson samples: Mironov, Talwar and Zhang (2019), section 3.3."""
    moments, is_integer = np.empty(len(orders)), orders == np.floor(orders)
    moments[is_integer] = _at_integers(noise, rate, tuple(orders[is_integer]))
    moments[~is_integer] = _between(noise, rate, orders[~is_integer])
    # Rounding could make a tiny divergence 0 or negative, and epsilon 0 with it.
    return np.asarray((np.maximum(moments, 0) + _ROUNDING) / (orders - 1))


def _at_integers(noise: float, rate: float, orders: Orders) -> Curve:
    if not orders:
        return np.zeros(0)
    coefficients, order, count = _binomials(orders)
    terms = coefficients + (order - count) * math.log1p(-rate) + count * math.log(rate)
    return np.asarray(np.logaddexp.reduce(terms + (count**2 - count) / (2 * noise**2), axis=1))


@lru_cache(maxsize=8)
def _binomials(orders: Orders) -> tuple[Curve, Curve, Curve]:
    """Return the logarithms of binomial coefficients by order and count, and both as a column and a line."""
    factorials = np.concatenate([[0.0], np.log(np.arange(1, max(orders) + 1)).cumsum()])
    order, count = np.array(orders)[:, None], np.arange(max(orders) + 1)[None, :]
    rest = factorials[np.maximum(order - count, 0).astype(int)]
    coefficients = factorials[order.astype(int)] - factorials[count.astype(int)] - rest
    return np.where(count <= order, coefficients, -np.inf), order, count


def _between(noise: float, rate: float, orders: Curve) -> Curve:
    """Return the logarithms of the moments at fractional orders; infinity where the series does not converge.

    The terms alternate in sign from some place on, and count with their absolute values: it is an upper bound.
    """
    moments, left = np.full(len(orders), np.inf), np.arange(len(orders))
    for count in _TERMS:
        if len(left):
            moments[left] = _series(noise, rate, orders[left], count)
            left = left[np.isinf(moments[left])]
    return moments


def _series(noise: float, rate: float, orders: Curve, count: int) -> Curve:
    from scipy import special

    order, place, scale = orders[:, None], np.arange(count)[None, :], 2 * noise**2
    split, rest = noise**2 * math.log(1 / rate - 1) + 0.5, order - place
    coefficients = special.gammaln(order + 1) - special.gammaln(place + 1) - special.gammaln(rest + 1)
    low = coefficients + place * math.log(rate) + rest * math.log1p(-rate) + (place**2 - place) / scale
    low = low + special.log_ndtr((split - place) / noise)
    high = coefficients + rest * math.log(rate) + place * math.log1p(-rate) + (rest**2 - rest) / scale
    high = high + special.log_ndtr((rest - split) / noise)
    totals = np.logaddexp.accumulate(np.logaddexp(low, high), axis=1)
    shrinks = (np.diff(low, axis=1) < 0) & (np.diff(high, axis=1) < 0)
    has_converged = shrinks & (np.maximum(low, high)[:, 1:] < totals[:, 1:] - _NEGLIGIBLE)
    last = has_converged.argmax(axis=1)
    sums = np.take_along_axis(totals, last[:, None] + 1, axis=1)[:, 0]
    return np.where(has_converged.any(axis=1), sums, np.inf)


def _fixed(noise: float, rate: float, orders: Curve) -> Curve:
    """Return the divergences of samples of a fixed size: Wang, Balle and Kasiviswanathan (2019), theorem 27."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant  # takes a second to import

    curve, is_known = np.full(len(orders), np.inf), orders <= _LARGEST_FIXED
    event = SampledWithoutReplacementDpEvent(_PARTS, math.ceil(rate * _PARTS), GaussianDpEvent(noise))
    with quiet(), np.errstate(all="ignore"):
        known = RdpAccountant(orders[is_known], NeighboringRelation.REPLACE_ONE).compose(event).rdp
    curve[is_known] = np.where(np.isnan(known), np.inf, known)
    return curve


@contextmanager
def quiet() -> Iterator[None]:
    """Silence dp-accounting's warnings, whose logger would else print all that silobench logs from then on."""
    logger, root, handler = logging.getLogger("absl"), logging.getLogger(), logging.NullHandler()
    level = logger.level
    logger.setLevel(logging.ERROR)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.setLevel(level)
