"""`Allowance`: what a silo spends of its rows' privacy over all runs of all consortia, and its own limits."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from silobench.loop.privacy import LEDGER, Privacy
from silobench.loop.schedule import Schedule
from silobench.method.selection import Cohort
from silobench.method.types import Memory, Server
from silobench.privacy.accountant import epsilon
from silobench.privacy.ledger import ALL_PARTIES, Ledger
from silobench.privacy.mechanism import Mechanism, Unit
from silobench.silos.attendance import begun
from silobench.silos.letters import LetterError
from silobench.silos.silo_file import Limits
from silobench.silos.store import Drawer, damaged
from silobench.training.party import server_key, transform_key
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, State

_FILE, _ROUNDS = "spent", "rounds-trained"
_SELF = 0  # the silo's number in its own ledger; in a consortium it may have another
_LEAST_NOISE = 1e-6  # less is no noise
_MOST_RELEASES = 2**53
_UNITS: tuple[Unit, ...] = ("example", "party")


@dataclass(frozen=True)
class Allowance:
    """The limits of a silo, and where it writes down what it spent: one ledger for all consortia."""

    drawer: Drawer
    limits: Limits
    schedule: Schedule  # with this silo's rows
    party: int

    @cached_property
    def _privacy(self) -> Privacy:
        return Privacy(self.schedule)

    def spend(self, server: Server, memory: PartyMemory, cohort: Cohort) -> None:
        """Write down one more training; refuse it if that would exceed a limit of the silo."""
        trained = _rounds(self.drawer) + 1
        if self.limits.max_rounds is not None and trained > self.limits.max_rounds:
            raise LetterError(f"this silo trains in {self.limits.max_rounds} rounds, by max_rounds of its silo.toml")
        if self._privacy.is_private:
            self._charge(server, memory, cohort)
        has_ledger = self.drawer.get(_FILE) is not None
        self.drawer.put(_ROUNDS, json.dumps({"rounds": trained, "has_ledger": has_ledger}).encode())

    def _charge(self, server: Server, memory: PartyMemory, cohort: Cohort) -> None:
        setting = self.schedule.setting
        extra: dict[str, Memory] = {
            transform_key(place): memory[server_key(place)]
            for place in range(len(setting.method.transforms))
            if server_key(place) in memory
        }
        before, replied = State(server, extra=extra), fewest_answers(setting, cohort, self.party)
        after = self._privacy.charged(State(server), before, cohort, (self.party,), replied=replied)
        releases = Ledger.of(after.extra[LEDGER]).counts.items()
        ledger = _ledger(self.drawer).charged(
            (ALL_PARTIES if party == ALL_PARTIES else _SELF, mechanism, count) for (party, mechanism), count in releases
        )
        limit = self.limits.max_epsilon
        if limit is not None and max(_epsilons(ledger).values(), default=0.0) > limit:
            raise LetterError(f"this silo spends an epsilon of {limit:g} at most, by max_epsilon of its silo.toml")
        self.drawer.put_memory(_FILE, {LEDGER: ledger.memory()})


def fewest_answers(setting: Setting, cohort: Cohort, party: int) -> Cohort:
    """Return the fewest parties whose messages the server may add up, with this one: their noise is then the least."""
    least = max((each.least(len(cohort)) for each in setting.method.transforms), default=1)
    others = [other for other in cohort if other != party]
    return tuple(sorted([party, *others[: least - 1]]))


def spent_before(drawer: Drawer) -> dict[str, Any]:
    """Return what a silo spent until now over all consortia: runs, rounds, and epsilon for a row and for the silo."""
    epsilons = {f"epsilon of {_whom(unit)}": round(value, 4) for unit, value in _epsilons(_ledger(drawer)).items()}
    return {"runs": len(begun(drawer.path)), "rounds": _rounds(drawer), **epsilons}


def _whom(unit: Unit) -> str:
    return "a row" if unit == "example" else "the silo"


def _rounds(drawer: Drawer) -> int:
    return int(_trained(drawer)["rounds"])


def _trained(drawer: Drawer) -> dict[str, Any]:
    """Return how many rounds a silo trained, and whether it wrote down what they spent; before the first, nothing."""
    try:
        content = drawer.get(_ROUNDS)
        facts = json.loads(b"0" if content is None else content)
        trained = facts if isinstance(facts, dict) else {"rounds": facts, "has_ledger": False}  # earlier: a number
        return {"rounds": int(trained["rounds"]), "has_ledger": bool(trained["has_ledger"])}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise damaged(drawer.path / _ROUNDS) from error


def _ledger(drawer: Drawer) -> Ledger:
    """Return what a silo spent. Without its file all of it would count as unspent, so a missing one is refused."""
    if drawer.get(_FILE) is None and _trained(drawer)["has_ledger"]:
        raise damaged(drawer.path / _FILE)
    try:
        ledger = Ledger.of((drawer.memory(_FILE) or {}).get(LEDGER, {}))
        if not all(_is_possible(mechanism, count) for (_, mechanism), count in ledger.counts.items()):
            raise ValueError("a number is beyond its range")
        return ledger
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise damaged(drawer.path / _FILE) from error


def _is_possible(mechanism: Mechanism, count: int) -> bool:
    """Whether a silo can have made so many releases by a mechanism."""
    is_noise = mechanism.noise == 0 or _LEAST_NOISE <= mechanism.noise < math.inf
    is_rho = mechanism.rho is None or mechanism.rho < math.inf
    return is_noise and is_rho and 0 <= mechanism.delta < 1 and 0 <= mechanism.rate <= 1 and 0 <= count < _MOST_RELEASES


def _epsilons(ledger: Ledger) -> dict[Unit, float]:
    """Return the epsilon of everything in a ledger, by unit, for the largest delta of its releases."""
    entries = {unit: [entry for each in ledger.entries(unit).values() for entry in each] for unit in _UNITS}
    return {
        unit: epsilon(each, max(mechanism.delta for mechanism, _ in each)) for unit, each in entries.items() if each
    }
