"""A trap inside a command: it kills the command at one of its own file operations, or lists these operations.

Python reports every file operation before it happens (`sys.addaudithook`), so a kill comes exactly between two of
them, however busy the machine is. Every process of the command imports this module first, worker processes included,
by `gauntlet/site/sitecustomize.py`. So it imports nothing that takes time.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

TRAP = "SILOBENCH_GAUNTLET_TRAP"  # the variable that has the trap as JSON
FIRST = "first"  # stands for the process that is the command itself, in the list of operations
START = "start"  # stands for the start of the command, in the list of operations
_CHANGES = {"os.rename", "os.remove", "os.truncate", "os.mkdir", "os.rmdir"}
_FACTOR = "_COMMIT_EVERY"


def install() -> None:
    """Install the trap that the environment describes, if there is one.

    Its fields: `out`, the folder whose files count; `log`, a file to list operations in; `commit`, how often rounds are
    committed; and `kills`, a list. The fields of a kill: `place`, a part of a path; `number`, which operation there
    kills, counted in each process; `delay`, seconds from there to the kill; `marker`, a file that the kill leaves, so
    that there is only one; `victim`, who is killed: the whole group, the process, or the process if it is a worker.
    """
    if not (text := os.environ.get(TRAP)):
        return
    trap = json.loads(text)
    sys.addaudithook(_hook(trap))
    if "log" in trap and _is_first():
        _list(trap, START, trap["out"])


def _hook(trap: dict[str, Any]) -> Any:
    lock, counts = threading.Lock(), dict.fromkeys(range(len(trap.get("kills", []))), -1)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        path = changed_path(event, arguments)
        if not path or trap.get("out", "\n") not in path:
            return
        if "commit" in trap and (writer := sys.modules.get("silobench.runs.writer")):
            setattr(writer, _FACTOR, trap["commit"])
        if "log" in trap:
            _list(trap, event, path)
        for place in counts:
            kill = trap["kills"][place]
            if kill["place"] in path and not (kill["victim"] == "worker" and _is_first()):
                with lock:
                    counts[place] += 1
                    is_now = counts[place] == kill["number"]
                if is_now:
                    _kill_once(kill, f"{event} {path}")

    return hook


def changed_path(event: str, arguments: tuple[Any, ...]) -> str:
    """Return the path that an event is about to change; empty if it changes none."""
    if event == "open":
        path, _, flags = arguments
        return _text(path) if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR) else ""
    return _text(arguments[0]) if event in _CHANGES else ""


def _text(path: Any) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""


def _is_first() -> bool:
    """Whether this process is the command itself and not one of its workers."""
    return os.getpid() == os.getsid(0)


def _list(trap: dict[str, Any], event: str, path: str) -> None:
    line = f"{time.monotonic()} {FIRST if _is_first() else os.getpid()} {event} {path}\n"
    file = os.open(trap["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)


def _kill_once(kill: dict[str, Any], line: str) -> None:
    """Leave the marker, and kill at once or after the delay; another process may have been first."""
    try:
        file = os.open(kill["marker"], os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    os.write(file, line.encode())
    os.close(file)
    if kill["delay"]:
        threading.Thread(target=_kill, args=(kill,), daemon=True).start()
    else:
        _kill(kill)


def _kill(kill: dict[str, Any]) -> None:
    time.sleep(kill["delay"])
    if kill["victim"] == "group":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
