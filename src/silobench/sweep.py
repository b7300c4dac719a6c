"""Many runs at once: one process each, one thread each, so the bits do not depend on how many there are."""

import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

from silobench.errors import RecordError, RunError, SilobenchError
from silobench.experiment import Plan, execute, load_plugin, prepare


@dataclass(frozen=True)
class Event:
    """Something happened in a run: it began, finished a round, or ended."""

    kind: Literal["begin", "round", "end"]
    id: str
    name: str
    rounds: int
    round: int = 0
    accuracy: float | None = None
    notes: tuple[str, ...] = ()


def sweep(
    plans: Sequence[Plan], out: Path, engine: str = "inline", workers: int = 1, plugins: Sequence[Path] = ()
) -> Iterator[Event]:
    """Run every plan into ``out``, up to `workers` at a time, and tell what happens."""
    workers = min(workers, len(plans))
    if workers <= 1:
        for made in plans:
            yield from _run(made, out, engine)
    else:
        yield from _sweep_in_processes(plans, out, engine, workers, plugins)


def _run(made: Plan, out: Path, engine: str) -> Iterator[Event]:
    try:
        yield from _rounds(made, out, engine)
    except SilobenchError:
        raise
    except Exception as error:
        raise RunError(
            f"{made.name} failed with {type(error).__name__}: {error}; "
            "finished rounds are kept, and the same command goes on from them once this is mended.",
            traceback.format_exc(),
        ) from error


def _rounds(made: Plan, out: Path, engine: str) -> Iterator[Event]:
    ready = prepare(made)
    yield Event("begin", made.id, made.name, made.cell.rounds, notes=ready.dataset.notes)
    for record in execute(ready, out, engine):
        yield Event("round", made.id, made.name, made.cell.rounds, record.round, record.accuracy)
    yield Event("end", made.id, made.name, made.cell.rounds)


def _sweep_in_processes(
    plans: Sequence[Plan], out: Path, engine: str, workers: int, plugins: Sequence[Path]
) -> Iterator[Event]:
    context = multiprocessing.get_context("spawn")  # a fork after torch has started threads can hang
    todo, events = context.Queue(), context.Queue()
    for made in [*plans, *[None] * workers]:
        todo.put(made)
    arguments = (todo, events, out, engine, tuple(plugins))
    processes = [context.Process(target=_work, args=arguments, daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()
    try:
        left = len(plans)
        while left:
            event = _next_event(events, processes)
            left -= event.kind == "end"
            yield event
    finally:
        todo.cancel_join_thread()  # after a failure nobody reads the rest, and waiting for that would hang
        for process in processes:
            process.terminate()


def _next_event(events: Any, processes: Sequence[BaseProcess]) -> Event:
    while True:
        try:
            found = events.get(timeout=1)
        except queue.Empty:
            lost = [process.exitcode for process in processes if process.exitcode]
            if lost:
                killed = "was killed (out of memory, perhaps: use fewer --workers)"
                raise RecordError(
                    f"a worker process {killed if lost[0] < 0 else f'ended with code {lost[0]}'}; "
                    "finished rounds are kept, and the same command goes on from them."
                ) from None
            continue
        if isinstance(found, BaseException):
            raise found
        return found  # type: ignore[no-any-return]


def _work(todo: Any, events: Any, out: Path, engine: str, plugins: Sequence[Path]) -> None:
    """A worker: take plans until there are none; errors travel to the parent as they are."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        for path in plugins:
            load_plugin(path)
        while (made := todo.get()) is not None:
            for event in _run(made, out, engine):
                events.put(event)
    except SilobenchError as error:
        events.put(error)


def _end_with_parent() -> None:
    """A killed command must not leave workers behind that hold its run directories."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
