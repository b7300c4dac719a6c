"""Accountants: the epsilon of a list of noisy releases, and the noise for a target epsilon.

Neighbours are two datasets of which one lacks the contribution of one unit (an example or a party). Releases compose by
their Rényi divergences; privacy loss distributions give a tighter epsilon for Gaussian noise, and take longer.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from silobench.errors import ConfigError
from silobench.privacy.divergences import ORDERS, Curve, Orders, divergences, quiet
from silobench.privacy.mechanism import Mechanism, Sampling

Entry: TypeAlias = tuple[Mechanism, int]  # a release, and how often it was made

_FEW_ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
_ORDERS_OF_FIXED = (*ORDERS, _FEW_ORDERS[-1])  # `noise_for` may have found the noise at the last one
_TOLERANCE = 1e-4  # of the noise, relative
_ROUNDING = 1e-11  # of an epsilon, relative
_LARGEST_WIDTH = 3.5  # of privacy loss distributions; one of that width takes about two seconds
_SMALLEST, _LARGEST = 1e-2, 1e6  # noise that `noise_for` looks at
_USELESS = 2.0  # times the noise that is enough without any sampling


def epsilon(entries: Sequence[Entry], delta: float, orders: Orders = ORDERS) -> float:
    """Return the epsilon of all releases together, by Rényi divergences; infinity where a release has no noise.

    `orders` are those of the divergences, by default dp-accounting's, and 64 for samples of a fixed size; any choice
    gives a valid epsilon. Shuffled batches count like Poisson samples, because their epsilon is commonly stated so, but
    it is no guarantee.

    >>> round(epsilon([(Mechanism("example", 1e-5, noise=1.0, rate=0.01), 1000)], delta=1e-5), 4)
    2.1014
    """
    if orders == ORDERS and any(each.sampling == "fixed" for each, _ in entries):
        orders = _ORDERS_OF_FIXED
    total = np.zeros(len(orders))
    for each, count in entries:
        if count:
            total += count * divergences(each.noise, each.rate, orders, each.sampling, each.rho)
    return _converted(orders, total, delta)


def epsilon_pld(entries: Sequence[Entry], delta: float) -> float | None:
    """Return the epsilon of all releases by privacy loss distributions; None where they are not known or take long.

    They are known for Gaussian noise on all units or on Poisson samples. They take long for noise below 0.3, or for
    many releases that differ: their distributions are wide, and epsilon is large. Results are kept for the process.
    """
    if any(each.rho is not None or (each.sampling == "fixed" and each.rate < 1) for each, _ in entries):
        return None
    if any(not each.noise and count for each, count in entries):
        return math.inf
    if sum(map(_width, entries)) > _LARGEST_WIDTH:
        return None
    return _epsilon_pld(tuple((each.noise, each.rate, count) for each, count in entries), delta)


def _width(entry: Entry) -> float:
    """Return the width of the privacy loss distribution of an entry, in standard deviations of a release with noise 1.

    Releases of all units are one release with less noise; those of samples are discretised one by one and then added.
    """
    mechanism, count = entry
    return (math.sqrt(count) if mechanism.rate == 1 else 1.0) / mechanism.noise if count else 0.0


@lru_cache(maxsize=1024)
def _epsilon_pld(releases: tuple[tuple[float, float, int], ...], delta: float) -> float:
    """Return the epsilon by privacy loss distributions of releases (noise, rate, count)."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld  # takes a second to import

    accountant = pld.PLDAccountant()
    with quiet():
        for noise, rate, count in releases:
            gaussian = GaussianDpEvent(noise)
            accountant.compose(gaussian if rate == 1 else PoissonSampledDpEvent(rate, gaussian), count)
        return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=4096)
def noise_for(epsilon: float, delta: float, rate: float, steps: int, sampling: Sampling = "poisson") -> float:
    """Return the least noise, to four digits, for which this number of releases has at most this epsilon.

    For samples of a fixed size it looks at eleven orders up to 64. A tiny epsilon needs higher ones: where these orders
    ask for more than twice the noise that is enough without any sampling, it returns the latter.

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

    def is_enough(noise: float, rate: float = rate, orders: Orders = ORDERS) -> bool:
        return _converted(orders, steps * divergences(noise, rate, orders, sampling), delta) <= target

    if sampling != "fixed":
        noise = _least(is_enough)
    else:
        noise = _least(lambda noise: is_enough(noise, orders=_FEW_ORDERS))  # all orders take long
        unsampled = _least(lambda noise: is_enough(noise, rate=1.0))
        noise = unsampled if noise > _USELESS * unsampled else noise
    if math.isinf(noise):
        raise ConfigError(f"no noise is enough for epsilon={epsilon:g}: give a larger epsilon, or fewer steps.")
    return noise


def _least(is_enough: Callable[[float], bool]) -> float:
    """Return a noise that is enough, at most a relative tolerance above the least one; infinity if none is."""
    low, high = _SMALLEST, _LARGEST
    if is_enough(low):
        return low
    if not is_enough(high):
        return math.inf
    while high > low * (1 + _TOLERANCE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _converted(orders: Orders, curve: Curve, delta: float) -> float:
    """Return the epsilon of a curve of divergences: Canonne, Kamath and Steinke (2020), proposition 12.

    It is dp-accounting's `compute_epsilon`, for all orders at once, because the loop calls it for every party.
    """
    order = np.array(orders)
    epsilons = curve + np.log1p(-1 / order) - np.log(delta * order) / (order - 1)
    is_free = delta**2 + np.expm1(-curve) > 0  # the total variation is below delta already
    return max(0.0, float(np.where(is_free, 0.0, epsilons).min()))
