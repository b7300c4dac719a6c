"""Worker processes: started once per command, kept, replaced if they die. A job is a function and its arguments."""

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
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from silobench.engines.shipping import Shelf, packed, unpacked
from silobench.errors import RecordError
from silobench.processes import context, keep_memory, start_server, without_main

_KEPT = 4  # shared values that workers remember
_PATIENCE = 3  # deaths of workers over one job
_PARTING = 5.0  # seconds that a worker has to commit its rounds


@dataclass(frozen=True)
class Job:
    """``function(*shared, *own)``, somewhere. What is shared is sent to a worker once, however many jobs have it.

    A function that is a generator tells what it yields as it goes.
    """

    function: Callable[..., Any]
    shared: tuple[Any, ...]
    own: tuple[Any, ...]
    cost: float = 1.0  # in any unit: the dearest is begun first

    def __call__(self) -> Any:
        return self.function(*self.shared, *self.own)


@dataclass(frozen=True)
class News:
    """What a job said: something on the way, or its result."""

    job: int
    value: Any
    final: bool


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    known: set[int] = field(default_factory=set)  # numbers of shared values that it has
    serial: int | None = None  # what it is working on
    holding: list["_Kept"] = field(default_factory=list)  # what it was sent and may not have looked at yet


@dataclass(frozen=True)
class _Kept:
    number: int
    value: Any
    content: bytes
    shelf: Shelf


@dataclass(frozen=True)
class _Said:
    """A word of a worker: news, a result, an error, or that it has died."""

    serial: int
    kind: str
    value: Any


@functools.cache
def workers_of_this_command(count: int) -> "Workers":
    """The one set of so many workers."""
    return Workers(count)


class Workers:
    """A fixed number of processes of one thread each."""

    def __init__(self, count: int):
        self.count = count
        self._team: list[_Worker] = []
        self._kept: list[_Kept] = []
        self._inboxes: dict[int, deque[_Said]] = {}  # by serial: where the words of a job are waited for
        self._numbers, self._serials = itertools.count(), itertools.count()
        atexit.register(self.close)

    def results(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """The result of every job, in the order of the jobs, each as soon as those before it are there."""
        found: dict[int, Any] = {}
        news = self.news(jobs)
        for place in range(len(jobs)):
            while place not in found:
                said = next(news)
                if said.final:
                    found[said.job] = said.value
            yield found.pop(place)

    def news(self, jobs: Sequence[Job]) -> Iterator[News]:
        """Run all jobs, the dearest first, and tell what they say as it comes. A job whose worker dies is redone.

        Who stops listening stops the jobs.
        """
        todo = sorted(range(len(jobs)), key=lambda job: jobs[job].cost)  # the dearest at the end
        running: dict[int, int] = {}  # jobs by serial
        deaths: dict[int, int] = {}
        inbox: deque[_Said] = deque()
        try:
            while todo or running:
                for worker in self._idle(len(todo)):
                    serial, job = self._begin(worker, jobs[todo[-1]]), todo.pop()
                    running[serial], self._inboxes[serial] = job, inbox
                if not inbox:
                    self._listen()
                    continue
                said = inbox.popleft()
                job = running[said.serial]
                if said.kind != "news":
                    del running[said.serial], self._inboxes[said.serial]
                if said.kind == "died":
                    deaths[job] = deaths.get(job, 0) + 1
                    _check_patience(deaths[job], said.value)
                    todo.append(job)
                elif said.kind == "error":
                    raise said.value
                else:
                    yield News(job, said.value, said.kind == "result")
        finally:
            for serial in running:
                del self._inboxes[serial]
            for worker in [worker for worker in self._team if worker.serial in running]:
                self._dismiss(worker)

    def start(self) -> None:
        """Have all processes ready."""
        self._idle(self.count)

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._team):
            self._dismiss(worker)
        self._kept = []

    def _dismiss(self, worker: _Worker) -> None:
        """End a process, and wait until it holds no lock any more."""
        self._team.remove(worker)
        worker.connection.close()
        worker.process.terminate()
        worker.process.join(_PARTING)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()

    def _idle(self, wanted: int) -> list[_Worker]:
        """Workers that have nothing to do, as many as wanted at most; new ones while the team is not complete."""
        idle = [worker for worker in self._team if worker.serial is None]
        while len(idle) < wanted and len(self._team) < self.count:
            self._team.append(_started())
            idle.append(self._team[-1])
        return idle[:wanted]

    def _listen(self) -> None:
        """Wait until someone says something, and put it where it is waited for."""
        busy = {worker.connection: worker for worker in self._team if worker.serial is not None}
        for connection in wait(list(busy)):
            worker = busy[connection]  # type: ignore[index]  # only connections are waited for
            serial, said = worker.serial, _heard(worker)
            assert serial is not None
            worker.holding = []  # it has unpacked what it was sent
            if said.kind == "died":
                self._team.remove(worker)
            elif said.kind != "news":
                worker.serial = None
            self._inboxes[serial].append(said)

    def _begin(self, worker: _Worker, job: Job) -> int:
        """Send a job to an idle worker, with the shared values it has not seen."""
        kept = [self._keep(value) for value in job.shared]
        numbers = {one.number for one in self._kept}
        new = [(one.number, one.content) for one in kept if one.number not in worker.known]
        content = packed((job.function, [one.number for one in kept], new, worker.known - numbers, job.own))
        worker.known = (worker.known & numbers) | {one.number for one in kept}
        worker.serial, worker.holding = next(self._serials), kept
        with suppress(OSError):  # it has just died: that is noticed when nothing comes back
            worker.connection.send_bytes(content)
        return worker.serial

    def _keep(self, value: Any) -> _Kept:
        """A shared value with its bytes, remembered while it is among the latest."""
        found = next((one for one in self._kept if one.value is value), None)
        if found is None:
            shelf = Shelf()
            found = _Kept(next(self._numbers), value, packed(value, shelf), shelf)
        self._kept = [*(one for one in self._kept if one is not found), found][-_KEPT:]
        return found


def _started() -> _Worker:
    start_server()
    ours, theirs = Pipe()
    process = context().Process(target=_serve, args=(theirs,), daemon=True)
    with without_main():
        process.start()
    theirs.close()  # so that its end is the worker's alone, and closes with it
    return _Worker(process, ours)


def _heard(worker: _Worker) -> _Said:
    """What a worker says, or that it has died; what cannot be read is an error of its job."""
    assert worker.serial is not None
    try:
        content = worker.connection.recv_bytes()
    except (EOFError, OSError):
        worker.connection.close()
        worker.process.join()
        return _Said(worker.serial, "died", worker.process.exitcode)
    try:
        return _Said(worker.serial, *unpacked(content))
    except Exception as error:
        if isinstance(error, FileNotFoundError) and _has_ended(worker):  # a large array went with it
            return _heard(worker)
        return _Said(worker.serial, "error", error)


def _has_ended(worker: _Worker) -> bool:
    worker.process.join(_PARTING)
    return not worker.process.is_alive()


def _check_patience(deaths: int, code: int | None) -> None:
    if deaths < _PATIENCE:
        return
    how = f"ended with code {code}" if code is None or code >= 0 else "was killed"
    raise RecordError(
        f"a worker process {how} {deaths} times over the same work (out of memory, perhaps: use fewer --workers); "
        "finished rounds are kept, and the same command goes on from them."
    )


# --- in the worker ------------------------------------------------------------------------------------


def _serve(connection: Connection) -> None:
    """Do jobs until there are no more. Errors travel back as they are."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    logging.getLogger("silobench").addHandler(logging.NullHandler())  # the parent has said what there is to say
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # as where rounds run in one process
    keep_memory(large=True)
    shared: dict[int, Any] = {}
    while True:
        try:
            function, numbers, new, forgotten, own = unpacked(connection.recv_bytes())
        except EOFError:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
            return
        for number in forgotten:
            shared.pop(number, None)
        try:
            shared |= {number: unpacked(content) for number, content in new}
            shelf = Shelf()  # until the next job comes, and the last result has thus arrived
            result = function(*(shared[number] for number in numbers), *own)
            if isinstance(result, Generator):
                with _closed_undisturbed(result):
                    for value in result:
                        connection.send_bytes(packed(("news", value)))
                result = None
            connection.send_bytes(packed(("result", result), shelf))
        except Exception as error:
            try:
                connection.send_bytes(_packed_error(error))
            except OSError:  # nobody listens any more: this was the end of a job that was stopped
                return


@contextmanager
def _closed_undisturbed(job: Generator[Any, None, None]) -> Iterator[None]:
    """Close a job when it is left, whatever happens meanwhile: a run then commits its rounds, and says if it cannot."""
    try:
        yield
    finally:
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            job.close()
        finally:
            signal.signal(signal.SIGTERM, before)


def _end(*_: object) -> None:
    """End as if by an error, so that a run can commit its rounds, undisturbed by a second signal.

    The error may come between any two lines. What a run says that is closed by nobody but the interpreter then, of a
    full disk for instance, has no one to hear it: the command has its own reason to end, and tells that.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.unraisablehook = lambda _: None
    sys.exit()


def _packed_error(error: Exception) -> bytes:
    """An error with the place where it happened; one that cannot travel is described."""
    error.add_note(f"in a worker process:\n{traceback.format_exc()}")
    try:
        content = packed(("error", error))
        unpacked(content)
    except Exception:
        content = packed(("error", RuntimeError(f"{type(error).__name__}: {error}")))
    return content


def _end_with_parent() -> None:
    """A killed command must not leave workers behind that hold its run directories."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
