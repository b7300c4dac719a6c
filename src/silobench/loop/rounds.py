"""The round loop: a generator of `RoundRecord`. It writes nothing and stops when its caller stops asking."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from silobench.engines import Engine, inline
from silobench.errors import ConfigError
from silobench.federation import Federation
from silobench.loop.network import Network, Traffic, link
from silobench.loop.probe import Travels
from silobench.method.control import Controller
from silobench.method.controllers import fixed
from silobench.method.method import Method
from silobench.method.selection import Selection, cohort_size, uniform
from silobench.method.types import Context, Server, Update
from silobench.processes import keep_memory
from silobench.tasks.score import Score
from silobench.tasks.task import Task, Weights
from silobench.training.party import LocalRound
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import PartyMemory, Reply, RoundRecord, State
from silobench.training.stopwatch import Stopwatch


def rounds(
    method: Method,
    federation: Federation,
    task: Task,
    *,
    seed: int = 0,
    rounds: int = 50,
    participation: float | int = 1.0,
    selection: Selection | None = None,
    eval_every: int = 1,
    eval_on: float | int = 1.0,
    engine: Engine | None = None,
    controller: Controller | None = None,
    network: Network | None = None,
    state: State | None = None,
) -> Iterator[RoundRecord]:
    """Run a method over a federation, one record a round; `state` goes on from an earlier record's.

    `participation` is a fraction of the parties, or a count if it is an integer; `selection` draws them, uniformly by
    default. The model is tested every `eval_every` rounds on `eval_on` of the test rows (a fraction, or a count), and
    after the last round on all of them.
    """
    if method.algorithm.pooled:
        federation, participation = federation.pooled(), 1.0
    if eval_every < 1 or eval_on <= 0:
        raise ConfigError(
            f"eval_every is {eval_every} and eval_on {eval_on}: evaluate every round (1) or every so many, on a "
            "fraction of the test rows above 0 or a count of at least 1."
        )
    keep_memory()
    setting = Setting(method, federation, task, seed)
    controller = steering(controller or fixed(), method)
    loop = _Loop(setting, (engine or inline()).settled(setting), controller, network or link())
    state = state or beginning(method, federation, task)
    choose, size = selection or uniform(), cohort_size(len(federation.parties), participation)
    check_cohort(method, size, len(federation.parties))
    for now in range(state.server.round, rounds):
        cohort = choose(federation, size, seed, now)
        share = 1.0 if now + 1 == rounds else eval_on if (now + 1) % eval_every == 0 else 0
        with steady():
            record = loop.round(state, cohort, share)
        state = record.state
        yield record


def check_cohort(method: Method, cohort: int, parties: int) -> None:
    """Refuse to leave parties out where each goes on from what all others said in every round before."""
    if method.algorithm.lockstep and cohort < parties:
        raise ConfigError(
            f"{cohort} of {parties} parties would take part in a round, but this algorithm exchanges minibatch by "
            "minibatch between all of them: leave participation at 1.0."
        )


def steering(controller: Controller, method: Method) -> Controller:
    """The controller at the dials of a method."""
    dials = [*method.algorithm.dials, *(dial for transform in method.transforms for dial in transform.dials)]
    return controller.dialled(dials) if controller.dialled else controller


def beginning(method: Method, federation: Federation, task: Task, clock: float = 0.0) -> State:
    """The state before the first round, after so many virtual seconds."""
    extras, optimizer = method.algorithm.extras(task.initial), method.server.init(task.initial)
    server = Server(task.initial, extras, optimizer, 0, len(federation.parties), {}, task.buffers)
    return State(server, clock=clock)


@contextmanager
def steady() -> Iterator[None]:
    """The same bits on every machine's cores, in a time that does not depend on the numbers.

    Sums split over threads round differently, so there is one thread. And the momentum of a weight that gets no
    gradient any more shrinks until, some 800 steps later, it is a denormal number, with which processors calculate
    ten times as slowly: such numbers count as 0.
    """
    threads, flushes = torch.get_num_threads(), not torch.full((1,), 1e-40).mul(1).item()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushes)


@dataclass(frozen=True)
class _Loop:
    setting: Setting
    engine: Engine
    controller: Controller
    network: Network

    def round(self, state: State, cohort: tuple[int, ...], tested: float | int) -> RoundRecord:
        """One round, tested on a share of the test rows; 0 for not at all."""
        method, watch, gathered = self.setting.method, Stopwatch(), _Gathered()
        probe = Travels(self.setting, self.engine, state, self._whole(state.server))
        orders = self.controller.steer(state.server, state.controller, probe)
        watch.lap("control")
        server = replace(state.server, knobs=orders.knobs)
        sent = self.setting.sent(server)
        kept = {party: state.memory.get(party, {}) for party in cohort}
        engine, replies = self.engine.train(LocalRound(self.setting, sent), kept)
        update = method.aggregate(gathered.updates(replies))
        watch.lap("parties")
        server, answer = self._server_step(server, update)
        traffic = Traffic()
        if not method.algorithm.silent:
            answer = answer if method.algorithm.lockstep else sent.nbytes
            traffic = self.network.exchange(gathered.bytes, gathered.largest, answer, len(cohort))
        clock = state.clock + traffic.seconds + self.network.seconds(0, probe.largest)
        spent = state.spent + traffic.up + traffic.down + probe.nbytes
        after = State(server, _remembered(state.memory, gathered.memory), clock, spent, orders.memory)
        watch.lap("aggregate")
        scores = self._scores(after, tested) if tested else {}
        watch.lap("evaluate")
        return RoundRecord(
            round=server.round,
            accuracy=scores.get("accuracy"),
            class_accuracy=scores.get("class_accuracy"),
            accuracy_std=scores.get("accuracy_std"),
            loss=scores.get("loss"),
            validation=scores.get("validation"),
            party_accuracy=scores.get("party_accuracy"),
            train_loss=gathered.loss / gathered.weight,
            cohort=cohort,
            steps=gathered.steps,
            bytes_up=traffic.up + probe.nbytes,
            bytes_down=traffic.down,
            clock=clock,
            knobs=server.knobs,
            engine=str(engine),
            workers=max(1, engine.workers),
            seconds=_phases(gathered.seconds, watch.laps, max(1, engine.workers)),
            state=after,
            control=orders.told,
        )

    def _whole(self, server: Server) -> int:
        """The bytes of a round in which every party says all of its model, and is answered."""
        sent, parties = self.setting.sent(server), len(self.setting.federation.parties)
        traffic = self.network.exchange(sent.nbytes * parties, sent.nbytes, sent.nbytes, parties)
        return traffic.up + traffic.down

    def _server_step(self, server: Server, update: Update) -> tuple[Server, int]:
        """Decode the sum, let the algorithm absorb it and the server optimizer move.

        Gives also the bytes of the sum: what parties must be told who know the model of the round before.
        """
        done = server.round + 1
        if update.says_nothing:
            return replace(server, round=done), 0
        said = update.nbytes
        parts = dict(update.total)
        buffers = parts.pop(BUFFERS) / update.weight if BUFFERS in parts else server.buffers
        update = replace(update, total=parts)
        context = Context(self.setting.seed, server.round, -1, self.setting.shared, server.knobs)
        method = self.setting.method
        for transform in reversed(() if method.algorithm.silent else method.transforms):
            update = transform.decode(update, context)
        direction, extras = method.algorithm.absorb(server, self.setting.with_personal(update))
        params, optimizer = method.server.apply(server.params, direction, server.optimizer)
        after = replace(server, params=params, buffers=buffers, extras=extras, optimizer=optimizer, round=done)
        return after, said

    def _scores(self, state: State, tested: float | int) -> dict[str, Any]:
        """The shared model on the test rows; where parties have their own, the mean over those."""
        federation, server, apart = self.setting.federation, state.server, self.setting.own_models
        models = self._replicas(state) if apart else [(server.params, server.buffers)]
        scores = self.engine.score(self.setting, models, federation.test_parts(tested))
        accuracy = np.array([score.accuracy for score in scores])
        found: dict[str, Any] = {
            "accuracy": float(accuracy.mean()),
            "loss": float(np.mean([score.loss for score in scores])),
            "class_accuracy": sum(scores, Score()).by_class,
        }
        if apart:
            found["accuracy_std"] = float(accuracy.std())
        if any(len(party.validation) for party in federation.parties):
            found |= self._validated(models)
        return found

    def _validated(self, models: Sequence[Weights]) -> dict[str, Any]:
        """Each party's accuracy on the rows that it keeps aside, by its own model or the shared one."""
        parties, score = self.setting.federation.parties, self.engine.score
        own = models if len(models) == len(parties) else [models[0]] * len(parties)
        parts = map(self.setting.federation.validation_parts, parties)
        jobs = zip(own, parts, strict=True)
        scores = [score(self.setting, [model], some)[0] if some else None for model, some in jobs]
        accuracies = tuple(score and score.accuracy for score in scores)
        return {"validation": sum(filter(None, scores), Score()).accuracy, "party_accuracy": accuracies}

    def _replicas(self, state: State) -> list[Weights]:
        """The model of every party."""
        kept = [state.memory.get(party.id, {}) for party in self.setting.federation.parties]
        return [self.setting.model_at(state.server, memory) for memory in kept]


def _remembered(before: Mapping[int, PartyMemory], changed: Mapping[int, PartyMemory]) -> Mapping[int, PartyMemory]:
    """What parties keep after a round; only those that keep anything are listed."""
    after = dict(before)
    for party, kept in changed.items():
        if kept:
            after[party] = kept
        else:
            after.pop(party, None)
    return after


class _Gathered:
    """What the replies of a round add up to, besides their updates."""

    def __init__(self) -> None:
        self.memory: dict[int, PartyMemory] = {}
        self.seconds: dict[str, float] = {}
        self.bytes = self.largest = self.steps = 0
        self.loss = self.weight = 0.0

    def updates(self, replies: Iterable[Reply]) -> Iterator[Update]:
        for reply in replies:
            self.bytes, self.largest = self.bytes + reply.sent, max(self.largest, reply.largest)
            self.steps += reply.steps
            self.loss += reply.loss * reply.update.weight
            self.weight += reply.update.weight
            self.memory |= reply.memory
            for phase, spent in reply.seconds.items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + spent
            yield reply.update


def _phases(parties: Mapping[str, float], laps: Mapping[str, float], workers: int) -> dict[str, float]:
    """Seconds of the clock by phase. What parties did side by side counts by its share: they add up to the round."""
    own = {phase: spent / workers for phase, spent in parties.items()}
    idle = max(0.0, laps["parties"] - sum(own.values()))
    others = {phase: spent for phase, spent in laps.items() if phase != "parties"}
    return {**own, "idle": idle, **others}
