"""Run contenders as processes: start them, let them run a few rounds at a time, measure them, end them.

While one runs the others wait at their gates. So all see the same machine at the same time, and the ratio of their
times is fair even if the machine's speed drifts. A contender is all processes with its mark in their environment.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent
MARK = "SILOBENCH_BENCH_MARK"
GO_SECONDS = 2.0  # length of a turn, about
TICKS = os.sysconf("SC_CLK_TCK")


class ContenderError(Exception):
    """A contender ended without an answer; the message is the end of its log."""


@dataclass(frozen=True)
class Contender:
    """A module of `contenders`, and the Python interpreter that has its packages."""

    name: str
    module: str
    python: str = sys.executable
    arguments: tuple[str, ...] = ()


@dataclass
class Measured:
    """Measurements of a contender on one workload; times are per unit of rounds."""

    name: str
    seconds: list[float] = field(default_factory=list)  # by repeat
    work: list[float] = field(default_factory=list)  # seconds of training and testing by repeat, where known
    accuracy: dict[int, float] = field(default_factory=dict)  # by round
    start_up: float = 0.0
    memory: int = 0
    disturbed: float = 0.0  # largest share of the processors that other programs used during a repeat

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def overhead(self) -> float | None:
        if not self.work:
            return None
        return statistics.median(1 - work / whole for work, whole in zip(self.work, self.seconds, strict=True))


class Running:
    """The processes of a contender. Entering the context waits for the warm-up; leaving it ends the processes."""

    def __init__(self, contender: Contender, folder: Path, unit: int) -> None:
        self.contender, self.unit = contender, unit
        self.mark = uuid.uuid4().hex[:12]
        self.scratch = folder.parent / self.mark  # a short path, because Ray puts sockets in it
        self.scratch.mkdir()
        self.log = self.scratch / "log.txt"
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._began = time.monotonic()
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    contender.python,
                    "-m",
                    f"contenders.{contender.module}",
                    str(folder),
                    str(unit),
                    *contender.arguments,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.scratch,
                env={**os.environ, MARK: self.mark, "PYTHONPATH": os.pathsep.join(paths)},
            )

    def __enter__(self) -> "Running":
        try:
            self.first_round_ended = self.answer()["first_round_at"] - self._began
        except ContenderError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # the gate exits at the end of its input
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        for pid in marked(self.mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def answer(self) -> dict:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            lines = self.log.read_text(errors="replace").strip().splitlines()[-15:]
            raise ContenderError(f"{self.contender.name} ended with {self._process.wait()}:\n" + "\n".join(lines))
        return json.loads(line)

    def go(self, rounds: int) -> dict:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"rounds": rounds}) + "\n")
        self._process.stdin.flush()
        return self.answer()


def marked(mark: str) -> Iterator[int]:
    """Yield the process ids of a contender."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
        except OSError:
            continue  # it is not readable, or has ended


def memory(mark: str) -> int:
    """Return a contender's proportional set size in bytes: memory that its processes share counts once."""
    total = 0
    for pid in marked(mark):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def processor_seconds(mark: str) -> float:
    """Return the processor time of a contender's processes so far, including children that have ended."""
    total = 0
    for pid in marked(mark):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # user and system time, of the process and its children
    return total / TICKS


def machine_seconds() -> float:
    """Return the busy time of all processors so far."""
    user, nice, system, _idle, _waiting, hard, soft = Path("/proc/stat").read_text().split()[1:8]
    return sum(map(int, (user, nice, system, hard, soft))) / TICKS


class Watch(threading.Thread):
    """Sample a contender's memory until stopped; `peak` is the largest value."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark, self.peak, self._end = mark, 0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self._end.wait(0.2):
            self.peak = max(self.peak, memory(self.mark))

    def stop(self) -> int:
        self._end.set()
        self.join()
        return self.peak


def measure(
    contenders: Sequence[Contender], folder: Path, unit: int, repeats: int, memory_first: bool = True
) -> dict[str, Measured]:
    """Measure start-up and memory of every contender separately, unless `memory_first` is off; then time all in turns.

    Memory is measured separately, because memory shared by two contenders (torch's libraries) would count half for
    each, and because sampling slows the process. A contender that fails is logged and left out.
    """
    results = {contender.name: Measured(contender.name) for contender in contenders}
    for contender in contenders if memory_first else ():
        log(f"  {contender.name}: start-up and memory")
        with _drop_on_failure(contender.name, results):
            _measure_start(results[contender.name], Running(contender, folder, unit))
    with ExitStack() as ends:
        contests: dict[str, tuple[Running, int]] = {}
        for contender in (contender for contender in contenders if contender.name in results):
            with _drop_on_failure(contender.name, results):
                running = ends.enter_context(Running(contender, folder, unit))
                contests[contender.name] = (running, _rounds_per_turn(results[contender.name], running, unit))
        for repeat in range(repeats):
            names = list(results)
            turn = repeat % max(1, len(names))
            for name in names[turn:] + names[:turn]:
                with _drop_on_failure(name, results):
                    _measure_turn(results[name], *contests[name], unit)
            times = ", ".join(f"{name} {measured.seconds[-1]:.3f}" for name, measured in results.items())
            log(f"  repeat {repeat + 1} of {repeats}: {times} s")
    return results


def _rounds_per_turn(measured: Measured, running: Running, unit: int) -> int:
    """Return how many rounds take `GO_SECONDS`; measured twice, because the first rounds are slower."""
    rounds = unit
    for _ in range(2):
        seconds = _record(measured, running.go(rounds), unit)
        rounds = unit * max(1, round(GO_SECONDS / seconds))
    return rounds


@contextmanager
def _drop_on_failure(name: str, results: dict[str, Measured]) -> Iterator[None]:
    try:
        yield
    except ContenderError as error:
        log(f"  {error}")
        del results[name]


def _measure_start(measured: Measured, running: Running) -> None:
    watch = Watch(running.mark)
    try:
        with running:
            round_seconds = running.go(running.unit)["seconds_per_round"]
            measured.start_up = running.first_round_ended - round_seconds
    finally:
        measured.memory = watch.stop()


def _measure_turn(measured: Measured, running: Running, rounds: int, unit: int) -> None:
    machine, contender, began = machine_seconds(), processor_seconds(running.mark), time.monotonic()
    answer = running.go(rounds)
    wall = time.monotonic() - began
    others = machine_seconds() - machine - (processor_seconds(running.mark) - contender)
    measured.disturbed = max(measured.disturbed, others / wall / (os.cpu_count() or 1))
    measured.seconds.append(_record(measured, answer, unit))
    if answer["work_seconds"] is not None:
        measured.work.append(answer["work_seconds"] * unit)


def _record(measured: Measured, answer: dict, unit: int) -> float:
    """Store the accuracies of an answer; return its seconds per unit of rounds."""
    measured.accuracy |= {int(done): accuracy for done, accuracy in answer["accuracy"].items()}
    return answer["seconds_per_round"] * unit


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
