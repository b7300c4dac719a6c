"""The executor `ray`: jobs are stateless tasks of a Ray cluster, which repeats those of a lost worker or machine."""

import itertools
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from silobench.engines.cluster import connection
from silobench.engines.cluster.batches import Batch, batches, in_order_of_start
from silobench.engines.cluster.parcels import parcelled
from silobench.engines.cluster.tasks import Order, as_bytes, run_calls, run_generator, this_machine
from silobench.engines.executor import EXECUTORS, Executor, InState, Job, News
from silobench.engines.shipping import packed, unpacked
from silobench.errors import ConfigError, RecordError
from silobench.method.types import Count

_CACHED = 4  # shared values whose parcels stay in the object store
_QUEUED = 2  # tasks per slot that are with the cluster at the same time: one runs, and one waits beside it
_FRESH = 5.0  # seconds after which the cluster is asked again how much room it has
_RETRIES = 3  # of a task whose worker or machine was lost

Cpus = Annotated[float, Field(gt=0.0)]
Gpus = Annotated[float, Field(ge=0.0)]


@EXECUTORS.register
def ray(workers: Count | None = None, address: str = "local", cpus: Cpus = 1.0, gpus: Gpus = 0.0) -> Executor:
    """Run jobs on a Ray cluster: at `address` (auto or HOST:PORT), or one of this machine that ends with the command.

    Each job reserves `cpus` CPUs and `gpus` GPUs. At most `workers` jobs run at the same time.
    """
    return Cluster(address, cpus, gpus, workers)


@dataclass(frozen=True)
class _Shared:
    """A shared value with its place in the object store."""

    key: str
    value: Any
    place: Any  # a reference of Ray; the store has the value as long as it exists


class Cluster:
    """Jobs as tasks of Ray. A task gets all that it needs, and its worker keeps nothing that a result depends on."""

    memories = InState()
    is_remote = True  # whether jobs may run on machines without this disk

    def __init__(self, address: str, cpus: float, gpus: float, limit: int | None = None, retries: int = _RETRIES):
        self.gpus, self._cpus, self._limit, self._retries = gpus, cpus, limit, retries
        connection.connect(address, math.ceil((limit or 0) * cpus))
        self._library = connection.library()
        needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._task = self._library.remote(max_retries=retries, retry_exceptions=False, **needs)(run_calls)
        self._stream = self._library.remote(max_retries=0, num_returns="streaming", **needs)(run_generator)
        self._room, self._until = 0, -math.inf  # what the cluster has room for, and how long that is believed
        self._shared: list[_Shared] = []
        self._keys = (f"{secrets.token_hex(8)}-{number}" for number in itertools.count())

    @property
    def workers(self) -> int:
        """How many jobs run at the same time: what the cluster has room for now, or less where a limit was set."""
        if time.monotonic() >= self._until:
            self._room = connection.slots(self._cpus, self.gpus)
            self._until = time.monotonic() + _FRESH
        return min(self._room, self._limit or self._room)

    def device_workers(self, device: str) -> int:
        """Return how many jobs have a device of this type for themselves: Ray shows a job the GPUs that it reserved."""
        if not self.gpus:
            raise ConfigError(
                f"the device of this run is {device}, but the engine reserves no GPU for a party: give "
                "--gpus-per-party, for example 1."
            )
        return self.workers

    def start(self) -> None:
        """Send a short job for every slot, for which Ray starts workers, so that the first round does not wait."""
        jobs = [Job(time.sleep, (), (0.2,)) for _ in range(self.workers)]
        self._library.get([self._submit(Batch((number,), 1.0), jobs) for number in range(len(jobs))])

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yield the result of every job in the order of the jobs, as early as that order allows.

        Tasks wait at the cluster in small numbers, and results in its object store until it is their turn.
        """
        workers = self.workers
        groups = batches(jobs, workers)
        order, ahead = in_order_of_start(groups, workers)
        refs: dict[int, Any] = {}  # of batches that were sent and not yet received
        running: dict[Any, int] = {}  # those of them that may not be finished
        sent = 0
        try:
            for place in range(len(groups)):
                self._forget_finished(running, timeout=0.0)
                while True:
                    while sent < min(len(order), place + ahead) and len(running) < _QUEUED * workers:
                        number = order[sent]
                        refs[number] = self._submit(groups[number], jobs)
                        running[refs[number]] = number
                        sent += 1
                    if place in refs and refs[place] not in running:
                        break
                    self._forget_finished(running)
                yield from self._received(refs.pop(place))
        finally:
            self._cancel(running)

    def _forget_finished(self, running: dict[Any, int], timeout: float | None = None) -> None:
        """Remove finished tasks; wait until there is one, unless a time is given."""
        if running:
            count = 1 if timeout is None else len(running)
            for ref in self._library.wait(list(running), num_returns=count, timeout=timeout)[0]:
                del running[ref]

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        """Run all jobs, the most expensive first, and yield their news as it comes.

        A job whose worker or machine is lost is sent again. Its losses are counted anew when it goes on, which is after
        its first value: that one only says that it began. Closing the iterator stops the jobs.
        """
        todo = sorted(range(len(jobs)), key=lambda job: jobs[job].cost)  # the most expensive last
        losses = dict.fromkeys(todo, 0)
        running: dict[Any, int] = {}  # jobs by their generators
        silent: set[int] = set()  # jobs without a value since they were sent
        try:
            while todo or running:
                while todo and len(running) < self.workers:
                    job = todo.pop()
                    silent.add(job)
                    running[self._submit(Batch((job,), 1.0), jobs, self._stream)] = job
                (generator,) = self._library.wait(list(running), num_returns=1)[0]
                job = running[generator]
                try:
                    kind, value = _opened(self._library.get(next(generator)))
                except self._library.exceptions.RayError as error:
                    del running[generator]
                    losses[job] += 1
                    if losses[job] > self._retries:
                        raise self._lost(error) from error
                    todo.append(job)
                    continue
                if job not in silent:
                    losses[job] = 0
                silent.discard(job)
                if kind == "result":
                    del running[generator]
                yield News(job, value, kind == "result")
        finally:
            self._cancel(running)

    def _submit(self, batch: Batch, jobs: Sequence[Job], task: Any = None) -> Any:
        """Send a batch of jobs with the same shared values; return the reference of its results."""
        members = [jobs[number] for number in batch.jobs]
        shared = [self._share(value) for value in members[0].shared]
        calls = as_bytes(packed([(job.function, job.arguments) for job in members]))
        variables = tuple((name, value) for name, value in os.environ.items() if name.startswith("SILOBENCH_"))
        order = Order(tuple(one.key for one in shared), calls, this_machine().versions, variables)
        return (task or self._task).remote(order, *(one.place for one in shared))

    def _share(self, value: Any) -> _Shared:
        """Put a shared value into the object store, or return its place if it is among the latest."""
        shared = next((one for one in self._shared if one.value is value), None)
        if shared is None:
            shared = _Shared(next(self._keys), value, self._library.put(parcelled(value)))
        self._shared = [*(one for one in self._shared if one is not shared), shared][-_CACHED:]
        return shared

    def _received(self, ref: Any) -> list[Any]:
        """Return the results of a batch as copies, so that the object store can free them."""
        try:
            content = self._library.get(ref)
        except self._library.exceptions.RayError as error:
            raise self._lost(error) from error
        results: list[Any] = _opened(content)[1]
        return results

    def _lost(self, error: Exception) -> RecordError:
        reason, losses = str(error).strip().splitlines()[0].rstrip("."), self._retries + 1
        return RecordError(
            f"a worker of the Ray cluster was lost {losses} time{'s' * (losses > 1)} on the same job ({reason}; "
            "perhaps out of memory: use a larger --cpus-per-party); finished rounds are saved, and the same command "
            "continues from them."
        )

    def _cancel(self, running: dict[Any, int]) -> None:
        """Stop what is under way, and leave the cluster up."""
        if self._library.is_initialized():
            for ref in running:
                self._library.cancel(ref)


def _opened(content: Any) -> tuple[str, Any]:
    """Return the kind and the value of a worker's message; raise its error as it is."""
    kind, value = unpacked(content.data)
    if kind == "error":
        error, cause = value
        raise error from cause
    return kind, value
