"""`Executor`: where jobs run. A job is a function and its arguments; results do not depend on where it runs.

An executor is a value in the registry `EXECUTORS`. To add one, write a class with the members of `Executor` and
register a function that returns it; see docs/engines.md.
"""

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from silobench.errors import ConfigError
from silobench.method.types import Count
from silobench.spec import Registry
from silobench.spec.contract import Contract, Origin, described
from silobench.training.state import PartyMemory


@dataclass(frozen=True)
class Job:
    """A call ``function(*shared, *arguments)``. A shared value is sent to each worker once, not once per job.

    If the function is a generator, each value that it yields is sent back at once.
    """

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    arguments: tuple[Any, ...]
    cost: float = 1.0  # in any unit; the most expensive job starts first

    def __call__(self) -> Any:
        return self.function(*self.shared, *self.arguments)


@dataclass(frozen=True)
class News:
    """A value from a job: an intermediate one, or its result."""

    job: int
    value: Any
    final: bool


class Memories(Protocol):
    """Where the memories of parties are stored between rounds.

    `stored` is the mapping in `State.memory`, which checkpoints write: it must have the memories of all parties
    whenever a record is yielded. An executor whose workers keep memories can send less with each job.
    """

    def of(self, stored: Mapping[int, PartyMemory], parties: Iterable[int]) -> Mapping[int, PartyMemory]:
        """Return the memory of each of these parties, to send with their jobs; empty for a party without any."""

    def put(self, stored: Mapping[int, PartyMemory], changed: Mapping[int, PartyMemory]) -> Mapping[int, PartyMemory]:
        """Return the stored memories after a round in which those in `changed` came back."""


class InState:
    """Memories in the state of the server: they travel to a worker with each job and return with the reply."""

    def of(self, stored: Mapping[int, PartyMemory], parties: Iterable[int]) -> dict[int, PartyMemory]:
        return {party: stored.get(party, {}) for party in parties}

    def put(self, stored: Mapping[int, PartyMemory], changed: Mapping[int, PartyMemory]) -> dict[int, PartyMemory]:
        """Return the memories after a round; only parties that have any are listed."""
        after = dict(stored)
        for party, memory in changed.items():
            if memory:
                after[party] = memory
            else:
                after.pop(party, None)
        return after


class Executor(Protocol):
    """A place where jobs run."""

    @property
    def workers(self) -> int:
        """How many jobs run at the same time."""

    @property
    def memories(self) -> Memories:
        """Where the memories of parties are stored between rounds."""

    def start(self) -> None:
        """Start all workers, so that the first job does not wait for them."""

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yield the result of every job in the order of the jobs, as early as that order allows.

        An error of a job is raised as it is, with the traceback of its worker as a note.
        """

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        """Run all jobs and yield their values as they come. Closing the iterator stops the jobs."""


@dataclass(frozen=True)
class InProcess:
    """An executor that runs one job after another in this process."""

    workers: int = 1
    memories: Memories = InState()  # noqa: RUF009  # it has no state

    def start(self) -> None:
        pass

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        return (job() for job in jobs)

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        for place, job in enumerate(jobs):
            result = job()
            if isinstance(result, Generator):
                yield from (News(place, value, final=False) for value in result)
                result = None
            yield News(place, result, final=True)


def _complete(executor: Any, origin: Origin) -> None:
    """Refuse an executor that lacks a member."""
    missing = [name for name in ("workers", "memories", "start", "results", "news") if not hasattr(executor, name)]
    if missing:
        raise ConfigError(f"{origin} returned {described(executor)} without {', '.join(missing)}: see docs/engines.md.")


EXECUTORS: Registry[Executor] = Registry("executor", Contract(object, "an sb.Executor", trial=_complete))


@EXECUTORS.register
def here(workers: Count = 1) -> Executor:
    """Run one job after another in this process, whatever the number of workers."""
    return InProcess()


@functools.cache
def executor_of(spec: str, workers: int | None) -> Executor:
    """Return the command's only executor of this spec with `workers` workers; None for as many as it has room for."""
    full = EXECUTORS.bind(spec).full
    return EXECUTORS.factories[full.name](**{**dict(full.kwargs), "workers": workers})


@dataclass(frozen=True)
class Dispatch:
    """Which executor a round uses, and from how much work on."""

    executor: str  # a spec of EXECUTORS
    workers: int  # 0 to use this process only
    least: float  # a round with less work than this stays in this process

    def is_worth(self, jobs: int, work: float) -> bool:
        """Whether a round of this many jobs and this much work is large enough for the workers."""
        return self.workers > 0 and jobs > 1 and work >= self.least

    def workers_for(self, jobs: Sequence[Job]) -> int:
        """Return how many workers run these jobs; 0 for this process only."""
        return self.workers if self.is_worth(len(jobs), sum(job.cost for job in jobs)) else 0

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yield the result of every job, in the order of the jobs."""
        workers = self.workers_for(jobs)
        return executor_of(self.executor, workers).results(jobs) if workers else InProcess().results(jobs)
