"""Engines decide only where the parties' local rounds run. They answer in cohort order, so sums are the same."""

from collections.abc import Iterable, Iterator, Mapping

from silobench.local import Engine, LocalRound
from silobench.spec import Registry
from silobench.types import PartyMemory, Reply

ENGINES: Registry[Engine] = Registry("engine")


@ENGINES.register
def inline() -> Engine:
    """One party after the other in this process, on one thread."""

    def run(local_round: LocalRound, cohort: Iterable[int], memory: Mapping[int, PartyMemory]) -> Iterator[Reply]:
        for party in cohort:
            yield local_round(party, memory.get(party, {}))

    return run
