"""`Allowance`: what a silo spends of its rows' privacy over all runs of a consortium, and its own limits."""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from silobench.loop.privacy import LEDGER, Privacy
from silobench.loop.schedule import Schedule
from silobench.method.types import Memory, Server
from silobench.silos.letters import LetterError
from silobench.silos.silo_file import Limits
from silobench.silos.store import Drawer
from silobench.training.party import server_key, transform_key
from silobench.training.state import PartyMemory, State

_FILE, _ROUNDS = "spent", "rounds-trained"


@dataclass(frozen=True)
class Allowance:
    """The limits of a silo, and where it writes down what it spent."""

    drawer: Drawer
    limits: Limits
    schedule: Schedule  # with this silo's rows
    party: int

    @cached_property
    def _privacy(self) -> Privacy:
        return Privacy(self.schedule)

    def spend(self, server: Server, memory: PartyMemory, cohort: tuple[int, ...]) -> None:
        """Write down one more training; refuse it if that would exceed a limit of the silo."""
        trained = int(json.loads(self.drawer.get(_ROUNDS) or b"0")) + 1
        if self.limits.max_rounds is not None and trained > self.limits.max_rounds:
            raise LetterError(f"this silo trains in {self.limits.max_rounds} rounds, by max_rounds of its silo.toml")
        if self._privacy.is_private:
            self._charge(server, memory, cohort)
        self.drawer.put(_ROUNDS, json.dumps(trained).encode())

    def _charge(self, server: Server, memory: PartyMemory, cohort: tuple[int, ...]) -> None:
        places = range(len(self.schedule.setting.method.transforms))
        extra: dict[str, Memory] = {
            transform_key(place): memory[server_key(place)] for place in places if server_key(place) in memory
        }
        before = State(server, extra=extra)
        after = self._privacy.charged(State(server, extra=self._ledger()), before, cohort, (self.party,))
        limit = self.limits.max_epsilon
        if limit is not None and self._epsilon(after) > limit:
            raise LetterError(f"this silo spends an epsilon of {limit:g} at most, by max_epsilon of its silo.toml")
        self.drawer.put_memory(_FILE, {LEDGER: after.extra[LEDGER]})

    def _epsilon(self, state: State) -> float:
        """Return the largest epsilon of what this silo spent: of its rows, or of the silo as a party."""
        spent = self._privacy.report(state, is_last=False)
        return max((float(unit["epsilon"]) for unit in spent.values()), default=0.0)

    def _ledger(self) -> dict[str, Any]:
        return dict(self.drawer.memory(_FILE) or {})
