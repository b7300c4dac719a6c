"""Privacy in the loop: what rounds spend, what their records state, and runs that end before they exceed a budget."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from silobench.errors import ConfigError
from silobench.loop.calibration import holders, party_sampling, repeats_rows
from silobench.loop.schedule import Schedule
from silobench.method.availability import always
from silobench.method.selection import Cohort, is_secret, reads
from silobench.method.types import Server, placed
from silobench.privacy.accountant import Entry, epsilon, epsilon_pld
from silobench.privacy.ledger import ALL_PARTIES, Ledger
from silobench.privacy.mechanism import Mechanism, Sampling, Unit
from silobench.training.party import server_memories
from silobench.training.setting import Setting
from silobench.training.state import State

LEDGER = "privacy"  # the owner of the ledger in `State.extra`
_MOST_DISTRIBUTIONS = 8  # parties whose privacy loss distributions are calculated, because each takes about a second
_LARGEST_EPSILON = 100.0  # privacy loss distributions of larger ones take minutes, and say no more


@dataclass(frozen=True)
class Privacy:
    """The privacy of a run: who spends what in a round, and what was spent until now."""

    schedule: Schedule

    @property
    def setting(self) -> Setting:
        return self.schedule.setting

    @cached_property
    def is_private(self) -> bool:
        """Whether a part of the method adds noise for somebody's privacy."""
        everybody = tuple(range(len(self.setting.federation.parties)))
        return any(True for _ in self._releases(everybody, self._first, everybody, everybody))

    def charged(
        self,
        state: State,
        before: State,
        cohort: Cohort,
        trained: Iterable[int],
        is_lost: bool = False,
        replied: Cohort | None = None,
    ) -> State:
        """Return the state after a round with its releases in the ledger; `before` is the state at its start.

        `cohort` are the parties of the round. Those that trained are charged even if their message is lost, because
        nobody knows who has read a message that did not arrive; `replied` are those whose messages arrived, by default
        all that trained. If the whole round `is_lost`, a secure sum has hidden the messages, and noise of parties on
        them is not charged.
        """
        if not self.is_private:
            return state
        trained = tuple(trained)
        ledger = Ledger.of(state.extra.get(LEDGER, {})).charged(
            self._releases(cohort, before, trained, () if is_lost else trained if replied is None else replied)
        )
        return replace(state, extra={**state.extra, LEDGER: ledger.memory()})

    def end(self, state: State) -> str | None:
        """Return why the run ends before the round that follows this state: its budget; None if it continues."""
        schedule, setting = self.schedule, self.setting
        if not self.is_private or state.server.round >= schedule.rounds:
            return None
        cohort = schedule.selection(setting.federation, schedule.cohort, setting.seed, state.server.round)
        releases = list(self._releases(cohort, state, self._most_parties(cohort), self._fewest_answers(cohort)))
        ledger = Ledger.of(state.extra.get(LEDGER, {})).charged(releases)
        for unit in _units(ledger):
            budget = min((each.budget for _, each, _ in releases if each.unit == unit and each.budget), default=None)
            if budget is not None and (after := self._epsilon(ledger, unit)[0]) > budget:
                number = state.server.round + 1
                return f"round {number} would bring epsilon to {after:.4g}, but its budget is {budget:g}"
        return None

    def _most_parties(self, cohort: Cohort) -> Cohort:
        """Return the parties that may train: after a secret draw all, because it would be another one after a kill."""
        is_certain = not is_secret(self.schedule.selection)
        return cohort if is_certain else tuple(range(len(self.setting.federation.parties)))

    def _fewest_answers(self, cohort: Cohort) -> Cohort:
        """Return the fewest parties of a round that may answer: noise of parties is then the least.

        Nobody does in a cohort that a transform refuses, because the round is lost or stops the run.
        """
        method = self.setting.method
        transforms = () if method.algorithm.silent else method.transforms
        try:
            least = max((each.least(len(cohort)) for each in transforms), default=1)
        except ConfigError:
            return ()
        return cohort if self.schedule.availability is always() else cohort[:least]

    def check(self, state: State | None = None) -> None:
        """Refuse a run whose next round would exceed its budget; `state` is where it resumes, None if it starts.

        A run that its budget has ended already is not refused: it has no next round.
        """
        reason = self.end(state or self._first)
        if reason and not (state and state.has_ended):
            raise ConfigError(
                f"{reason}: give more noise or a larger epsilon, a smaller batch, or fewer local epochs or steps."
            )

    def report(self, state: State, is_last: bool) -> dict[str, Any]:
        """Return what was spent until now, by unit; the last record also has the tighter epsilon of distributions."""
        ledger = Ledger.of(state.extra.get(LEDGER, {}))
        report = dict[str, Any]()
        for unit in _units(ledger):
            tighter = {"epsilon_pld": self._tighter(ledger, unit)} if is_last else {}
            report[unit] = {**self._spent(ledger, unit), **tighter}
        return report

    # --- what a round releases ------------------------------------------------------------------------

    @cached_property
    def _first(self) -> State:
        """A state before the first round, as far as releases depend on it."""
        task = self.setting.task
        parties = len(self.setting.federation.parties)
        return State(Server(task.initial, {}, {}, 0, parties, {}, task.buffers))

    def _releases(
        self, cohort: Cohort, state: State, trained: Cohort, replied: Cohort
    ) -> Iterable[tuple[int, Mechanism, int]]:
        """Yield the releases of a round that starts at this state: party, mechanism and count."""
        setting = self.setting
        for party in trained:
            release = setting.solver.release(party, setting.federation.parties[party].samples)
            if release is not None:
                yield party, *release
        if setting.method.algorithm.silent:
            return
        rate, sampling = self._sampling
        context = setting.context(state.server, -1, cohort, replied)
        contexts = placed(setting.method.transforms, context, server_memories(state.extra, setting))
        for transform, seen in zip(setting.method.transforms, contexts, strict=True):
            if setting.method.hides and not replied and not transform.decodes_nothing:
                continue  # the sum is not known, and who takes part in it is not secret
            mechanism = transform.release(seen)
            if mechanism is not None:
                yield ALL_PARTIES, replace(mechanism, rate=rate, sampling=sampling), 1

    @cached_property
    def _sampling(self) -> tuple[float, Sampling]:
        schedule = self.schedule
        return party_sampling(self.setting, schedule.selection, schedule.cohort, schedule.pace.takes is None)

    # --- what was spent -------------------------------------------------------------------------------

    @cached_property
    def _holders(self) -> list[tuple[int, ...]]:
        return holders(self.setting)

    def _epsilon(self, ledger: Ledger, unit: Unit) -> tuple[float, dict[int, float]]:
        """Return the epsilon of every unit, and that of each party's own releases."""
        entries = ledger.entries(unit)
        each = {party: self._cached(spent, _delta(spent)) for party, spent in entries.items()}
        groups = [[entry for party in group for entry in entries.get(party, [])] for group in self._holders]
        shared = [self._cached(group, _delta(group)) for group in groups if group and unit == "example"]
        return max([*each.values(), *shared], default=0.0), each

    def _cached(self, entries: Sequence[Entry], delta: float) -> float:
        """Return an epsilon; parties with equal numbers of rows have the same one."""
        key = tuple(entries), delta
        if key not in self._last:
            if len(self._last) > 4 * len(self.setting.federation.parties) + 16:
                self._last.clear()
            self._last[key] = epsilon(entries, delta)
        return self._last[key]

    @cached_property
    def _last(self) -> dict[Any, float]:
        return {}

    def _spent(self, ledger: Ledger, unit: Unit) -> dict[str, Any]:
        total, each = self._epsilon(ledger, unit)
        entries = ledger.entries(unit)
        reason = self._reason([entry for spent in entries.values() for entry in spent])
        by_party: dict[str, Mapping[int, Any]] = {
            "parties": each,
            "noise": {party: spent[-1][0].noise for party, spent in entries.items()},
            "rate": {party: spent[-1][0].rate for party, spent in entries.items()},
            "steps": {party: sum(count for _, count in spent) for party, spent in entries.items()},
        }
        is_zero_concentrated = any(mechanism.rho is not None for spent in entries.values() for mechanism, _ in spent)
        return {
            "epsilon": total,
            "delta": max(map(_delta, entries.values())),
            **{name: self._listed(values) for name, values in by_party.items()},
            "accountant": "zcdp" if is_zero_concentrated else "rdp",
            "holds": reason is None,
            **({"reason": reason} if reason else {}),
        }

    def _listed(self, values: Mapping[int, Any]) -> list[Any]:
        """Return values by party, None for one without; a single value if it concerns all parties."""
        if ALL_PARTIES in values:
            return list(values.values())
        return [values.get(party) for party in range(len(self.setting.federation.parties))]

    def _reason(self, entries: Sequence[Entry]) -> str | None:
        """Return why the epsilon is no guarantee, or None."""
        mechanisms = [mechanism for mechanism, _ in entries]
        if any(each.rho is None and not each.noise for each in mechanisms):
            return "no noise is added"
        if any(each.reproducible for each in mechanisms):
            return "the noise follows from the seed of the run, which others may know: leave out reproducible=true"
        if any(each.sampling == "shuffled" for each in mechanisms):
            return "epsilon is that of Poisson samples, but batches are shuffled: use sampling=poisson"
        units = {each.unit for each in mechanisms}
        if "example" in units and repeats_rows(self.setting):
            return "a party holds the same row several times, but epsilon counts it once: leave out the copies"
        if self.setting.federation.partition.warmup and "example" in units:
            return "the warm-up on shared rows before round 1 is not counted: leave out warmup"
        return self._choice_by_data(units)

    def _choice_by_data(self, units: Collection[Unit]) -> str | None:
        """Return which part of the run depends on the data without noise, or None."""
        schedule, parties = self.schedule, len(self.setting.federation.parties)
        if schedule.is_pretrained:
            return "the run starts from the model of another run, which epsilon does not count: start from random"
        if schedule.controller.travels:
            return "the controller sets a knob by exact scores on training rows: use controller = fixed"
        if reads(schedule.selection) == "labels" and schedule.cohort < parties:
            return "the selection draws parties by their exact numbers of rows of each class: use uniform or poisson"
        if "party" in units and getattr(self.setting.solver.lr, "needs_validation", False):
            return "the learning rate follows the exact loss on validation rows of parties: use another schedule"
        return None

    def _tighter(self, ledger: Ledger, unit: Unit) -> float | None:
        """Return the epsilon by privacy loss distributions; None where they are not known.

        Parties are looked at from the largest Rényi epsilon downwards, because none of them can have more than that.
        """
        total, each = self._epsilon(ledger, unit)
        if not 0 < total <= _LARGEST_EPSILON or (unit == "example" and self._holders):
            return None
        largest, known, entries = 0.0, dict[Any, float | None](), ledger.entries(unit)
        for party in sorted(each, key=lambda party: -each[party]):
            key = tuple(entries[party])
            if each[party] <= largest or (key not in known and len(known) == _MOST_DISTRIBUTIONS):
                return max(largest, each[party])
            if key not in known:
                known[key] = epsilon_pld(key, _delta(key))
            value = known[key]
            if value is None:
                return None
            largest = max(largest, min(value, each[party]))
        return largest


def _units(ledger: Ledger) -> list[Unit]:
    units: tuple[Unit, ...] = ("example", "party")
    return [unit for unit in units if ledger.entries(unit)]


def _delta(entries: Sequence[Entry]) -> float:
    """Return the largest delta of some releases: the guarantee is stated for it."""
    return max(mechanism.delta for mechanism, _ in entries)
