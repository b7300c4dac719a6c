"""The executor `pool`: worker processes that are started once per command, reused, and replaced if they die."""

import atexit
import functools
import itertools
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from silobench.engines.executor import EXECUTORS as EXECUTORS  # public: importing it from this module adds `pool`
from silobench.engines.executor import Executor, InProcess, InState, Job, News
from silobench.engines.shipping import Shelf, packed, unpacked
from silobench.errors import RecordError
from silobench.method.types import Count
from silobench.models.devices import prepare_process, visible_gpus
from silobench.processes import context, cores, keep_memory, without_main

_CACHED = 4  # shared values that workers remember
_MAX_DEATHS = 3  # of workers on the same job
_PARTING = 5.0  # seconds that a worker has to commit its rounds


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    place: int = 0  # among the workers; one that replaces a dead one gets its place, and so its GPU
    known: set[int] = field(default_factory=set)  # numbers of the shared values that it has
    serial: int | None = None  # of the job that it is working on
    in_transit: list["_Shared"] = field(default_factory=list)  # sent, but perhaps not unpacked yet


@dataclass(frozen=True)
class _Shared:
    """A shared value with its bytes."""

    number: int
    value: Any
    content: bytes
    shelf: Shelf


@dataclass(frozen=True)
class _Message:
    """A message from a worker: news, a result, an error, or its death."""

    serial: int
    kind: str
    value: Any


@functools.cache
def workers_of_this_command(count: int) -> "Workers":
    """Return the command's only set of `count` workers."""
    return Workers(count)


@EXECUTORS.register
def pool(workers: Count | None = None) -> Executor:
    """Run jobs in worker processes of this machine, by default one per core."""
    return workers_of_this_command(workers or cores())


class Workers:
    """A fixed number of processes of one thread each."""

    memories = InState()

    def __init__(self, count: int):
        self.workers = count
        self._team: list[_Worker] = []
        self._shared: list[_Shared] = []
        self._inboxes: dict[int, deque[_Message]] = {}  # by serial: who waits for the messages of a job
        self._numbers, self._serials = itertools.count(), itertools.count()
        atexit.register(self.close)

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yield the result of every job in the order of the jobs, as early as that order allows."""
        results: dict[int, Any] = {}
        news = self.news(jobs)
        for place in range(len(jobs)):
            while place not in results:
                item = next(news)
                if item.final:
                    results[item.job] = item.value
            yield results.pop(place)

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        """Run all jobs, the most expensive first, and yield their news as it comes.

        A job whose worker dies is repeated. Closing the generator stops the jobs.
        """
        todo = sorted(range(len(jobs)), key=lambda job: jobs[job].cost)  # the most expensive last
        running: dict[int, int] = {}  # jobs by serial
        deaths: dict[int, int] = {}
        inbox: deque[_Message] = deque()
        try:
            while todo or running:
                for worker in self._idle(len(todo)):
                    serial, job = self._begin(worker, jobs[todo[-1]]), todo.pop()
                    running[serial], self._inboxes[serial] = job, inbox
                if not inbox:
                    self._listen()
                    continue
                message = inbox.popleft()
                job = running[message.serial]
                if message.kind != "news":
                    del running[message.serial], self._inboxes[message.serial]
                if message.kind == "died":
                    deaths[job] = deaths.get(job, 0) + 1
                    _check_deaths(deaths[job], message.value)
                    todo.append(job)
                elif message.kind == "error":
                    error, cause = message.value
                    raise error from cause
                else:
                    yield News(job, message.value, message.kind == "result")
        finally:
            for serial in running:
                del self._inboxes[serial]
            for worker in [worker for worker in self._team if worker.serial in running]:
                self._dismiss(worker)

    def start(self) -> None:
        """Start all processes."""
        self._idle(self.workers)

    def device_workers(self, device: str) -> int:
        """Return how many workers have a device of this type for themselves: one per GPU, and none for a single one."""
        gpus = len(visible_gpus()) if device == "cuda" else 0
        return gpus if gpus > 1 else 0  # with a single GPU this process uses it: messages would cost time

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._team):
            self._dismiss(worker)
        self._shared = []

    def _dismiss(self, worker: _Worker) -> None:
        """End a process, and wait until it has released its locks."""
        self._team.remove(worker)
        worker.connection.close()
        worker.process.terminate()
        worker.process.join(_PARTING)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()

    def _idle(self, wanted: int) -> list[_Worker]:
        """Return up to `wanted` idle workers, starting new ones while there are fewer than `workers`."""
        idle = [worker for worker in self._team if worker.serial is None]
        while len(idle) < wanted and len(self._team) < self.workers:
            taken = {worker.place for worker in self._team}
            self._team.append(_start_worker(next(place for place in itertools.count() if place not in taken)))
            idle.append(self._team[-1])
        return idle[:wanted]

    def _listen(self) -> None:
        """Wait for messages, and put each into the inbox of its job."""
        busy = {worker.connection: worker for worker in self._team if worker.serial is not None}
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]  # only connections are waited for
            serial, message = worker.serial, _received(worker)
            assert serial is not None
            worker.in_transit = []  # it has unpacked them
            if message.kind == "died":
                self._team.remove(worker)
            elif message.kind != "news":
                worker.serial = None
            if message.kind == "error":
                worker.known = set()  # shared values that could not be unpacked are sent again, to fail again
            self._inboxes[serial].append(message)

    def _begin(self, worker: _Worker, job: Job) -> int:
        """Send a job to an idle worker, with the shared values that it does not have; return the job's serial."""
        shared = [self._share(value) for value in job.shared]
        kept = worker.known & {one.number for one in self._shared}
        new = [(one.number, one.content) for one in shared if one.number not in kept]
        content = packed((job.function, [one.number for one in shared], new, kept, job.arguments))
        worker.known = kept | {one.number for one in shared}
        worker.serial, worker.in_transit = next(self._serials), shared
        with suppress(OSError):  # the worker has just died, which is noticed when its answer is read
            worker.connection.send_bytes(content)
        return worker.serial

    def _share(self, value: Any) -> _Shared:
        """Pack a shared value, or return its packed form if it is among the latest."""
        shared = next((one for one in self._shared if one.value is value), None)
        if shared is None:
            shelf = Shelf()
            shared = _Shared(next(self._numbers), value, packed(value, shelf), shelf)
        self._shared = [*(one for one in self._shared if one is not shared), shared][-_CACHED:]
        return shared


def _start_worker(place: int) -> _Worker:
    ours, theirs = Pipe()
    gpus = visible_gpus()
    process = context().Process(target=_serve, args=(theirs, gpus[place % len(gpus)] if gpus else None), daemon=True)
    with without_main():
        process.start()
    theirs.close()  # so that only the worker holds this end, and it closes when the worker ends
    return _Worker(process, ours, place)


def _received(worker: _Worker) -> _Message:
    """Return a worker's message, or the news of its death; a message that cannot be read is an error of its job."""
    assert worker.serial is not None
    try:
        content = worker.connection.recv_bytes()
    except (EOFError, OSError):
        worker.connection.close()
        worker.process.join()
        return _Message(worker.serial, "died", worker.process.exitcode)
    try:
        return _Message(worker.serial, *unpacked(content))
    except Exception as error:
        if isinstance(error, FileNotFoundError) and _has_ended(worker):  # its large arrays vanished with it
            return _received(worker)
        return _Message(worker.serial, "error", (error, None))


def _has_ended(worker: _Worker) -> bool:
    worker.process.join(_PARTING)
    return not worker.process.is_alive()


def _check_deaths(deaths: int, code: int | None) -> None:
    if deaths < _MAX_DEATHS:
        return
    how = f"ended with code {code}" if code is None or code >= 0 else "was killed"
    raise RecordError(
        f"a worker process {how} {deaths} times on the same job (perhaps out of memory: use fewer --workers); "
        "finished rounds are saved, and the same command continues from them."
    )


# --- in the worker ------------------------------------------------------------------------------------


def _serve(connection: Connection, gpu: str | None) -> None:
    """Run jobs until the connection closes. Errors are sent back unchanged. A job on cuda uses the GPU of this name."""
    prepare_process(gpu)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("silobench").addHandler(logging.NullHandler())  # the parent logs
    calculate_as_the_loop()
    shared: dict[int, Any] = {}
    while True:
        try:
            content = connection.recv_bytes()
        except EOFError:
            signal.signal(signal.SIGTERM, _go_on)  # it is ending already
            return
        try:
            function, numbers, new, kept, arguments = unpacked(content)
            shared = {number: shared[number] for number in kept}
            shared |= {number: unpacked(content) for number, content in new}
            shelf = Shelf()  # lives until the next job comes: by then the result has arrived
            result = function(*(shared[number] for number in numbers), *arguments)
            if isinstance(result, Generator):
                with _closed_undisturbed(result):
                    for value in result:
                        connection.send_bytes(packed(("news", value)))
                result = None
            connection.send_bytes(packed(("result", result), shelf))
        except Exception as error:
            try:
                connection.send_bytes(packed_error(error))
            except OSError:  # the parent has stopped this job and closed the connection
                return


def run_packed(content: bytes) -> bytes:
    """Run a packed job in a process of another executor; return the packed list of its news.

    Errors are raised unchanged. Bits are those of a worker process, as `Executor` demands.
    """
    calculate_as_the_loop()
    return packed(list(InProcess().news([unpacked(content)])))


def calculate_as_the_loop() -> None:
    """Use one thread and treat denormal numbers as 0, as a round without workers does; prepare for a GPU."""
    prepare_process()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory(large=True)


@contextmanager
def _closed_undisturbed(job: Generator[Any, None, None]) -> Iterator[None]:
    """Close a job at the end without interruption: a run then commits its rounds, and raises if it cannot."""
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTERM, _go_on)
        try:
            job.close()
        finally:
            signal.signal(signal.SIGTERM, before)


def _go_on(*_: object) -> None:
    """Ignore a signal. SIG_IGN would print a traceback for one that has arrived and is not yet handled."""


def _end(*_: object) -> None:
    """Exit by an exception, so that a run can commit its rounds; a second signal is ignored.

    The exception may come between any two lines, so a run may be closed by the interpreter only. An error of that run,
    such as a full disk, is then not shown: the command reports its own reason for stopping.
    """
    signal.signal(signal.SIGTERM, _go_on)
    sys.unraisablehook = lambda _: None
    sys.exit()


def packed_error(error: Exception) -> bytes:
    """Pack an error with its traceback and its cause, which pickle leaves out."""
    error.add_note(f"in a worker process:\n{traceback.format_exc()}")
    return packed(("error", (_portable(error), error.__cause__ and _portable(error.__cause__))))


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled: this one, or a description of it."""
    try:
        unpacked(packed(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """Exit when the parent dies: a killed command must not leave workers that lock its run directories."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
