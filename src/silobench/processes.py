"""How worker processes are started, and what this machine has.

Workers are forks of a server that has already imported what they need, so each starts at once. This module does not
import torch: a command starts the server first and imports torch meanwhile.
"""

import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_OF_SERVER = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "PYTHONSAFEPATH": "1",  # else it would import a random.py or numpy.py that is in the working directory
}
_STARTING = threading.Lock()  # two threads that change the environment at once would not restore it


def context() -> Any:
    """Return a context that does not fork this process: a fork after torch has started threads can hang."""
    start_server()
    served = "forkserver" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if served else "spawn")


def start_server() -> None:
    """Start the server, which imports in the background; a second call does nothing."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver, resource_tracker

        forkserver.set_forkserver_preload(["silobench.runs.sweep"])
        with _STARTING, _environment(_OF_SERVER), without_main():
            resource_tracker.ensure_running()  # first, because it ends with Ctrl-C unblocked
            with _without_interrupt():
                forkserver.ensure_running()


@contextmanager
def without_main() -> Iterator[None]:
    """Hide the user's script, so that processes started meanwhile do not run it again.

    Scripts therefore work without ``if __name__ == "__main__"``; workers receive the functions they need.
    """
    main = sys.modules["__main__"]
    names: tuple[str, ...] = ("__file__", "__spec__")
    hidden = {name: vars(main)[name] for name in names if name in vars(main)}
    for name in hidden:
        delattr(main, name)
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(hidden)


@contextmanager
def _without_interrupt() -> Iterator[None]:
    """Start processes that do not get Ctrl-C, also not while they import. This process gets it after the block."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, which has no server either
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@functools.cache
def keep_memory(large: bool = False) -> None:
    """Let the C library keep freed memory: returning it and asking again costs page faults in every step.

    `large` includes arrays of 32 MB and more; this is for worker processes, not for a user's process.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # only glibc has it, and the option numbers are its own
        mallopt(_MMAP_THRESHOLD, 1 << 25)
        mallopt(_TRIM_THRESHOLD, 1 << 30)
        if large:
            mallopt(_MMAP_MAX, 0)


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder(without_home: Path | None = None) -> Path:
    """Return the folder of silobench in the user's cache; for a user without a home, one in the working directory.

    `without_home` takes the place of the latter. What is executed needs it: others may have made that directory.
    """
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("silobench")
    except RuntimeError:  # some clusters run containers as a user whom the system does not know
        folder = Path()
    return folder if folder.is_absolute() else without_home or Path.cwd() / ".silobench"


def cpu_info(*fields: str) -> str:
    """Return the first value that Linux lists for one of the fields, such as "model name"; "" on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(fields)), "")
