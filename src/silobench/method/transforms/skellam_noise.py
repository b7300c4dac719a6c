"""Skellam noise of every party on its own message: differential privacy of parties without a trusted server."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Gt, Lt

from silobench.method.noise import Amount, bounded, least_multiplier, noise_problem
from silobench.method.types import TRANSFORMS, ConfigError, Context, Memory, Positive, Transform, Update, Vector
from silobench.privacy.mechanism import Mechanism, Sampling
from silobench.privacy.randomness import Randomness
from silobench.privacy.skellam import rho, skellam, tail

_FINE = 2.0**10  # the norm of a message has at least this many grid steps for each root of the number of entries
_FEWEST = 2  # parties of a round: one of them has its own noise only
_LARGEST = 2.0**20  # standard deviation of the noise of one party, in grid steps: probabilities stay exact


@TRANSFORMS.register
def skellam_noise(
    multiplier: Positive | None = None,
    epsilon: Positive | None = None,
    delta: Annotated[float, Gt(0), Lt(1)] | None = None,
    reproducible: bool = False,
) -> Transform:
    """Let every party add Skellam noise to its clipped message, of which a secure sum reveals only the total.

    The Skellam Mechanism for Differentially Private Federated Learning, Agarwal, Kairouz and Liu, NeurIPS 2021. Write
    ``clip(norm=1) | skellam_noise(multiplier=1) | secure_sum(...)``. A message is rounded towards zero to a grid, so it
    never gets longer, and noise is a whole number of grid steps. Sums of Skellam numbers are Skellam numbers: the total
    of all parties has the standard deviation `multiplier` times the clip's norm in each entry, and each party adds its
    share for the parties of the round. If some do not answer, the total has less noise. Every party knows its own share
    and can subtract it, so the ledger counts the noise of all parties that answer but one: of n, (n - 1)/n of the
    variance if all answer. The server is not trusted, but parties that tell it their noise leave only that of the rest.

    A round counts by zero-concentrated differential privacy, without the gain of drawing parties at random. `epsilon`,
    `delta` and `reproducible` are those of gaussian_noise; the multiplier is solved for the parties that are expected
    in a round.
    """
    noise = _SkellamNoise(Amount.checked("skellam_noise", multiplier, epsilon, delta, reproducible))
    return Transform(
        noise.encode,
        noise.decode,
        bound=noise.bound,
        release=noise.release,
        refuses=noise.refuses,
        calibrated=noise.calibrated if multiplier is None else None,
        equal_weights=True,
        exponent=noise.grid,
    )


@dataclass(frozen=True)
class _SkellamNoise:
    amount: Amount

    def grid(self, context: Context) -> int | None:
        """Return the exponent of the grid; None before the noise is solved."""
        return None if context.bound is None or self.amount.multiplier is None else self.exponent(context)

    def exponent(self, context: Context) -> int:
        """Return the exponent of the grid: a step is 2^-exponent."""
        assert context.bound is not None  # checked with the method
        fine = _FINE * math.sqrt(max(1, context.layout.size)) / context.bound
        most = _LARGEST * math.sqrt(max(1, len(context.cohort))) / (self.amount.multiplier_now * context.bound)
        return min(math.ceil(math.log2(fine)), math.floor(math.log2(most)))

    def variance(self, context: Context, parties: int) -> float:
        """Return the variance of the noise of some parties of a round, in squared grid steps."""
        assert context.bound is not None
        whole = (self.amount.multiplier_now * context.bound * 2.0 ** self.exponent(context)) ** 2
        return whole * parties / max(1, len(context.cohort))

    def encode(self, update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        assert context.bound is not None
        step, variance, numbers = 2.0 ** -self.exponent(context), self.variance(context, 1), Randomness.secret()
        if self.amount.reproducible:
            numbers = Randomness.seeded(context.seed, "noise of party", context.round, context.place, context.party)

        def noisy(part: Vector) -> Vector:
            noise = skellam(numbers, variance, part.numel()).astype(np.float64)
            return (part.double() / step).trunc_().add_(torch.from_numpy(noise).view_as(part)).mul_(step)

        return bounded(update, context.bound).map(noisy), memory

    def decode(self, update: Update, context: Context) -> Update:
        kind = torch.get_default_dtype()
        return replace(update.map(lambda part: part.to(kind)), weight=context.expected)

    def bound(self, context: Context) -> float | None:
        """Return the largest entry of a message: the secure sum that follows needs room for it."""
        if context.bound is None or self.amount.multiplier is None:
            return context.bound
        return context.bound + tail(self.variance(context, 1)) * 2.0 ** -self.exponent(context)

    def release(self, context: Context) -> Mechanism:
        assert context.bound is not None
        others = max(0, len(context.replied or context.cohort) - 1)  # a party knows its noise, and can subtract it
        length = context.bound * 2.0 ** self.exponent(context)
        return replace(self.amount.mechanism(context.parties), rho=rho(length, self.variance(context, others)))

    def refuses(self, method: Any) -> str | None:
        place = next(place for place, each in enumerate(method.transforms) if each.release == self.release)
        if not any(each.hides for each in method.transforms[place + 1 : place + 2]):
            return (
                "skellam_noise protects parties only where the server learns nothing but the sum: write secure_sum "
                "just after it, or use gaussian_noise with a trusted server."
            )
        return noise_problem(method, place)

    def calibrated(self, rounds: int, rate: float, sampling: Sampling, parties: int, cohort: int) -> Transform:
        from silobench.privacy.accountant import epsilon as epsilon_of  # its libraries take long to import

        amount = self.amount
        delta = amount.delta_of(parties)
        assert amount.epsilon is not None
        if cohort < _FEWEST:
            raise ConfigError(
                f"skellam_noise has epsilon={amount.epsilon:g}, but {cohort} party takes part in a round and knows its "
                f"noise: let at least {_FEWEST} take part."
            )

        def spent(multiplier: float) -> float:
            # The norm has at least _FINE grid steps: with more of them the round reveals less.
            release = Mechanism("party", delta, rho=rho(_FINE, (multiplier * _FINE) ** 2 * (cohort - 1) / cohort))
            return epsilon_of([(release, rounds)], delta)

        return skellam_noise(least_multiplier(spent, amount.epsilon), amount.epsilon, amount.delta, amount.reproducible)
