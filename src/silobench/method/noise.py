"""What the transforms with noise have in common: how much noise there is, and how long a message can be."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from silobench.method.types import ConfigError, Context, Layout, Transform, Update, placed
from silobench.privacy.mechanism import Mechanism
from silobench.spec.registry import part_name

_DELTA = 1e-5  # the largest delta that is stated for parties unless a user gives one


@dataclass(frozen=True)
class Amount:
    """How much noise a transform adds, and what is stated about it."""

    multiplier: float | None  # standard deviation over the longest message; None before it is solved
    epsilon: float | None  # the target, or the budget where the multiplier was given
    delta: float | None
    reproducible: bool

    @classmethod
    def checked(
        cls, name: str, multiplier: float | None, epsilon: float | None, delta: float | None, reproducible: bool
    ) -> "Amount":
        """Return the amount that a user asks for; raise `ConfigError` for none."""
        if multiplier is None and epsilon is None:
            raise ConfigError(
                f"{name} needs the size of its noise: give multiplier, or epsilon to have it solved for all rounds."
            )
        return cls(multiplier, epsilon, delta, reproducible)

    @property
    def multiplier_now(self) -> float:
        """The multiplier, after it was solved."""
        if self.multiplier is None:
            raise ConfigError("noise for a target epsilon was not solved for the rounds of a run: give multiplier.")
        return self.multiplier

    def delta_of(self, parties: int) -> float:
        """Return the delta of the guarantee."""
        return min(_DELTA, math.pow(parties, -1.1)) if self.delta is None else self.delta

    def mechanism(self, parties: int) -> Mechanism:
        """Return the release that a round with this noise is, if the noise is Gaussian and all parties take part."""
        return Mechanism(
            "party",
            self.delta_of(parties),
            self.multiplier or 0.0,
            reproducible=self.reproducible,
            budget=self.epsilon,
        )


def bounded(update: Update, bound: float) -> Update:
    """Return a message of weight 1 whose vectors are at most `bound` long; one that is not finite becomes zero.

    A clip before it has made the message short enough: this is about numbers that are not finite, and about rounding.
    """
    need_vectors(update)
    equal = replace(update, total=update.mean(), weight=1.0)
    length = math.sqrt(sum(float(part.double().square().sum()) for part in equal.vectors().values()))
    if not math.isfinite(length):
        return equal.map(torch.zeros_like)
    return equal.map(lambda part: part * (bound / length)) if length > bound else equal


def need_vectors(update: Update) -> None:
    """Raise `ConfigError` for a message with a part that a clip does not bound."""
    for name, part in {**update.total, **update.sums}.items():
        if not part.dim() or not part.is_floating_point():
            raise ConfigError(
                f"the algorithm sends '{name}', which is not a vector, so clip does not bound it and noise does not "
                "hide it: use an algorithm that sends vectors only, such as fedavg or scaffold."
            )


def noise_problem(method: Any, place: int, needs_scale: bool = False) -> str | None:
    """Return why noise of the transform at this place would not protect parties in this method, or None.

    With `needs_scale`, messages must arrive as long as they were sent.
    """
    chain = method.transforms
    name = part_name(chain[place], "transform")
    if not method.aggregate.adds:
        return f"{name} is for the sum of all messages: use aggregate = mean."
    if placed(chain, _context(None))[place].bound is None:
        return (
            f"{name} needs to know how long a message can be, but no clip comes before it, or a transform between them "
            "makes messages longer: write clip(norm=1) just before it."
        )
    longer = [each for each in chain[place + 1 :] if _lengthens(each)] + [each for each in chain if each.scales]
    if longer and (needs_scale or not longer[0].scales):
        return (
            f"{part_name(longer[0], 'transform')} makes messages longer than {name} assumes: leave it out, or write "
            "scale=false or feedback=false in it where it has these."
        )
    return None


def _lengthens(transform: Transform) -> bool:
    bound = transform.bound(_context(1.0))
    return not transform.hides and (bound is None or bound > 1)


def _context(bound: float | None) -> Context:
    return Context(0, 0, -1, Layout((), (), 0), {}, bound=bound)


def least_multiplier(spent: Callable[[float], float], epsilon: float) -> float:
    """Return a multiplier, at most 0.01% above the least one, at which a run spends at most epsilon."""
    low = high = 2.0**-10
    while spent(high) > epsilon:
        low, high = high, 2 * high
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        if spent(middle) > epsilon:
            low = middle
        else:
            high = middle
    return high
