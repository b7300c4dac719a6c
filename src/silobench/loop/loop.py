"""The round loop: a generator of `RoundRecord`. It writes nothing and stops when its caller stops asking."""

import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch

from silobench.engines import Engine
from silobench.errors import HookError, RunError
from silobench.loop.accounts import FinishedRound, bytes_of, core_seconds, dense_bytes_of, phases_of, time_of
from silobench.loop.downlink import downlink
from silobench.loop.evaluation import evaluated, models_to_test
from silobench.loop.exchanges import LOST, Meeting
from silobench.loop.final import final_test
from silobench.loop.privacy import Privacy
from silobench.loop.probe import ModelProbe
from silobench.loop.schedule import Prelude, Schedule
from silobench.loop.timing import Timing, Ways
from silobench.loop.turns import turn
from silobench.method.types import Memory, Phase, Server
from silobench.processes import keep_memory
from silobench.tasks.task import Task, Weights
from silobench.training.setting import Setting
from silobench.training.state import BUDGET, END, SLOWEST, RoundRecord, State
from silobench.training.stopwatch import Stopwatch

_YES = torch.tensor(True)
_DENORMAL = 5e-324  # times 1, it is 0 where the processor takes denormal numbers for 0
_SCHEDULE = "schedule"  # the owner of the memory of the learning rate in `State.extra`


def run_rounds(schedule: Schedule, state: State | None = None) -> Iterator[RoundRecord]:
    """Run the rounds that remain after `state`; None starts at round 0."""
    schedule = schedule.pooled()
    schedule.check()
    Privacy(schedule).check(state)
    keep_memory()
    setting = schedule.setting
    loop = _Loop(replace(schedule.steered(), engine=schedule.engine.settled(setting)))
    state = state or initial_state(setting, loop.prelude.clock)
    while state.server.round < schedule.rounds and not state.has_ended:
        with one_thread(setting.task), _counted(state.server.round + 1):
            record = loop.round(state)
        state = record.state
        yield record


def initial_state(setting: Setting, clock: float = 0.0) -> State:
    """Return the state before the first round, at this virtual time in seconds."""
    return State(setting.initial_server(), clock=clock)


@contextmanager
def one_thread(task: Task | None = None) -> Iterator[None]:
    """Use one thread and treat denormal numbers as 0; on the device of a task, settings by which bits repeat.

    Then neither the number of cores nor tiny values change results or speed: sums that are split over threads round
    differently, and processors take ten times as long to calculate with denormal numbers. The momentum of a weight that
    gets no gradient any more shrinks to such a number within some 800 steps.
    """
    threads, flush_before = torch.get_num_threads(), not _DENORMAL * 1.0
    if threads != 1:
        torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        with nullcontext() if task is None else task.settled():
            yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)
        torch.set_flush_denormal(flush_before)


@contextmanager
def _counted(round: int) -> Iterator[None]:
    """Add the round to an error of a hook that is not called for a single party."""
    try:
        yield
    except HookError as error:
        raise RunError(f"round {round}: {error}", error.details or traceback.format_exc()) from error


@dataclass(frozen=True)
class _Models:
    """The models after a round. They are put together for the first test only: parties may train on for it."""

    setting: Setting
    engine: Engine
    state: State

    @cached_property
    def to_test(self) -> list[Weights]:
        return models_to_test(self.setting, self.engine, self.state)


@dataclass(frozen=True)
class _Loop:
    """One round after another: each method is a step of a round, or reports on it."""

    schedule: Schedule

    @property
    def setting(self) -> Setting:
        return self.schedule.setting

    @cached_property
    def timing(self) -> Timing:
        return Timing(self.schedule)

    @cached_property
    def privacy(self) -> Privacy:
        return Privacy(self.schedule)

    @property
    def prelude(self) -> Prelude:
        return self.schedule.prelude or Prelude()

    def round(self, state: State) -> RoundRecord:
        """Run one round, and test the model if the schedule says so."""
        schedule, setting, watch = self.schedule, self.setting, Stopwatch()
        is_protected = self.privacy.is_private or setting.method.hides
        may_travel = schedule.controller.travels or not is_protected
        full_exchange = partial(self._full_exchange_bytes, state.server)
        probe = ModelProbe(setting, schedule.engine, state, full_exchange, may_travel=may_travel)
        orders = schedule.controller.steer(state.server, state.controller, probe)
        watch.lap("control")
        server = replace(state.server, knobs={**orders.knobs, **self._knobs_of_lr(state)})
        sent = downlink(schedule, state, server)
        watch.lap("broadcast")
        turns = turn(schedule, state, sent)
        meeting = Meeting(
            setting, server, state.memory, turns.replies, turns.cohort, turns.replied, watch, sent.server, state.extra,
            turns.present,
        )  # fmt: skip
        done = FinishedRound(state, orders, probe, turns, schedule.exchange.combine(meeting), sent)
        phases = self._phases(done)
        traffic = bytes_of((*phases, *done.other_phases))
        ways = self.timing.both_ways(turns.cohort, turns.replied, phases)
        after = self._charged(done, self._state_after(done, ways, sum(traffic)))
        watch.lap("aggregate")
        cpu = time.process_time()
        models = _Models(setting, schedule.engine, after)
        scores, after = self._tested(after, models)
        if self._is_last(after):
            scores = {**scores, "final": final_test(setting, schedule.engine, models.to_test)}
        seconds = watch.lap("evaluate")
        test_core = core_seconds(seconds, time.process_time() - cpu, schedule.engine.processes)
        time_by_part = time_of(self.timing, done, ways, watch.laps, test_core).as_json()
        costs = {**self._costs(done, phases), "time": time_by_part}
        return self._record(done, after, traffic, scores, watch, costs)

    def _costs(self, done: FinishedRound, phases: Sequence[Phase]) -> dict[str, Any]:
        """Return the fields of a record on rows, on bytes without transforms, and on messages by phase."""
        up, down = dense_bytes_of(self.schedule, done, phases)
        return {
            "rows": sum(map(self.timing.rows, done.turn.replied)),
            "dense_up": up + done.probe.nbytes,
            "dense_down": down + (self.prelude.bytes_down if done.before.server.round == 0 else 0),
            "phases": phases_of(done, phases),
        }

    def _phases(self, done: FinishedRound) -> Sequence[Phase]:
        """Return the broadcast and the replies; in lockstep parties know the last model, and need what changed."""
        algorithm = self.setting.method.algorithm
        if algorithm.silent:
            return ()
        answer = done.outcome.answer if algorithm.lockstep else done.sent.whole
        phases = self.schedule.exchange.phases(self.setting, done.turn.cohort, answer, done.outcome.tally.sizes)
        if not self.schedule.broadcast:
            return phases
        return [replace(each, down=done.sent.sizes(done.turn.cohort)) if each.down else each for each in phases]

    def _full_exchange_bytes(self, server: Server) -> int:
        """Return the bytes of a round in which every party sends all of its model, and is answered."""
        size, parties = self.setting.sent(server).nbytes, tuple(range(len(self.setting.federation.parties)))
        return sum(bytes_of(self.schedule.exchange.phases(self.setting, parties, size, dict.fromkeys(parties, size))))

    def _state_after(self, done: FinishedRound, ways: Ways, nbytes: int) -> State:
        before, turns, outcome, timing = done.before, done.turn, done.outcome, self.timing
        if turns.trained is None:
            seconds = timing.round(turns.replied, ways)
            clock = before.clock + seconds + sum(map(timing.barrier, done.other_phases))
        else:
            clock = turns.clock
        if done.probe.largest:
            clock += timing.barrier(done.travelling_models)
        put, memory = self.schedule.engine.memories.put, before.memory
        for changed in (turns.trained.memory, outcome.memory) if turns.trained else (outcome.memory,):
            memory = put(memory, changed)
        spent = before.spent + nbytes + done.probe.nbytes
        extra = {**done.sent.extra(turns.extra(before.extra), turns.cohort), **outcome.extra}
        return State(outcome.server, memory, clock, spent, done.orders.memory, extra=extra)

    def _charged(self, done: FinishedRound, after: State) -> State:
        """Return the state with what the round spent of privacy; it ends the run if another round would spend more."""
        turns = done.turn
        trained = turns.replied if turns.trained is None else sorted(turns.trained.sizes)
        is_lost, replied = LOST in done.outcome.tally.reports, None
        if turns.engine.may_miss:  # a party whose answer is late has trained, too
            trained, replied = turns.cohort, turns.replied
        after = self.privacy.charged(after, done.before, turns.cohort, trained, is_lost, replied)
        if self.privacy.end(after) is None:
            return after
        return replace(after, extra={**after.extra, END: {"round": torch.tensor(after.server.round), BUDGET: _YES}})

    def _privacy(self, after: State) -> dict[str, Any]:
        """Return the field of a record on privacy; empty if the run is not private."""
        if not self.privacy.is_private:
            return {}
        report = self.privacy.report(after, self._is_last(after))
        return {**report, "ended": self.privacy.end(after)} if BUDGET in after.extra.get(END, {}) else report

    def _is_last(self, state: State) -> bool:
        return state.has_ended or state.server.round == self.schedule.rounds

    def _knobs_of_lr(self, state: State) -> Mapping[str, float]:
        """Return the knobs of a learning rate that depends on earlier rounds."""
        knobs = getattr(self.setting.solver.lr, "knobs", None)
        return knobs(state.extra.get(_SCHEDULE, {})) if knobs else {}

    def _tested(self, state: State, models: "_Models") -> tuple[dict[str, Any], State]:
        """Return the scores of a round, empty if it is not tested, and the state after the learning rate saw them."""
        schedule = self.schedule
        share = 1.0 if state.has_ended else schedule.test_share(state.server.round)
        scores = evaluated(self.setting, schedule.engine, models.to_test, share) if share else {}
        follow = getattr(self.setting.solver.lr, "follow", None)
        if follow is None:
            return scores, state
        memory, is_finished = follow(state.extra.get(_SCHEDULE, {}), scores.get("validation_loss"))
        extra: dict[str, Memory] = {**state.extra, _SCHEDULE: memory}
        if is_finished:
            extra[END] = {"round": torch.tensor(state.server.round)}
            if share != 1.0 or isinstance(share, int):  # the integer 1 is one row
                scores = evaluated(self.setting, schedule.engine, models.to_test, 1.0)
        return scores, replace(state, extra=extra)

    def _record(
        self,
        done: FinishedRound,
        after: State,
        traffic: tuple[int, int],
        scores: Mapping[str, Any],
        watch: Stopwatch,
        costs: Mapping[str, Any],
    ) -> RoundRecord:
        is_first, prelude, turns, tally = done.before.server.round == 0, self.prelude, done.turn, done.outcome.tally
        trained, workers = turns.trained or tally, max(1, turns.engine.workers)
        up, down = traffic
        is_timed = self.schedule.clock.speed is not None
        by_clock = max(map(self.timing.computing, turns.replied), default=0.0) if is_timed else None
        return RoundRecord(
            round=after.server.round,
            accuracy=scores.get("accuracy"),
            class_accuracy=scores.get("class_accuracy"),
            accuracy_std=scores.get("accuracy_std"),
            loss=scores.get("loss"),
            validation=scores.get("validation"),
            validation_loss=scores.get("validation_loss"),
            metrics=scores.get("metrics", {}),
            final=scores.get("final", {}),
            party_accuracy=scores.get("party_accuracy"),
            train_loss=tally.loss,
            cohort=turns.cohort,
            steps=tally.steps,
            bytes_up=up + done.probe.nbytes,
            bytes_down=down + (prelude.bytes_down if is_first else 0),
            clock=after.clock,
            knobs=after.server.knobs,
            engine=str(turns.engine),
            workers=workers,
            seconds=_seconds_by_phase(trained.seconds, watch.laps, workers) | {SLOWEST: trained.slowest},
            state=after,
            measures=prelude.measures if is_first else {},
            control=done.orders.report,
            reports={**tally.report, **turns.report, **done.sent.report},
            replied=turns.replied if turns.replied != turns.cohort else None,
            computing=by_clock,
            converged=after.has_ended and BUDGET not in after.extra[END],
            privacy=self._privacy(after),
            **costs,
        )


def _seconds_by_phase(parties: Mapping[str, float], laps: Mapping[str, float], workers: int) -> dict[str, float]:
    """Return seconds of the clock by phase. Parties work side by side: their seconds are divided by the workers."""
    shares = {phase: spent / workers for phase, spent in parties.items()}
    idle = max(0.0, laps["parties"] - sum(shares.values()))
    others = {phase: spent for phase, spent in laps.items() if phase not in ("parties", "broadcast")}
    others["aggregate"] += laps["broadcast"]  # both are work of the server
    return {**shares, "idle": idle, **others}
