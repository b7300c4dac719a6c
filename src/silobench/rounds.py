"""The round loop: a generator of `RoundRecord`. It writes nothing and stops when its caller stops asking."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from silobench.controllers import fixed
from silobench.engines import inline
from silobench.errors import ConfigError
from silobench.federation import Federation
from silobench.local import BUFFERS, Engine, LocalRound, Stopwatch
from silobench.methods import Method
from silobench.network import Network, link
from silobench.rng import stream
from silobench.task import Task
from silobench.types import (
    Context,
    Controller,
    PartyMemory,
    Reply,
    RoundRecord,
    Server,
    State,
    Update,
)


def rounds(
    method: Method,
    federation: Federation,
    task: Task,
    *,
    seed: int = 0,
    rounds: int = 50,
    participation: float | int = 1.0,
    eval_every: int = 1,
    engine: Engine | None = None,
    controller: Controller | None = None,
    network: Network | None = None,
    state: State | None = None,
) -> Iterator[RoundRecord]:
    """Run a method over a federation, one record a round; `state` goes on from an earlier record's.

    `participation` is a fraction of the parties, or a count if it is an integer.
    """
    loop = _Loop(
        method, federation.pooled() if method.algorithm.pooled else federation, task, seed,
        engine or inline(), controller or fixed(), network or link(),
    )  # fmt: skip
    if method.algorithm.pooled:
        participation = 1.0
    if eval_every < 1:
        raise ConfigError(f"eval_every is {eval_every}: evaluate every round (1) or every so many.")
    state = state or loop.begin()
    for now in range(state.server.round, rounds):
        cohort = draw_cohort(len(loop.federation.parties), participation, seed, now)
        evaluate = (now + 1) % eval_every == 0 or now + 1 == rounds
        with _one_thread():
            record = loop.round(state, cohort, evaluate)
        state = record.state
        yield record


def draw_cohort(parties: int, participation: float | int, seed: int, round: int) -> tuple[int, ...]:
    """The parties of a round, drawn uniformly without replacement, in ascending order."""
    if participation <= 0:
        raise ConfigError(
            f"participation {participation} draws no party: give a fraction above 0 or a count of at least 1."
        )
    if isinstance(participation, int) and participation > parties:
        raise ConfigError(
            f"participation {participation} is a count above the {parties} parties: give at most that many."
        )
    size = participation if isinstance(participation, int) else max(1, round_half_up(participation * parties))
    if size >= parties:
        return tuple(range(parties))
    return tuple(np.sort(stream(seed, "cohort", round).choice(parties, size, replace=False)).tolist())


def round_half_up(value: float) -> int:
    return int(value + 0.5)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums split over threads round differently: one thread gives the same bits on every machine's cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Loop:
    method: Method
    federation: Federation
    task: Task
    seed: int
    engine: Engine
    controller: Controller
    network: Network

    def begin(self) -> State:
        """The state before the first round."""
        params, algorithm = self.task.initial, self.method.algorithm
        extras, optimizer = algorithm.extras(params), self.method.server.init(params)
        return State(Server(params, extras, optimizer, 0, len(self.federation.parties), {}, self.task.buffers))

    def round(self, state: State, cohort: tuple[int, ...], evaluate: bool) -> RoundRecord:
        algorithm, watch, gathered = self.method.algorithm, Stopwatch(), _Gathered()
        server = replace(state.server, knobs=self.controller(state.server))
        sent = server.broadcast(algorithm.broadcast)
        local_round = LocalRound(self.method, self.federation, self.task, sent, self.seed)
        update = self.method.aggregate(gathered.updates(self.engine(local_round, cohort, state.memory)))
        watch.lap("parties")
        server = self._server_step(server, update)
        watch.lap("aggregate")
        down, up, largest_up = (0, 0, 0) if algorithm.silent else (sent.nbytes, gathered.bytes, gathered.largest)
        clock = state.clock + self.network.seconds(down, largest_up)
        memory = {party: kept for party, kept in {**state.memory, **gathered.memory}.items() if kept}
        after = State(server, memory, clock)
        scores = self._scores(after) if evaluate else {}
        watch.lap("evaluate")
        return RoundRecord(
            round=server.round,
            accuracy=scores.get("accuracy"),
            accuracy_std=scores.get("accuracy_std"),
            loss=scores.get("loss"),
            validation=scores.get("validation"),
            train_loss=gathered.loss / gathered.weight,
            cohort=cohort,
            steps=gathered.steps,
            bytes_up=up,
            bytes_down=down * len(cohort),
            clock=clock,
            knobs=server.knobs,
            seconds=_phases(gathered.seconds, watch.laps),
            state=after,
        )

    def _server_step(self, server: Server, update: Update) -> Server:
        """Decode the sum, let the algorithm absorb it and the server optimizer move."""
        parts = dict(update.total)
        buffers = parts.pop(BUFFERS) / update.weight if BUFFERS in parts else server.buffers
        update = replace(update, total=parts)
        context = Context(self.seed, server.round, -1, self.task.network.layout, server.knobs)
        for transform in reversed(() if self.method.algorithm.silent else self.method.transforms):
            update = transform.decode(update, context)
        direction, extras = self.method.algorithm.absorb(server, update)
        params, optimizer = self.method.server.apply(server.params, direction, server.optimizer)
        done = server.round + 1
        return replace(server, params=params, buffers=buffers, extras=extras, optimizer=optimizer, round=done)

    def _scores(self, state: State) -> dict[str, float]:
        """The shared model on the test set; where parties have their own, the mean over those."""
        algorithm, server = self.method.algorithm, state.server
        if algorithm.replica is None:
            models = [(server.params, server.buffers)]
        else:
            fresh = {"algorithm": algorithm.memory(self.task.initial), "network": {"buffers": self.task.buffers}}
            kept = [{**fresh, **state.memory.get(party.id, {})} for party in self.federation.parties]
            models = [(algorithm.replica(server, m["algorithm"]), m["network"]["buffers"]) for m in kept]
        scores = [self.task.evaluate(*model, self.federation.test_batches()) for model in models]
        accuracy = np.array([score.accuracy for score in scores])
        found = {"accuracy": float(accuracy.mean()), "loss": float(np.mean([score.loss for score in scores]))}
        if algorithm.replica is not None:
            found["accuracy_std"] = float(accuracy.std())
        if any(len(party.validation) for party in self.federation.parties) and algorithm.replica is None:
            rows = torch.cat([party.validation for party in self.federation.parties])
            batches = (self.federation.batch(part) for part in rows.split(1000))
            found["validation"] = self.task.evaluate(server.params, server.buffers, batches).accuracy
        return found


class _Gathered:
    """What the replies of a round add up to, besides their updates."""

    def __init__(self) -> None:
        self.memory: dict[int, PartyMemory] = {}
        self.seconds: dict[str, float] = {}
        self.bytes = self.largest = self.steps = 0
        self.loss = self.weight = 0.0

    def updates(self, replies: Iterable[Reply]) -> Iterator[Update]:
        for reply in replies:
            size = reply.update.nbytes
            self.bytes, self.largest = self.bytes + size, max(self.largest, size)
            self.steps += reply.steps
            self.loss += reply.loss * reply.update.weight
            self.weight += reply.update.weight
            self.memory[reply.party] = reply.memory
            for phase, spent in reply.seconds.items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + spent
            yield reply.update


def _phases(parties: Mapping[str, float], laps: Mapping[str, float]) -> dict[str, float]:
    """Seconds by phase. What the engine took beyond the parties' own work went into bringing it together."""
    gathering = max(0.0, laps["parties"] - sum(parties.values()))
    return {**parties, "aggregate": laps["aggregate"] + gathering, "evaluate": laps["evaluate"]}
