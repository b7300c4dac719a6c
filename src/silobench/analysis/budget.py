"""Budgets: what a run may spend until its score counts. A run is cut after its last tested round inside the budget."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from silobench.analysis.privacy import UNITS, spent
from silobench.analysis.units import short, size
from silobench.runs.stored import RoundRow, StoredRun


@dataclass(frozen=True)
class Spending:
    """What a run has spent until the end of a round; None where it is unknown, or where nobody is protected."""

    rounds: int
    bytes: int  # all messages, up and down
    seconds: float | None  # virtual time: network and computing of the slowest party
    epsilon: float | None  # of rows if they are protected, else of parties; None if it is no guarantee


@dataclass(frozen=True)
class Budget:
    """The most that a run may spend; None is no limit."""

    rounds: int | None = None
    bytes: float | None = None
    seconds: float | None = None
    epsilon: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in vars(self).values())

    def allows(self, spending: Spending) -> bool:
        """Whether spending is within the budget; what is not known is not within a limit."""
        pairs = ((limit, getattr(spending, name)) for name, limit in vars(self).items() if limit is not None)
        return all(amount is not None and amount <= limit for limit, amount in pairs)

    @property
    def text(self) -> str:
        """The budget in words.

        >>> Budget(rounds=10, bytes=2e6).text, Budget().text
        ('10 rounds, 2 MB', 'whole runs')
        """
        words = (
            self.rounds and f"{self.rounds} round{'s' * (self.rounds != 1)}",
            self.bytes and size(self.bytes),
            self.seconds and f"{short(self.seconds)} s of virtual time",
            self.epsilon and f"epsilon {short(self.epsilon)}",
        )
        return ", ".join(word for word in words if word) or "whole runs"


def within(run: StoredRun, budget: Budget) -> StoredRun | None:
    """Return a run until its last tested round inside a budget; None if no tested round is inside it."""
    if not budget:
        return run
    tested = {row.round for row in run.tested}
    last = 0
    for count, spending in enumerate(spendings(run), 1):
        if not budget.allows(spending):
            break
        last = count if run.rounds[count - 1].round in tested else last
    return replace(run, rounds=run.rounds[:last]) if last else None


def spendings(run: StoredRun) -> Iterator[Spending]:
    """Yield what a run has spent until the end of each round."""
    sent, computing = 0, 0.0
    for count, row in enumerate(run.rounds, 1):
        sent += row.bytes
        computing += row.seconds.get("slowest", math.nan)
        seconds = row.clock if row.computing is not None else row.clock + computing
        yield Spending(count, sent, seconds if math.isfinite(seconds) else None, _epsilon(row))


def _epsilon(row: RoundRow) -> float | None:
    each = (spent(row, unit) for unit in UNITS)
    return next((one.epsilon for one in each if one and math.isfinite(one.epsilon) and not one.reason), None)


def levels(amounts: Iterable[float], most: int = 3) -> list[float]:
    """Return round numbers (1, 2, 5, 10, ...) below the largest amount, at most a few, to choose budgets from.

    >>> levels([3.0, 47.0]), levels([1.0]), levels([])
    ([5, 10, 20], [0.1, 0.2, 0.5], [])
    """
    largest = max(amounts, default=0.0)
    if largest <= 0 or not math.isfinite(largest):
        return []
    power = math.floor(math.log10(largest))
    steps = [digit * 10.0**exponent for exponent in range(power - 2, power + 1) for digit in (1, 2, 5)]
    chosen = [step for step in steps if step < largest][-most:]
    return [int(step) if step.is_integer() else step for step in chosen] if chosen else []
