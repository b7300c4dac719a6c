"""Parties trained by the native step: one call each, on as many threads as there are workers, over the same rows.

What is drawn or decided (orders of rows, shifted pictures, pulls, messages) is so in the main thread; threads compute.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from silobench.data.augment import draw_windows
from silobench.engines.kernel import Rows, Rule, Shape, Walk, native
from silobench.federation import Part
from silobench.method.solvers import Problem
from silobench.method.types import Memory, Pull, Vector, at
from silobench.models.architectures import Cnn, Mlp
from silobench.tasks.score import Score
from silobench.tasks.task import Weights
from silobench.training.party import LocalRound, reply_of_deltas, sends_deltas_alone
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply
from silobench.training.stopwatch import Stopwatch

T = TypeVar("T")
_AHEAD = 8  # parties a thread that are begun, or finished and not yet asked for


def can_run(setting: Setting) -> bool:
    """Whether the native step can train and test this: one of its networks on rows it can read, at most a pull."""
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


def train(here: LocalRound, memory: Mapping[int, PartyMemory], threads: int) -> Iterator[Reply]:
    """The replies of all parties that `memory` names, the longest first."""
    rows = here.setting.solver.rows
    parties = sorted(memory, key=lambda party: (-rows(here.party(party).samples), party))
    all_rows = _rows_of(here.setting.federation.x, here.setting.federation.y)
    trainings = (_Training.of(here, party, memory[party], all_rows) for party in parties)
    finished = _finished(trainings, _Training.run, threads)
    if sends_deltas_alone(here.setting.method):
        yield _sum_of_deltas(finished)
        return
    for training, loss in finished:
        yield training.reply(here, memory[training.party], loss)


def _sum_of_deltas(finished: "Iterator[tuple[_Training, float]]") -> Reply:
    """FedAvg's messages, added up as they come."""
    owns: dict[int, Memory] = {}
    delta, weight, losses, seconds, steps = torch.zeros(()), 0.0, 0.0, 0.0, 0
    for training, loss in finished:
        began, samples = time.perf_counter(), float(training.problem.party.samples)
        moved = torch.from_numpy(training.params).sub_(training.start)
        delta = delta.add_(moved, alpha=samples) if owns else moved.mul_(samples)
        owns[training.party] = training.own
        weight, losses, steps = weight + samples, losses + loss * samples, steps + len(training.walk.sizes)
        seconds += training.seconds + time.perf_counter() - began
    return reply_of_deltas(delta, weight, owns, losses, steps, seconds)


@dataclass
class _Training:
    """One party's, ready to run."""

    party: int
    problem: Problem
    own: Memory
    start: Vector
    shape: Shape
    rows: Rows
    walk: Walk
    rule: Rule
    params: NDArray[np.float32]
    velocity: NDArray[np.float32] | None  # None where it is not kept
    seconds: float  # that getting ready and running took

    @classmethod
    def of(cls, here: LocalRound, party: int, memory: PartyMemory, rows: Rows) -> "_Training":
        began, setting, server = time.perf_counter(), here.setting, here.server
        own, problem, solver = here.own(memory), here.problem(party), setting.solver
        start, shape = setting.method.algorithm.start(server, own), _shape(setting)
        assert shape is not None
        order, sizes = solver.order(problem, server.round)
        windows = None
        if setting.federation.dataset.augment == "crop-flip":
            with here.drawing(party):
                windows = np.concatenate([draw_windows(size).numpy() for size in sizes])
        velocity = None
        if solver.keep_momentum:
            velocity = memory["solver"]["momentum"].clone() if "solver" in memory else torch.zeros_like(start)
        return cls(
            party,
            problem,
            own,
            start,
            shape,
            rows,
            Walk(order.numpy(), sizes, windows),
            _rule(at(solver.lr, server), solver.momentum, solver.weight_decay, here.pull(own)),
            start.clone().numpy(),
            None if velocity is None else velocity.numpy(),
            time.perf_counter() - began,
        )

    def run(self) -> float:
        """All steps; gives their mean loss."""
        began = time.perf_counter()
        loss = native().kernel.train(self.shape, self.rows, self.walk, self.rule, self.params, self.velocity)
        self.seconds += time.perf_counter() - began
        return loss

    def reply(self, here: LocalRound, memory: PartyMemory, loss: float) -> Reply:
        end, solver = torch.from_numpy(self.params), here.setting.solver
        local = solver.local(self.problem, self.start, end, len(self.walk.sizes), self.rule.lr, loss, self.gradient)
        momentum = {} if self.velocity is None else {"momentum": torch.from_numpy(self.velocity)}
        watch = Stopwatch(self.seconds)
        return here.reply(self.party, memory, self.own, local, momentum, here.server.buffers, watch)

    def gradient(self, params: Vector) -> Vector:
        """Over all rows of the party, weight decay included: the velocity after one step that goes nowhere."""
        found, still, rows = np.zeros_like(self.params), params.clone().numpy(), self.problem.party.rows.numpy()
        rule = Rule(lr=0.0, decay=self.rule.decay)
        native().kernel.train(self.shape, self.rows, Walk(rows, (len(rows),)), rule, still, found)
        return torch.from_numpy(found)


def _rule(lr: float, momentum: float, decay: float, pull: Pull) -> Rule:
    vectors = (None if v is None else v.contiguous().numpy() for v in (pull.anchor, pull.linear, pull.drift))
    return Rule(lr, momentum, decay, pull.strength, *vectors)


def _rows_of(x: "Tensor | sparse.csr_matrix", y: Tensor) -> Rows:
    if isinstance(x, Tensor):
        return Rows(x.numpy(), y.numpy())
    return Rows((x.data, x.indices, x.indptr), y.numpy())


def score(setting: Setting, models: Sequence[Weights], parts: Sequence[Part], threads: int) -> list[Score]:
    """The score of every model on all parts, which are added in their order."""
    shape, federation = _shape(setting), setting.federation
    assert shape is not None

    def run(job: tuple[Vector, Part, Rows]) -> Score:
        params, part, rows = job
        hits, loss = native().kernel.score(shape, rows, part.rows.numpy(), params.contiguous().numpy())
        return Score(hits, loss, np.bincount(rows.labels[part.rows.numpy()], minlength=len(hits)))

    jobs = ((params, part, _rows_of(*federation.source(part))) for params, _ in models for part in parts)
    scores = [found for _, found in _finished(jobs, run, threads)]
    of_models = (scores[begin : begin + len(parts)] for begin in range(0, len(scores), len(parts)))
    return [sum(of_model, Score()) for of_model in of_models]


def _finished(jobs: Iterable[T], run: Callable[[T], Any], threads: int) -> Iterator[tuple[T, Any]]:
    """Every job with its result, in their order; some are begun ahead of what is asked for."""
    if threads < 2:
        yield from ((job, run(job)) for job in jobs)
        return
    begun: deque[tuple[T, Future[Any]]] = deque()
    try:
        for job in jobs:
            begun.append((job, _pool(threads).submit(run, job)))
            if len(begun) >= _AHEAD * threads:
                first, future = begun.popleft()
                yield first, future.result()
        while begun:
            first, future = begun.popleft()
            yield first, future.result()
    finally:
        for _, future in begun:  # who stops, or is stopped by an error, does not wait for the rest
            future.cancel()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "silobench")
