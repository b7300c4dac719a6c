"""Engines for the matrix: small rounds go to workers as long ones do, and jobs end in a shuffled order."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from silobench.engines import ENGINES, EXECUTORS, Engine, Executor, Job, News
from silobench.engines.executor import InState, executor_of

_LONGEST = 0.01  # seconds that a job waits: about as long as one of the matrix takes


@dataclass(frozen=True)
class Shuffled:
    """The executor `pool` with jobs that start in a random order and wait for a random time, so that any may end first.

    Every call draws another order. The pool is the real one: it has to bring the results back into their order.
    """

    workers: int
    draws: random.Random
    memories: InState = InState()  # noqa: RUF009  # it has no state

    @property
    def _pool(self) -> Executor:
        return executor_of("pool", self.workers)

    def start(self) -> None:
        self._pool.start()

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        return self._pool.results([self._late(job) for job in jobs])

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        return self._pool.news([self._late(job) for job in jobs])

    def _late(self, job: Job) -> Job:
        wait = self.draws.uniform(0.0, _LONGEST)
        return replace(job, function=partial(_call_late, job.function, wait), cost=self.draws.random())


def _call_late(function: Callable[..., Any], wait: float, *arguments: Any) -> Any:
    time.sleep(wait)
    return function(*arguments)


def register() -> None:
    """Register the executor `shuffled` and the engine `eager`, as a plugin does."""

    @EXECUTORS.register
    def shuffled(workers: int = 2, seed: int = 0) -> Executor:
        """Run jobs in worker processes, in a random order."""
        return Shuffled(workers, random.Random(seed))

    @ENGINES.register
    def eager(of: str = "auto", workers: int = 1, executor: str = "pool") -> Engine:
        """Train as another engine does, but send even the shortest round to workers."""
        spec = f"{of}(workers={workers})" if of == "native" else f"{of}(workers={workers}, executor={executor})"
        return replace(ENGINES.build(spec), least=0.0)
