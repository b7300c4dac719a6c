"""How two methods stand against each other: only settings that ran both say anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from silobench.advice.components import Regime
from silobench.advice.evidence import TIE, Setting

SIMPLEST = "fedavg"  # of methods that are equally good, it is taken


@dataclass(frozen=True)
class Standing:
    """A method and a rival in the settings that ran both: points below the best method, and how often it is best."""

    method: str
    rival: str
    settings: int
    regret: float
    rival_regret: float
    best: int  # settings in which the method is best, or less than a point below the best
    rival_best: int

    @property
    def lead(self) -> float:
        """Points by which the method is better than the rival."""
        return self.rival_regret - self.regret


def standing(settings: Sequence[Setting], method: str, rival: str = SIMPLEST) -> Standing | None:
    """Return how a method stands against a rival; None if no setting ran both."""
    pairs = [
        (setting.regrets[method], setting.regrets[rival])
        for setting in settings
        if method in setting.regrets and rival in setting.regrets
    ]
    if not pairs:
        return None
    losses, rival_losses = zip(*pairs, strict=True)
    return Standing(
        method, rival, len(pairs), fmean(losses), fmean(rival_losses), losses.count(0), rival_losses.count(0)
    )


def of_regime(settings: Sequence[Setting], regime: Regime) -> list[Setting]:
    """Return the settings with one kind of skew."""
    return [setting for setting in settings if setting.regime == regime]


def preferred(settings: Sequence[Setting], regime: Regime, method: str) -> str:
    """Return a method, or FedAvg if the method is not a point better than it in settings with the same skew."""
    against = standing(of_regime(settings, regime), method)
    return SIMPLEST if against is not None and against.lead < TIE else method


def favoured(settings: Sequence[Setting], regime: Regime, method: str, others: Sequence[str]) -> Standing | None:
    """Return how a method stands against the one that leads it most under a skew; None if none is a point better."""
    rivals = (standing(of_regime(settings, regime), method, other) for other in others if other != method)
    ahead = [each for each in rivals if each is not None and each.lead <= -TIE]
    return min(ahead, key=lambda each: each.lead, default=None)
