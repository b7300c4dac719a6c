"""Marvell: noise on gradients that makes the two classes look most alike for its power (Li et al., ICLR 2022).

Let the gradients of class 0 and 1 be normal with means m0, m1 and variances u, v in each of d directions. Noise of
class c has the variance along_c in the direction of m1 - m0, and across_c in each of the other d - 1 directions. With
a0 = u + along_0, a1 = v + along_1, b0 = u + across_0, b1 = v + across_1 and D = ‖m1 - m0‖², the two divergences
between the noisy classes sum to

    KL(0‖1) + KL(1‖0) = ½ [ (a1 + D)/a0 + (a0 + D)/a1 + (d - 1)(b1/b0 + b0/b1) - 2d ].

Marvell minimises it where the mean power p (along_1 + (d - 1) across_1) + (1 - p)(along_0 + (d - 1) across_0) is at
most P, for the share p of class 1. This is a geometric program: in logarithms of a0, a1, b0, b1 it is convex.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from silobench.method.types import Positive
from silobench.vertical.defences.defence import DEFENCES, Defence, normal

_FLOOR = 1e-9  # the least variance of a class, relative to D: a class of one row has none
_GOLDEN = (math.sqrt(5) - 1) / 2
# Steps of a golden-section search. They narrow an interval to 1.4e-6 of it, so a smooth minimum is exact to 1e-11.
_STEPS = 28


@dataclass(frozen=True)
class Gradients:
    """The classes' distributions: variances `u` and `v`, squared distance of means, dimensions, share of class 1."""

    u: float
    v: float
    gap: float
    dimensions: int
    share: float

    def divergence(self, noise: "Variances") -> float:
        """Return the sum of both KL divergences between the noisy classes."""
        a0, a1 = self.u + noise.along_0, self.v + noise.along_1
        b0, b1 = self.u + noise.across_0, self.v + noise.across_1
        others = (self.dimensions - 1) * (b1 / b0 + b0 / b1) if self.dimensions > 1 else 0.0
        return ((a1 + self.gap) / a0 + (a0 + self.gap) / a1 + others) / 2 - self.dimensions

    def power(self, noise: "Variances") -> float:
        """Return the mean squared length of the noise over rows of both classes."""
        zero = noise.along_0 + (self.dimensions - 1) * noise.across_0
        one = noise.along_1 + (self.dimensions - 1) * noise.across_1
        return (1 - self.share) * zero + self.share * one


@dataclass(frozen=True)
class Variances:
    """Variances of the noise of each class: along the difference of means, and across it in each other direction."""

    along_0: float
    across_0: float
    along_1: float
    across_1: float


@DEFENCES.register
def marvell(power: Positive = 4.0) -> Defence:
    """Add noise to gradients that minimises the KL divergences between the classes, for two classes.

    The mean squared length of the noise is `power` times the squared distance of the classes' mean gradients in the
    batch. The classes are taken as normal, with one variance each. From Li et al., ICLR 2022. The noise has mean 0.
    A batch with rows of one class only is sent as it is.
    """

    def gradients(values: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
        is_one = labels == 1
        zeros, ones = values[~is_one].double(), values[is_one].double()
        if not len(zeros) or not len(ones):
            return values
        difference = ones.mean(0) - zeros.mean(0)
        gap = float(difference.square().sum())
        if not gap or not math.isfinite(gap):
            return values
        u, v = (max(_FLOOR * gap, float(rows.var(0, correction=0).mean())) for rows in (zeros, ones))
        noise = least_divergence(Gradients(u, v, gap, values.shape[1], len(ones) / len(values)), power * gap)
        return values + _drawn(noise, is_one, difference / math.sqrt(gap), rng).to(values.dtype)

    return Defence(gradients=gradients, refuses=_refusal)


def _refusal(classes: int) -> str | None:
    if classes == 2:
        return None
    labels = f"{classes} classes" if classes else "a numeric target"
    return f"marvell is defined for two classes, but the dataset has {labels}: choose the defence noise or max-norm."


def _drawn(noise: Variances, is_one: Tensor, unit: Tensor, rng: np.random.Generator) -> Tensor:
    """Return noise for rows of both classes, [n, d]; `unit` is the direction of the difference of means."""
    along = torch.where(is_one, noise.along_1, noise.along_0).double().sqrt()[:, None]
    across = torch.where(is_one, noise.across_1, noise.across_0).double().sqrt()[:, None]
    numbers = normal(unit.expand(len(is_one), -1), rng)
    parallel = (numbers @ unit)[:, None] * unit
    return along * parallel + across * (numbers - parallel)


# --- the best noise -----------------------------------------------------------------------------------


def least_divergence(classes: Gradients, power: float) -> Variances:
    """Return the noise of at most this power with the smallest divergence between the classes.

    Across the difference, only the class with the smaller variance needs noise, at most as much as makes both equal.
    The rest of the power is along the difference, and is all used: scaling a0 and a1 up lowers the divergence. So two
    numbers remain. In each of them, the divergence falls to one minimum and rises after it.
    """
    low, high = sorted((classes.u, classes.v))
    share = classes.share if classes.v < classes.u else 1 - classes.share  # of the class with the smaller variance
    cost = share * (classes.dimensions - 1)
    high = min(high, low + power / cost) if cost else low

    def noise(logarithm: float) -> Variances:
        across = min(max(0.0, math.exp(logarithm) - low), high - low)
        rest = max(0.0, power - cost * across)
        across_0, across_1 = (0.0, across) if classes.v < classes.u else (across, 0.0)
        return _along(classes, rest, across_0, across_1)

    if high <= low:
        return noise(math.log(low))
    return noise(_argmin(lambda place: classes.divergence(noise(place)), math.log(low), math.log(high)))


def _along(classes: Gradients, power: float, across_0: float, across_1: float) -> Variances:
    """Return the best noise along the difference for this power, beside that across it."""
    u, v, gap = classes.u, classes.v, classes.gap
    most_0, most_1 = power / (1 - classes.share), power / classes.share

    def divergence(one: float) -> float:
        """Return the part of the divergence along the difference, with this share of the power on class 1."""
        a0, a1 = u + most_0 * (1 - one), v + most_1 * one
        return (a1 + gap) / a0 + (a0 + gap) / a1

    one = _argmin(divergence, 0.0, 1.0) if power else 0.0
    return Variances(most_0 * (1 - one), across_0, most_1 * one, across_1)


def _argmin(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one minimum is smallest, by golden section; also at an end of the interval."""
    ends = low, high
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    f_left, f_right = function(left), function(right)
    for _ in range(_STEPS):
        if f_left <= f_right:
            high, right, f_right = right, left, f_left
            left = high - _GOLDEN * (high - low)
            f_left = function(left)
        else:
            low, left, f_left = left, right, f_right
            right = low + _GOLDEN * (high - low)
            f_right = function(right)
    return min((*ends, (low + high) / 2), key=function)
