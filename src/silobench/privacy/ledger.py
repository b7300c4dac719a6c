"""`Ledger`: the noisy releases of a run, by party. It is stored with the state of the run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch

from silobench.privacy.accountant import Entry
from silobench.privacy.mechanism import Mechanism, Sampling, Unit
from silobench.vectors import Memory

ALL_PARTIES = -1  # in place of the number of a party, for releases that concern every party in the same way
_UNITS: tuple[Unit, ...] = ("example", "party")
_SAMPLINGS: tuple[Sampling, ...] = ("poisson", "fixed", "shuffled")


@dataclass(frozen=True)
class Ledger:
    """How often each release was made, by party and mechanism. Charging adds to it, and nothing takes away from it.

    >>> release = Mechanism("example", delta=1e-5, noise=1.0, rate=0.1)
    >>> ledger = Ledger().charged([(0, release, 10), (1, release, 8)]).charged([(0, release, 10)])
    >>> {party: [count for _, count in entries] for party, entries in ledger.entries("example").items()}
    {0: [20], 1: [8]}
    """

    counts: Mapping[tuple[int, Mechanism], int] = field(default_factory=dict)

    def charged(self, releases: Iterable[tuple[int, Mechanism, int]]) -> "Ledger":
        """Return the ledger with further releases: of a party, by a mechanism, this many times."""
        counts = dict(self.counts)
        for party, mechanism, count in releases:
            key = party, replace(mechanism, budget=None)  # a budget does not belong to what was spent
            counts[key] = counts.get(key, 0) + count
        return Ledger(counts)

    def entries(self, unit: Unit) -> dict[int, list[Entry]]:
        """Return the releases that protect these units, by party in ascending order."""
        entries = dict[int, list[Entry]]()
        for (party, mechanism), count in self.counts.items():
            if mechanism.unit == unit:
                entries.setdefault(party, []).append((mechanism, count))
        return dict(sorted(entries.items()))

    def memory(self) -> Memory:
        """Return the ledger as named tensors."""
        parties, mechanisms = [party for party, _ in self.counts], [each for _, each in self.counts]
        return {
            "party": torch.tensor(parties, dtype=torch.int64),
            "count": torch.tensor(list(self.counts.values()), dtype=torch.int64),
            "unit": torch.tensor([_UNITS.index(each.unit) for each in mechanisms], dtype=torch.uint8),
            "sampling": torch.tensor([_SAMPLINGS.index(each.sampling) for each in mechanisms], dtype=torch.uint8),
            "reproducible": torch.tensor([each.reproducible for each in mechanisms], dtype=torch.uint8),
            "delta": torch.tensor([each.delta for each in mechanisms], dtype=torch.float64),
            "noise": torch.tensor([each.noise for each in mechanisms], dtype=torch.float64),
            "rate": torch.tensor([each.rate for each in mechanisms], dtype=torch.float64),
            "rho": torch.tensor([-1.0 if each.rho is None else each.rho for each in mechanisms], dtype=torch.float64),
        }

    @classmethod
    def of(cls, memory: Memory) -> "Ledger":
        """Return the ledger of named tensors; an empty one if there are none."""
        if not memory:
            return cls()
        columns = {name: values.tolist() for name, values in memory.items()}
        mechanisms = (
            Mechanism(_UNITS[unit], delta, noise, rate, _SAMPLINGS[way], None if rho < 0 else rho, bool(seeded))
            for unit, delta, noise, rate, way, rho, seeded in zip(
                *(columns[name] for name in ("unit", "delta", "noise", "rate", "sampling", "rho", "reproducible")),
                strict=True,
            )
        )
        return cls(dict(zip(zip(columns["party"], mechanisms, strict=True), columns["count"], strict=True)))
