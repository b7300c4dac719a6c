"""Train parties by the native step: one call per party, on several threads, over the same rows.

The main thread draws orders and shifts, and makes pulls and messages. The other threads only compute.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar
from weakref import ref

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.data.augment import draw_windows
from silobench.engines.failures import located
from silobench.engines.kernel import Rows, Rule, Shape, Walk, native
from silobench.engines.kernel.batches import Batch, Source, can_batch, rule_of
from silobench.federation import Federation, Part
from silobench.method.solvers import Problem
from silobench.method.types import Memory, Vector, at
from silobench.models.architectures import Cnn, Mlp
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound, reply_of_deltas, sends_only_deltas
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply
from silobench.training.stopwatch import Stopwatch

T = TypeVar("T")
_AHEAD = 8  # parties per thread that may be under way or waiting for their turn


def can_run(setting: Setting) -> bool:
    """Whether the native step supports this network, its rows and the algorithm's correction."""
    dataset = setting.federation.dataset
    if not setting.is_affine or _shape(setting) is None or dataset.task == "verification":
        return False
    if dataset.augment != "none" and not isinstance(setting.task.network.module, Cnn):
        return False
    return all(map(_can_read, (dataset.train.x, dataset.test.x)))


def _can_read(x: Any) -> bool:
    if sparse.issparse(x):
        return bool(x.dtype == np.float32 and max(x.nnz, x.shape[1]) <= np.iinfo(np.int32).max)
    return x.dtype.name in ("float32", "uint8")


def _shape(setting: Setting) -> Shape | None:
    module, pictures = setting.task.network.module, setting.federation.dataset.shape
    if isinstance(module, Mlp):
        return Shape(module.widths)
    if isinstance(module, Cnn) and not setting.federation.is_sparse:
        channels, height, width = pictures
        return Shape(module.widths, (channels, height, width), module.padding)
    return None


def batch_of(local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> Batch | None:
    """Return the batch in which these parties are trained together; None if each needs a call of its own."""
    shape = _shape(local_round.setting)
    assert shape is not None
    if not can_batch(local_round, memory, shape):
        return None
    return Batch.of(local_round, memory, shape, _source(local_round.setting.federation))


def train(local_round: LocalRound, memory: Mapping[int, PartyMemory], threads: int) -> Iterator[Reply]:
    """Train the parties in `memory` and yield their replies, those with most rows first."""
    setting = local_round.setting
    rows, shape, visits = _source(setting.federation).rows, _shape(setting), setting.solver.rows
    assert shape is not None
    parties = sorted(memory, key=lambda party: (-visits(local_round.party(party).samples), party))
    trainings = (_prepared(local_round, party, memory[party], rows, shape) for party in parties)
    finished = _finished(trainings, partial(_run, local_round), threads)
    if sends_only_deltas(setting):
        yield _sum_of_deltas(finished)
        return
    for training, loss in finished:
        try:
            reply = training.reply(local_round.at(memory[training.party]), memory[training.party], loss)
        except Exception as error:
            raise located(error, local_round, [training.party])  # noqa: B904  # it has its cause
        yield reply


def _prepared(local_round: LocalRound, party: int, memory: PartyMemory, rows: Rows, shape: Shape) -> "_Training":
    try:
        return _Training.of(local_round.at(memory), party, memory, rows, shape)
    except Exception as error:
        raise located(error, local_round, [party])  # noqa: B904  # it has its cause


def _run(local_round: LocalRound, training: "_Training") -> float:
    try:
        return training.run()
    except Exception as error:
        raise located(error, local_round, [training.party])  # noqa: B904  # it has its cause


def _sum_of_deltas(finished: "Iterator[tuple[_Training, float]]") -> Reply:
    """Add up FedAvg's messages as they come, into one reply."""
    memories: dict[int, Memory] = {}
    delta, weight, losses, steps, seconds = torch.zeros(()), 0.0, 0.0, 0, dict[int, float]()
    for training, loss in finished:
        began, samples = time.perf_counter(), float(training.problem.party.samples)
        moved = torch.from_numpy(training.params).sub_(training.start)
        delta = delta.add_(moved, alpha=samples) if memories else moved.mul_(samples)
        memories[training.party] = training.memory
        weight, losses, steps = weight + samples, losses + loss * samples, steps + len(training.walk.sizes)
        seconds[training.party] = training.seconds + time.perf_counter() - began
    return reply_of_deltas(delta, weight, memories, losses, steps, seconds)


@dataclass
class _Training:
    """One party's training, ready to run."""

    party: int
    problem: Problem
    memory: Memory  # of the algorithm
    start: Vector
    shape: Shape
    rows: Rows
    walk: Walk
    rule: Rule
    params: NDArray[np.float32]
    velocity: NDArray[np.float32] | None  # None unless the solver keeps momentum between rounds
    seconds: float  # spent on preparing and running

    @classmethod
    def of(cls, local_round: LocalRound, party: int, memory: PartyMemory, rows: Rows, shape: Shape) -> "_Training":
        began, setting, server = time.perf_counter(), local_round.setting, local_round.server
        algorithm_memory, problem, solver = setting.algorithm_memory(memory), local_round.problem(party), setting.solver
        start = setting.method.algorithm.start(server, algorithm_memory)
        order, sizes = solver.order(problem, server.round)
        windows = None
        if setting.federation.dataset.augment == "crop-flip":
            with local_round.seeded(party):
                windows = np.concatenate([draw_windows(size).numpy() for size in sizes])
        velocity = None
        if solver.keep_momentum:
            velocity = memory["solver"]["momentum"].clone() if "solver" in memory else torch.zeros_like(start)
        return cls(
            party,
            problem,
            algorithm_memory,
            start,
            shape,
            rows,
            Walk(order.numpy(), sizes, windows),
            rule_of(at(solver.lr, server), solver.momentum, solver.weight_decay, local_round.pull(algorithm_memory)),
            start.clone().numpy(),
            None if velocity is None else velocity.numpy(),
            time.perf_counter() - began,
        )

    def run(self) -> float:
        """Take all steps; return their mean loss."""
        began = time.perf_counter()
        loss = native().kernel.train(self.shape, self.rows, self.walk, self.rule, self.params, self.velocity)
        self.seconds += time.perf_counter() - began
        return loss

    def reply(self, local_round: LocalRound, memory: PartyMemory, loss: float) -> Reply:
        end, solver = torch.from_numpy(self.params), local_round.setting.solver
        local = solver.local(self.problem, self.start, end, len(self.walk.sizes), self.rule.lr, loss, self.gradient)
        momentum = {} if self.velocity is None else {"momentum": torch.from_numpy(self.velocity)}
        buffers, watch = local_round.server.buffers, Stopwatch(self.seconds)
        return local_round.reply(self.party, memory, self.memory, local, momentum, buffers, watch)

    def gradient(self, params: Vector) -> Vector:
        """Return the gradient over all rows of the party, with weight decay: the velocity after a step of rate 0."""
        velocity, unmoved, rows = np.zeros_like(self.params), params.clone().numpy(), self.problem.party.rows.numpy()
        rule = Rule(lr=0.0, decay=self.rule.decay)
        native().kernel.train(self.shape, self.rows, Walk(rows, (len(rows),)), rule, unmoved, velocity)
        return torch.from_numpy(velocity)


_LAST: list[tuple[ref[Federation], Source]] = []  # of the last federation: a source takes as long as a small party


def _source(federation: Federation) -> Source:
    for last, source in _LAST:
        if last() is federation:
            return source
    source = Source.of(_rows_of(federation.x, federation.y), federation.parties)
    _LAST[:] = [(ref(federation, lambda _: _LAST.clear()), source)]
    return source


def _rows_of(x: "Tensor | sparse.csr_matrix", y: Tensor) -> Rows:
    if isinstance(x, Tensor):
        return Rows(x.numpy(), y.numpy())
    return Rows((x.data, x.indices, x.indptr), y.numpy())


def score(setting: Setting, models: Sequence[Weights], parts: Sequence[Part], threads: int) -> list[Score]:
    """Return the score of every model on all parts, which are summed in their order."""
    shape, federation = _shape(setting), setting.federation
    assert shape is not None

    def run(job: tuple[Vector, Part, Rows]) -> Score:
        params, part, rows = job
        hits, loss = native().kernel.score(shape, rows, part.rows.numpy(), params.contiguous().numpy())
        return Score(hits, loss, np.bincount(rows.labels[part.rows.numpy()], minlength=len(hits)))

    jobs = ((params, part, _rows_of(*federation.source(part))) for params, _ in models for part in parts)
    scores = [score for _, score in _finished(jobs, run, threads)]
    of_models = (scores[begin : begin + len(parts)] for begin in range(0, len(scores), len(parts)))
    return [sum(of_model, Score()) for of_model in of_models]


def _finished(jobs: Iterable[T], run: Callable[[T], Any], threads: int) -> Iterator[tuple[T, Any]]:
    """Yield every job with its result, in order; a few jobs run ahead of the consumer."""
    if threads < 2:
        yield from ((job, run(job)) for job in jobs)
        return
    pending: deque[tuple[T, Future[Any]]] = deque()
    try:
        for job in jobs:
            pending.append((job, _pool(threads).submit(run, job)))
            if len(pending) >= _AHEAD * threads:
                first, future = pending.popleft()
                yield first, future.result()
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        for _, future in pending:  # after an error or an early stop the rest is not needed
            future.cancel()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "silobench")
