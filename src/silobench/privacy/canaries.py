"""`Canaries`: gradients that join the rows of a party by a coin, so that an audit can see how much of them leaks."""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from silobench.privacy.randomness import Randomness
from silobench.rng import stream


@dataclass(frozen=True)
class Canaries:
    """Further rows of one party, without features: the gradient of a canary is not 0 at one parameter only.

    All canaries are sampled like rows. The gradient of one that did not join is 0. Row numbers from `first` on are
    canaries, in the order of `places`.
    """

    party: int
    first: int  # above the row numbers of the dataset
    places: Tensor  # [count] int64, the parameter of each canary; no two canaries share one
    joined: Tensor  # [count] of booleans: the coins
    length: float  # of a gradient before it is clipped
    evidence: Tensor = field(default_factory=lambda: torch.zeros(0))  # [count] float64, that it joined: see `watch`
    others: Tensor = field(default_factory=lambda: torch.zeros(0))  # [count], gradient of true rows in this step

    @classmethod
    def planted(cls, seed: int, party: int, first: int, parameters: int, count: int, length: float) -> "Canaries":
        """Draw parameters and coins. Both follow from the seed, but nothing that guesses the coins may use it."""
        places = stream(seed, "canaries", party=party).choice(parameters, count, replace=False)
        coins = Randomness.seeded(seed, "canaries", party).chosen(0.5, count)
        return cls(party, first, torch.from_numpy(places), torch.from_numpy(coins), length)

    def watched(self, evidence: Tensor | None) -> "Canaries":
        """Return the canaries of a training, with the evidence from before it; None for none."""
        count = len(self.places)
        evidence = torch.zeros(count, dtype=torch.float64) if evidence is None else evidence.clone()
        return replace(self, evidence=evidence, others=torch.zeros(count))

    @property
    def rows(self) -> Tensor:
        """The row numbers of all canaries."""
        return torch.arange(self.first, self.first + len(self.places))

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the true rows and the canaries among some rows."""
        return rows[rows < self.first], rows[rows >= self.first]

    def add(self, grad: Tensor, rows: Tensor, scale: float = 1.0) -> None:
        """Add the gradients of these canaries, times `scale`, to that of true rows, which is in `grad`."""
        drawn = rows - self.first
        self.others.copy_(self._at_places(grad))
        places = self.places[drawn[self.joined[drawn]]].to(grad.device)
        grad[places] += self.length * scale

    def watch(self, grad: Tensor, clip: float, noise: float, rate: float) -> None:
        """Add the evidence of a step, which an observer of its noisy gradient has.

        The observer knows the true rows of the step, and subtracts their gradient. What is left of a canary is normal
        with deviation noise · clip around `clip`, if it was sampled, or around 0. The evidence is the logarithm of the
        likelihood ratio; without noise it is how often the canary was seen.
        """
        seen = (self._at_places(grad).double() - self.others) / clip
        if noise:
            seen = (seen - 0.5) / noise**2
            if rate < 1:
                seen = torch.logaddexp(seen + math.log(rate), torch.tensor(math.log1p(-rate), dtype=torch.float64))
        self.evidence.add_(seen)
        self.others.zero_()

    def _at_places(self, grad: Tensor) -> Tensor:
        return grad[self.places.to(grad.device)].cpu()
