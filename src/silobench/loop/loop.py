"""The round loop: a generator of `RoundRecord`. It writes nothing and stops when its caller stops asking."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from silobench.loop.evaluation import evaluated
from silobench.loop.network import Traffic
from silobench.loop.probe import ModelProbe
from silobench.loop.schedule import Prelude, Schedule
from silobench.method.types import Context, Server, Update
from silobench.processes import keep_memory
from silobench.training.party import LocalRound
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import PartyMemory, RoundRecord, State, Tally
from silobench.training.stopwatch import Stopwatch


def run_rounds(schedule: Schedule, state: State | None = None) -> Iterator[RoundRecord]:
    """Run the rounds that remain after `state`; None starts at round 0."""
    schedule = schedule.pooled()
    schedule.check()
    keep_memory()
    setting = schedule.setting
    loop = _Loop(replace(schedule.steered(), engine=schedule.engine.settled(setting)))
    state = state or initial_state(setting, loop.prelude.clock)
    for round_index in range(state.server.round, schedule.rounds):
        cohort = schedule.selection(setting.federation, schedule.cohort, setting.seed, round_index)
        with one_thread():
            record = loop.round(state, cohort, schedule.test_share(round_index + 1))
        state = record.state
        yield record


def initial_state(setting: Setting, clock: float = 0.0) -> State:
    """Return the state before the first round, at this virtual time in seconds."""
    initial, method = setting.task.initial, setting.method
    extras, optimizer = method.algorithm.extras(initial), method.server.init(initial)
    server = Server(initial, extras, optimizer, 0, len(setting.federation.parties), {}, setting.task.buffers)
    return State(server, clock=clock)


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread and treat denormal numbers as 0.

    Then neither the number of cores nor tiny values change results or speed: sums that are split over threads round
    differently, and processors take ten times as long to calculate with denormal numbers. The momentum of a weight that
    gets no gradient any more shrinks to such a number within some 800 steps.
    """
    threads, flush_before = torch.get_num_threads(), not torch.full((1,), 1e-40).mul(1).item()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flush_before)


@dataclass(frozen=True)
class _Loop:
    """One round after another: each method is a step of a round, or reports on it."""

    schedule: Schedule

    @property
    def setting(self) -> Setting:
        return self.schedule.setting

    @property
    def prelude(self) -> Prelude:
        return self.schedule.prelude or Prelude()

    def round(self, state: State, cohort: tuple[int, ...], test_share: float | int) -> RoundRecord:
        """Run one round and test the model on a share of the test rows; 0 for no test."""
        schedule, setting, watch, tally = self.schedule, self.setting, Stopwatch(), Tally()
        probe = ModelProbe(setting, schedule.engine, state, self._full_exchange_bytes(state.server))
        orders = schedule.controller.steer(state.server, state.controller, probe)
        watch.lap("control")
        server = replace(state.server, knobs=orders.knobs)
        broadcast = setting.sent(server)
        memory = {party: state.memory.get(party, {}) for party in cohort}
        engine, replies = schedule.engine.train(LocalRound(setting, broadcast), memory)
        update = setting.method.aggregate(tally.updates(replies))
        watch.lap("parties")
        server, sum_bytes = self._server_step(server, update, tally.model_parts)
        traffic = self._traffic(tally, broadcast.nbytes, sum_bytes, len(cohort))
        clock = state.clock + traffic.seconds + schedule.network.seconds(0, probe.largest)
        spent = state.spent + traffic.up + traffic.down + probe.nbytes
        after = State(server, _merged_memories(state.memory, tally.memory), clock, spent, orders.memory)
        watch.lap("aggregate")
        scores = evaluated(setting, schedule.engine, after, test_share) if test_share else {}
        watch.lap("evaluate")
        is_first, prelude = state.server.round == 0, self.prelude
        return RoundRecord(
            round=server.round,
            accuracy=scores.get("accuracy"),
            class_accuracy=scores.get("class_accuracy"),
            accuracy_std=scores.get("accuracy_std"),
            loss=scores.get("loss"),
            validation=scores.get("validation"),
            validation_loss=scores.get("validation_loss"),
            metrics=scores.get("metrics", {}),
            party_accuracy=scores.get("party_accuracy"),
            train_loss=tally.loss,
            cohort=cohort,
            steps=tally.steps,
            bytes_up=traffic.up + probe.nbytes,
            bytes_down=traffic.down + (prelude.bytes_down if is_first else 0),
            clock=clock,
            knobs=server.knobs,
            engine=str(engine),
            workers=max(1, engine.workers),
            seconds=_phases(tally.seconds, watch.laps, max(1, engine.workers)),
            state=after,
            measures=prelude.measures if is_first else {},
            control=orders.report,
        )

    def _traffic(self, tally: Tally, broadcast: int, sum_bytes: int, parties: int) -> Traffic:
        """Return the traffic of a round; in lockstep parties know the last model, and need only the sum."""
        algorithm = self.setting.method.algorithm
        if algorithm.silent:
            return Traffic()
        answer = sum_bytes if algorithm.lockstep else broadcast
        return self.schedule.network.exchange(tally.sent, tally.largest, answer, parties)

    def _full_exchange_bytes(self, server: Server) -> int:
        """Return the bytes of a round in which every party sends all of its model, and is answered."""
        sent, parties = self.setting.sent(server), len(self.setting.federation.parties)
        traffic = self.schedule.network.exchange(sent.nbytes * parties, sent.nbytes, sent.nbytes, parties)
        return traffic.up + traffic.down

    def _server_step(self, server: Server, update: Update, model_parts: frozenset[str]) -> tuple[Server, int]:
        """Decode the sum, let the algorithm absorb it and the server optimizer step; return also the sum's bytes."""
        next_round = server.round + 1
        if update.is_empty:
            return replace(server, round=next_round), 0
        sum_bytes = update.nbytes
        parts = dict(update.total)
        buffers = parts.pop(BUFFERS) / update.weight if BUFFERS in parts else server.buffers
        update = replace(update, total=parts)
        context = Context(self.setting.seed, server.round, -1, self.setting.shared, server.knobs)
        method = self.setting.method
        for transform in reversed(() if method.algorithm.silent else method.transforms):
            update = transform.decode(update, context)
        direction, extras = method.algorithm.absorb(server, self.setting.with_personal(update, model_parts))
        params, optimizer = method.server.apply(server.params, direction, server.optimizer)
        after = replace(server, params=params, buffers=buffers, extras=extras, optimizer=optimizer, round=next_round)
        return after, sum_bytes


def _merged_memories(
    before: Mapping[int, PartyMemory], changed: Mapping[int, PartyMemory]
) -> Mapping[int, PartyMemory]:
    """Return the memories of parties after a round; only parties that have any are listed."""
    after = dict(before)
    for party, memory in changed.items():
        if memory:
            after[party] = memory
        else:
            after.pop(party, None)
    return after


def _phases(parties: Mapping[str, float], laps: Mapping[str, float], workers: int) -> dict[str, float]:
    """Return seconds of the clock by phase. Parties work side by side: their seconds are divided by the workers."""
    shares = {phase: spent / workers for phase, spent in parties.items()}
    idle = max(0.0, laps["parties"] - sum(shares.values()))
    others = {phase: spent for phase, spent in laps.items() if phase != "parties"}
    return {**shares, "idle": idle, **others}
