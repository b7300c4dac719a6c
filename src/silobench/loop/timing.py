"""The virtual clock: how long a round takes, with parties that compute and send side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from silobench.loop.schedule import Schedule
from silobench.method.selection import Cohort
from silobench.method.types import Phase


@dataclass(frozen=True)
class Timing:
    """Virtual seconds of a run's parties, by its network and its clock."""

    schedule: Schedule

    @property
    def _has_equal_links(self) -> bool:
        """Whether all parties have the same link and no computing time."""
        return self.schedule.clock.speed is None and not self.schedule.network.spread

    def computing(self, party: int) -> float:
        """Return how long a party trains in a round; 0 if that is measured instead."""
        setting, clock = self.schedule.setting, self.schedule.clock
        if clock.speed is None:
            return 0.0
        rows = setting.rows(setting.federation.parties[party].samples)
        return clock.computing(rows, party, setting.seed)

    def trip(self, party: int, down: int, up: int, sharing: int) -> float:
        """Return how long a party takes for a round: download, computing and upload."""
        network, seed = self.schedule.network, self.schedule.setting.seed
        first, last = (network.transfer(size, party, seed, sharing) for size in (down, up))
        return first + self.computing(party) + last

    def round(self, cohort: Cohort, replied: Cohort, phases: Sequence[Phase]) -> float:
        """Return how long the server waits for the last reply; `phases` are the broadcast and the replies."""
        is_equal = self._has_equal_links
        down, up = _added([phase.down for phase in phases]), _added([phase.up for phase in phases])
        trips = {(down.get(party, 0), up.get(party, 0), 0 if is_equal else party) for party in replied}
        return max([self.trip(party, first, last, len(cohort)) for first, last, party in trips], default=0.0)

    def barrier(self, phase: Phase) -> float:
        """Return how long it takes until the last message of a phase has arrived."""
        network, seed = self.schedule.network, self.schedule.setting.seed
        return sum(
            max((network.transfer(size, party, seed, len(way)) for party, size in way.items()), default=0.0)
            for way in (phase.down, phase.up)
        )


def _added(sizes: Sequence[Mapping[int, int]]) -> Mapping[int, int]:
    """Return the bytes of each party over several phases."""
    some = [each for each in sizes if each]
    if len(some) == 1:
        return some[0]
    return {party: sum(each.get(party, 0) for each in some) for each in some for party in each}
