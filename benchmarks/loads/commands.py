"""Commands as a user runs them, with their wall-clock time, processor time and largest memory."""

import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What a command took; processor seconds count on a machine that others use too."""

    seconds: float
    processor: float  # user and system, of all its processes
    peak: int  # bytes of the largest process

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def cost_of(*arguments: str, folder: Path) -> Cost:
    """Run silobench and return what it took; an error of it is raised."""
    log = folder / "command.log"
    with log.open("wb") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "silobench", *arguments], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"silobench {' '.join(arguments)} failed:\n{log.read_text()[-2000:]}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def loop_seconds(additions: int = 10_000_000) -> float:
    """Return the processor time of a loop of additions, by which machines, and busy and quiet ones, compare."""
    began, total = time.process_time(), 0
    for number in range(additions):
        total += number
    return time.process_time() - began


def peak_of_this_process() -> int:
    """Return the largest memory that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
