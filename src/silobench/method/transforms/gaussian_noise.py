"""Gaussian noise of the server on the sum of all messages: differential privacy of parties."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Gt, Lt

from silobench.method.noise import Amount, bounded, noise_problem
from silobench.method.types import TRANSFORMS, Context, Memory, NonNegative, Positive, Transform, Update
from silobench.privacy.mechanism import Mechanism, Sampling
from silobench.privacy.randomness import Randomness


@TRANSFORMS.register
def gaussian_noise(
    multiplier: NonNegative | None = None,
    epsilon: Positive | None = None,
    delta: Annotated[float, Gt(0), Lt(1)] | None = None,
    reproducible: bool = False,
) -> Transform:
    """Add Gaussian noise to the sum of the parties' clipped messages, at the server, before it uses the sum.

    Learning Differentially Private Recurrent Language Models, McMahan et al., ICLR 2018. A clip comes before it, every
    party counts the same, and the sum is divided by the number of parties that is expected in a round, so that nobody
    can tell from the model whether a party took part. The standard deviation of each entry is `multiplier` times the
    clip's norm. All vectors get noise, also control variates and BatchNorm statistics. The server sees messages
    without noise and is trusted: use skellam_noise with secure_sum if it is not.

    Give `epsilon` alone to have the multiplier solved for all rounds of the run; with both, the run ends before it
    spends more than epsilon. `delta` is 1e-5 unless given, or 1 / parties^1.1 where that is less. The noise comes from
    the operating system; with `reproducible` it follows from the seed, and protects nobody from those who know it.
    A multiplier of 0 changes nothing.
    """
    noise = _GaussianNoise(Amount.checked("gaussian_noise", multiplier, epsilon, delta, reproducible))
    if multiplier == 0:
        return Transform(lambda update, memory, context: (update, memory), release=noise.release)
    return Transform(
        noise.encode,
        noise.decode,
        release=noise.release,
        refuses=noise.refuses,
        calibrated=noise.calibrated if multiplier is None else None,
        equal_weights=True,
        decodes_nothing=True,
    )


@dataclass(frozen=True)
class _GaussianNoise:
    amount: Amount

    def encode(self, update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        assert context.bound is not None  # checked with the method
        return bounded(update, context.bound), memory

    def decode(self, update: Update, context: Context) -> Update:
        assert context.bound is not None
        deviation = self.amount.multiplier_now * context.bound
        numbers = Randomness.secret()
        if self.amount.reproducible:
            numbers = Randomness.seeded(context.seed, "noise on parties", context.round, context.place)
        noisy = update.map(lambda part: part + numbers.normal(part.numel(), deviation).view_as(part).to(part.dtype))
        return replace(noisy, weight=context.expected, codecs={})

    def release(self, context: Context) -> Mechanism:
        return self.amount.mechanism(context.parties)

    def refuses(self, method: Any) -> str | None:
        place = next(place for place, each in enumerate(method.transforms) if each.release == self.release)
        return noise_problem(method, place, needs_scale=True)

    def calibrated(self, rounds: int, rate: float, sampling: Sampling, parties: int, cohort: int) -> Transform:
        from silobench.privacy.accountant import noise_for  # its libraries take long to import

        amount = self.amount
        assert amount.epsilon is not None
        solved = noise_for(amount.epsilon, amount.delta_of(parties), rate, rounds, sampling)
        return gaussian_noise(solved, amount.epsilon, amount.delta, amount.reproducible)
