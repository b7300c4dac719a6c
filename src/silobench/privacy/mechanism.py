"""`Mechanism`: a noisy release, as far as an accountant needs to know it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["example", "party"]
Sampling: TypeAlias = Literal["poisson", "fixed", "shuffled"]


@dataclass(frozen=True)
class Mechanism:
    """A sum over examples or parties, each clipped, with noise."""

    unit: Unit  # whom it protects
    delta: float  # of the guarantee that is stated
    noise: float = 0.0  # standard deviation over the largest contribution of a unit
    rate: float = 1.0  # the share of units that take part in one release
    sampling: Sampling = "poisson"  # how they are drawn; no guarantee holds for shuffled batches
    rho: float | None = None  # zero-concentrated privacy of one release without sampling, where noise is not Gaussian
    reproducible: bool = False  # whether the noise follows from the seed of the run, so that it protects nobody
    budget: float | None = None  # the epsilon that a run must not exceed; it ends before the round that would
