"""Accountants: the epsilon of a list of noisy releases, and the noise for a target epsilon.

Neighbours are two datasets of which one lacks the contribution of one unit (an example or a party). Releases compose by
their Rényi divergences, which the package dp-accounting calculates; privacy loss distributions give a tighter epsilon
for Gaussian noise, and take longer.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.errors import ConfigError
from silobench.privacy.mechanism import Mechanism, Sampling

Entry: TypeAlias = tuple[Mechanism, int]  # a release, and how often it was made
Curve: TypeAlias = NDArray[np.float64]  # Rényi divergence of a release by order

_LARGEST_FIXED = 64  # higher orders of batches of a fixed size take long, and matter only for tiny epsilons
_FEW_ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
_ROUNDING = 1e-11  # of a sum of some thousand terms, whose logarithms have errors below 1e-12
_TOLERANCE = 1e-4  # of the noise, relative
_SMALLEST, _LARGEST = 1e-2, 1e6  # noise that `noise_for` looks at
_PARTS = 1_000_000  # a rate of batches of a fixed size is rounded up to a multiple of its inverse


def epsilon(entries: Sequence[Entry], delta: float, orders: Sequence[float] | None = None) -> float:
    """Return the epsilon of all releases together, by Rényi divergences; infinity where a release has no noise.

    `orders` are those of the divergences, by default dp-accounting's; any choice gives a valid epsilon. Shuffled
    batches count like Poisson samples, because their epsilon is commonly stated so, but it is no guarantee.

    >>> round(epsilon([(Mechanism("example", 1e-5, noise=1.0, rate=0.01), 1000)], delta=1e-5), 4)
    2.1014
    """
    orders = _orders() if orders is None else tuple(orders)
    total = np.zeros(len(orders))
    for mechanism, count in entries:
        if count:
            total += count * _curve(mechanism.noise, mechanism.rate, orders, mechanism.sampling, mechanism.rho)
    return _converted(orders, total, delta)


def epsilon_pld(entries: Sequence[Entry], delta: float) -> float | None:
    """Return the epsilon of all releases by privacy loss distributions; None where they are not known.

    They are known for Gaussian noise on all units or on Poisson samples. The largest values take seconds.
    """
    if any(each.rho is not None or (each.sampling == "fixed" and each.rate < 1) for each, _ in entries):
        return None
    if any(not each.noise and count for each, count in entries):
        return math.inf
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld  # takes a second to import

    accountant = pld.PLDAccountant()
    with _quiet():
        for each, count in entries:
            gaussian = GaussianDpEvent(each.noise)
            accountant.compose(gaussian if each.rate == 1 else PoissonSampledDpEvent(each.rate, gaussian), count)
        return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=4096)
def noise_for(epsilon: float, delta: float, rate: float, steps: int, sampling: Sampling = "poisson") -> float:
    """Return the least noise, to four digits, for which this number of releases has at most this epsilon.

    >>> round(noise_for(2.0, 1e-5, rate=0.01, steps=1000), 2)
    1.02
    """
    if not (epsilon > 0 and 0 < delta < 1 and 0 < rate <= 1 and steps >= 0):
        raise ConfigError(
            f"epsilon={epsilon}, delta={delta}, rate={rate} and steps={steps} were given: epsilon must be positive, "
            "delta between 0 and 1, rate in (0, 1], and steps at least 0."
        )
    if steps == 0:
        return 0.0
    target = epsilon * (1 - _ROUNDING)  # so that no other order of calculation can give more than epsilon
    coarse = _FEW_ORDERS if sampling == "fixed" else tuple(order for order in _orders() if order.is_integer())
    quick = _quick if sampling != "fixed" else partial(_curve, sampling=sampling)

    def is_enough(noise: float) -> bool:
        return _converted(coarse, steps * quick(noise, rate, orders=coarse), delta) <= target

    noise = _least(is_enough, _SMALLEST, _LARGEST)
    if sampling == "fixed":
        return noise
    # Orders between two integers give a smaller epsilon. Only those next to the best integer can matter.
    curve = steps * _quick(noise, rate, coarse)
    best = min(coarse, key=lambda order: _converted([order], curve[[coarse.index(order)]], delta))
    fine = tuple(order for order in _orders() if abs(order - best) <= 1)

    def is_still_enough(noise: float) -> bool:
        return _converted(fine, steps * _curve(noise, rate, orders=fine), delta) <= target

    return noise if all(order.is_integer() for order in fine) else _least(is_still_enough, noise / 2, noise)


def _least(is_enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return a noise that is enough, at most a relative tolerance above the least one."""
    if not is_enough(high):
        raise ConfigError(f"no noise up to {high:g} is enough for this epsilon: give a larger epsilon, or fewer steps.")
    if is_enough(low):
        return low
    while high > low * (1 + _TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


@cache
def _orders() -> tuple[float, ...]:
    from dp_accounting.rdp import rdp_privacy_accountant  # takes a second to import

    return tuple(map(float, rdp_privacy_accountant.DEFAULT_RDP_ORDERS))


@lru_cache(maxsize=4096)
def _curve(
    noise: float, rate: float, orders: tuple[float, ...], sampling: Sampling = "poisson", rho: float | None = None
) -> Curve:
    """Return the Rényi divergences of one release."""
    array = np.array(orders)
    if rho is not None:
        return rho * array  # of zero-concentrated privacy; drawing the units at random cannot make it larger
    if noise <= 0:
        return np.full(len(orders), np.inf)
    if rate == 1:
        return array / (2 * noise**2)
    if sampling != "fixed":
        return _poisson(noise, rate, orders)
    # The bound for samples of a fixed size is about replacing one unit by another one, which changes the sum by twice
    # a contribution. It covers leaving one out, for which the release without any sampling is a bound as well.
    return np.minimum(_fixed(noise / 2, rate, orders), array / (2 * noise**2))


def _poisson(noise: float, rate: float, orders: tuple[float, ...]) -> Curve:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    with _quiet():
        curve = RdpAccountant(orders).compose(PoissonSampledDpEvent(rate, GaussianDpEvent(noise))).rdp
    return _rounded_up(curve, orders)


def _rounded_up(curve: Curve, orders: tuple[float, ...]) -> Curve:
    """Add what rounding may have taken away: a tiny divergence would become 0 or negative, and thus epsilon 0."""
    return np.asarray(np.maximum(curve, 0) + _ROUNDING / (np.array(orders) - 1))


def _fixed(noise: float, rate: float, orders: tuple[float, ...]) -> Curve:
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    chosen = [order for order in orders if order <= _LARGEST_FIXED]
    event = SampledWithoutReplacementDpEvent(_PARTS, math.ceil(rate * _PARTS), GaussianDpEvent(noise))
    curve = np.full(len(orders), np.inf)
    with _quiet(), np.errstate(all="ignore"):
        known = RdpAccountant(chosen, NeighboringRelation.REPLACE_ONE).compose(event).rdp
    curve[np.array(orders) <= _LARGEST_FIXED] = np.where(np.isnan(known), np.inf, known)
    return curve


def _quick(noise: float, rate: float, orders: tuple[float, ...]) -> Curve:
    """Return the divergences of a Poisson sample at integer orders: Mironov, Talwar and Zhang (2019), section 3.3."""
    if rate == 1:
        return np.array(orders) / (2 * noise**2)
    terms, order = _log_terms(orders)
    with np.errstate(invalid="ignore"):
        values = terms + (order - _counts(orders)) * math.log1p(-rate) + _counts(orders) * math.log(rate)
        values = values + (_counts(orders) ** 2 - _counts(orders)) / (2 * noise**2)
    values = np.where(_counts(orders) <= order, values, -np.inf)
    largest = values.max(axis=1, keepdims=True)
    total = largest[:, 0] + np.log(np.exp(values - largest).sum(axis=1))
    return _rounded_up(total / (order[:, 0] - 1), orders)


@lru_cache(maxsize=8)
def _counts(orders: tuple[float, ...]) -> Curve:
    return np.arange(max(orders) + 1)[None, :]


@lru_cache(maxsize=8)
def _log_terms(orders: tuple[float, ...]) -> tuple[Curve, Curve]:
    """Return the logarithms of the binomial coefficients of each order, one row each, and the orders as a column."""
    logs = np.concatenate([[0.0], np.log(np.arange(1, max(orders) + 1)).cumsum()])  # of factorials
    order = np.array(orders)[:, None]
    counts = _counts(orders)
    rest = np.maximum(order - counts, 0).astype(int)
    return logs[order.astype(int)] - logs[counts.astype(int)] - logs[rest], order


def _converted(orders: Sequence[float], curve: Curve, delta: float) -> float:
    """Return the epsilon of a curve of divergences: Canonne, Kamath and Steinke (2020), proposition 12.

    It is dp-accounting's `compute_epsilon`, for all orders at once, because the loop calls it for every party.
    """
    if not np.isfinite(curve).any():
        return math.inf
    order = np.array(orders)
    epsilon = curve + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)
    is_free = delta**2 + np.expm1(-curve) > 0  # the total variation is below delta already
    return max(0.0, float(np.where(is_free, 0.0, epsilon).min()))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence dp-accounting's warnings about orders that it leaves out: the others give a valid epsilon.

    Its logger would also print everything that silobench logs from then on, unless the root logger has a handler.
    """
    logger, root, handler = logging.getLogger("absl"), logging.getLogger(), logging.NullHandler()
    level = logger.level
    logger.setLevel(logging.ERROR)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.setLevel(level)
