"""Engines decide only where the parties' local rounds run. They answer in cohort order, so sums are exact."""

from collections.abc import Iterable, Iterator, Mapping

from silobench.spec import Registry
from silobench.types import Engine, PartyMemory, PartyRound, Reply

ENGINES: Registry[Engine] = Registry("engine")


@ENGINES.register
def inline() -> Engine:
    """One party after the other in this process, on one thread."""

    def run(local_round: PartyRound, cohort: Iterable[int], memory: Mapping[int, PartyMemory]) -> Iterator[Reply]:
        for party in cohort:
            yield local_round(party, memory.get(party, {}))

    return run
