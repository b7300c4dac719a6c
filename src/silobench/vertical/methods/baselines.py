"""Baselines of a vertical federation: one party by itself, and all columns in one place (as in OARF)."""

from dataclasses import dataclass

from silobench.errors import ConfigError, suggest
from silobench.vertical.federation import VerticalFederation
from silobench.vertical.methods.method import VERTICAL_ALGORITHMS, VerticalMethod
from silobench.vertical.methods.split import Split


@dataclass(frozen=True)
class Combined(Split):
    """All columns at one place; see `combined`."""

    def restricted(self, federation: VerticalFederation) -> VerticalFederation:
        return federation.combined()


@dataclass(frozen=True)
class Solo(Split):
    """One party by itself; see `solo`."""

    party: str = ""

    def restricted(self, federation: VerticalFederation) -> VerticalFederation:
        names = federation.names
        if self.party and self.party not in names:
            raise ConfigError(f"solo has no party '{self.party}': {suggest(self.party, list(names))}")
        return federation.solo(names.index(self.party) if self.party else federation.label)


@VERTICAL_ALGORITHMS.register
def combined() -> VerticalMethod:
    """Train one network on the columns of all parties in one place: what silos without borders could do."""
    return Combined()


@VERTICAL_ALGORITHMS.register
def solo(party: str = "") -> VerticalMethod:
    """Train one party's network on its own columns and rows; the default is the party with the labels.

    Another party is given the labels of its rows, which it would not have in a federation.
    """
    return Solo(party=party)
