"""The guards around one input: errors, CPU time, memory, and what happens to the machine.

Memory is address space (`RLIMIT_AS`): an input may take so much more than the process has when it begins. Allocations
of libraries in C count too, and one that is refused ends as `MemoryError`, or as a crash that the campaign records.
Code that catches the error is found by the peak of the process, which may not grow by more than half of that.
Time is CPU time (`ITIMER_PROF`), so a busy machine changes nothing; the campaign itself ends what waits for ever.
"""

import os
import resource
import shutil
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzz.audit import Breach, watched
from fuzz.target import PREPARED, Target

_LONGEST = 1500  # characters of a message
_ENDS = (".", "?", "!", ")")


class TimeUpError(BaseException):
    """An input took more CPU time than it may; no `except Exception` of the code under test hides it."""


@dataclass(frozen=True)
class Finding:
    """A broken promise, and the input that broke it."""

    kind: str  # error, message, warning, time, memory, breach, crash or hang
    place: str  # where in the code: equal findings have equal kinds and places
    detail: str
    data: bytes

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.place


@dataclass(frozen=True)
class Outcome:
    """What became of an input: it was accepted, refused in one sentence, or it is a finding."""

    refusal: str | None = None
    finding: Finding | None = None
    grown: int = 0  # bytes by which the process grew at most while it read the input


def check(target: Target, data: bytes) -> Outcome:
    """Read an input in the current directory, between all guards."""

    def finding(kind: str, error: BaseException, detail: str = "") -> Outcome:
        return Outcome(finding=Finding(kind, _place(error), detail or f"{type(error).__name__}: {error}"[:500], data))

    before = resident_peak(is_new=True)
    with watched(Path.cwd()) as watch:
        try:
            with warnings.catch_warnings(), _limited_memory(target.memory), _limited_time(target.seconds):
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", DeprecationWarning)
                target.run(data)
            outcome = Outcome()
        except Breach as error:
            outcome = finding("breach", error)
        except TimeUpError as error:
            outcome = finding("time", error)
        except MemoryError as error:
            outcome = finding("memory", error)
        except Warning as error:
            outcome = finding("warning", error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not target.allows(error):
                outcome = finding("error", error)
            elif (reason := unreadable(str(error), target.has_sentences)) is not None:
                outcome = finding("message", error, f"{reason}: {str(error)[:400]!r}")
            else:
                outcome = Outcome(refusal=str(error))
    grown = resident_peak() - before
    if grown > target.memory // 2 and outcome.finding is None:  # it may have caught the error
        outcome = Outcome(finding=Finding("memory", "peak", f"the process grew by {grown >> 20} MB", data))
    if watch.breaches and outcome.finding is None:
        outcome = Outcome(finding=Finding("breach", watch.breaches[0], watch.breaches[0], data))
    return replace(outcome, grown=max(0, grown))


def unreadable(message: str, is_sentence: bool = True) -> str | None:
    """Return what keeps a message from being one sentence on one line of a terminal; None if nothing does."""
    if not message.strip():
        return "the message is empty"
    if len(message) > _LONGEST:
        return f"the message has {len(message)} characters"
    if not message.isprintable():
        return "the message has characters that a terminal does not show"
    if is_sentence and not message.endswith(_ENDS):
        return "the message does not end like a sentence"
    return None


def _place(error: BaseException) -> str:
    """Return the innermost line of silobench in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if "silobench" in frame.filename]
    frame = inner[-1] if inner else frames[-1]
    file = frame.filename.rpartition("silobench/")[2] or frame.filename
    return f"{type(error).__name__} in {file}:{frame.name}"


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeUpError(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _limited_memory(most: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = address_space() + most
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def address_space() -> int:
    """Return the bytes of address space that this process has."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def resident_peak(is_new: bool = False) -> int:
    """Return the most memory in bytes that this process had since the last call that began a new measurement."""
    if is_new:
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak to what the process has now
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def empty(folder: Path) -> None:
    """Delete what an input left in the output directory, but not what the target prepared for all inputs."""
    for path in folder.iterdir():
        if path.name != PREPARED:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()


def strangers(output: Path) -> list[Path]:
    """Return the files beside an output directory that is alone in its parent: something wrote there."""
    return [path for path in output.parent.iterdir() if path != output]
