"""Where worker processes come from: a server that has imported what they need, so that each begins at once.

Nothing here imports torch: a command starts the server first and imports meanwhile.
"""

import ctypes
import functools
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def context() -> Any:
    """Fresh processes, not forks of this one: a fork after torch has started threads can hang."""
    served = "forkserver" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if served else "spawn")


def start_server() -> None:
    """Begin to import what workers need, in the background; does nothing the second time."""
    if "forkserver" in multiprocessing.get_all_start_methods():
        from multiprocessing import forkserver

        forkserver.set_forkserver_preload(["silobench.runs.sweep"])
        with _environment(_ONE_THREAD), without_main():
            forkserver.ensure_running()


@contextmanager
def without_main() -> Iterator[None]:
    """Processes started meanwhile do not run the user's script again: what they need of it is sent to them.

    So a script needs no ``if __name__ == "__main__"``.
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
    """Have the C library keep what is freed: to give it back and ask again costs page faults in every step.

    In a process of our own also `large` arrays, of 32 MB and more; in a user's those are given back.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # glibc's, and these are its numbers
        mallopt(_MMAP_THRESHOLD, 1 << 25)
        mallopt(_TRIM_THRESHOLD, 1 << 30)
        if large:
            mallopt(_MMAP_MAX, 0)


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
