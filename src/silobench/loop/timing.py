"""The virtual clock: how long a round takes, with parties that compute and send side by side."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from silobench.loop.schedule import Schedule
from silobench.method.selection import Cohort
from silobench.method.types import Phase

Ways: TypeAlias = tuple[Mapping[int, float], Mapping[int, float]]  # seconds of messages to and from parties, by party


@dataclass(frozen=True)
class Timing:
    """Virtual seconds of a run's parties, by its network and its clock."""

    schedule: Schedule
    _rows: dict[int, int] = field(default_factory=dict, repr=False, compare=False)
    _computing: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

    def rows(self, party: int) -> int:
        """Return how many rows a party visits in a round, counting repetitions."""
        if party not in self._rows:
            setting = self.schedule.setting
            self._rows[party] = setting.rows(setting.federation.parties[party].samples)
        return self._rows[party]

    def computing(self, party: int) -> float:
        """Return how long a party trains in a round; 0 if that is measured instead."""
        if self.schedule.clock.speed is None:
            return 0.0
        if party not in self._computing:
            self._computing[party] = self.schedule.clock.computing(self.rows(party), party, self.schedule.setting.seed)
        return self._computing[party]

    def transfers(self, sizes: Mapping[int, int], parties: Iterable[int], sharing: int) -> dict[int, float]:
        """Return how long the messages of parties take; `sharing` parties use the server's link."""
        network, seed = self.schedule.network, self.schedule.setting.seed
        if network.spread:
            return {party: network.transfer(sizes.get(party, 0), party, seed, sharing) for party in parties}
        by_size = {size: network.transfer(size, 0, seed, sharing) for size in {0, *sizes.values()}}
        return {party: by_size[sizes.get(party, 0)] for party in parties}

    def trip(self, party: int, down: int, up: int, sharing: int) -> float:
        """Return how long a party takes for a round: download, computing and upload."""
        first, last = self.ways(party, down, up, sharing)
        return first + self.computing(party) + last

    def ways(self, party: int, down: int, up: int, sharing: int) -> tuple[float, float]:
        """Return how long a party's download and its upload take."""
        network, seed = self.schedule.network, self.schedule.setting.seed
        return network.transfer(down, party, seed, sharing), network.transfer(up, party, seed, sharing)

    def both_ways(self, cohort: Cohort, replied: Cohort, phases: Sequence[Phase]) -> Ways:
        """Return the seconds of downloads and uploads by party; `phases` are the broadcast and the replies."""
        down, up = _added([phase.down for phase in phases]), _added([phase.up for phase in phases])
        return self.transfers(down, cohort, len(cohort)), self.transfers(up, replied, len(cohort))

    def round(self, replied: Cohort, ways: Ways) -> float:
        """Return how long the server waits for the last reply, by `both_ways` of the broadcast and the replies."""
        down, up = ways
        return max([down[party] + self.computing(party) + up[party] for party in replied], default=0.0)

    def barrier(self, phase: Phase) -> float:
        """Return how long it takes until the last message of a phase has arrived."""
        return sum(max(way.values(), default=0.0) for way in self.crossings(phase))

    def crossings(self, phase: Phase) -> Ways:
        """Return how long the messages of a phase take by party: those to parties, and those from them."""
        down, up = (self.transfers(way, way, len(way)) for way in (phase.down, phase.up))
        return down, up


def _added(sizes: Sequence[Mapping[int, int]]) -> Mapping[int, int]:
    """Return the bytes of each party over several phases."""
    some = [each for each in sizes if each]
    if len(some) == 1:
        return some[0]
    return {party: sum(each.get(party, 0) for each in some) for each in some for party in each}
