"""Contenders as processes: started, let run a few rounds at a time, watched, ended.

While one runs the others wait at their gates, so all see the same machine at the same time and the ratio of their times
is fair although the machine's speed may drift. A contender is all processes that bear its mark in their environment,
whoever started them.
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

HERE = Path(__file__).parent
MARK = "SILOBENCH_BENCH_MARK"
GO_SECONDS = 2.0  # a contender runs as many rounds at a time as take about so long
TICKS = os.sysconf("SC_CLK_TCK")


class ContenderError(Exception):
    """A contender ended when it should have answered; its last words are the message."""


@dataclass(frozen=True)
class Contender:
    """A module of `contenders`, and the Python of the environment that has what it needs."""

    name: str
    module: str
    python: str = sys.executable
    arguments: tuple[str, ...] = ()


@dataclass
class Measured:
    """What was seen of a contender on one workload; times are of one unit of rounds."""

    name: str
    seconds: list[float] = field(default_factory=list)  # one for each repeat
    work: list[float] = field(default_factory=list)  # of these, training and testing, where it is known
    accuracy: dict[int, float] = field(default_factory=dict)  # by round
    start_up: float = 0.0
    memory: int = 0
    disturbed: float = 0.0  # the largest share of the processors that others took during a repeat

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def overhead(self) -> float | None:
        if not self.work:
            return None
        return statistics.median(1 - work / whole for work, whole in zip(self.work, self.seconds, strict=True))


class Running:
    """A contender's processes. As a context it has warmed up when it is entered, and is gone when it is left."""

    def __init__(self, contender: Contender, folder: Path, unit: int) -> None:
        self.contender, self.unit = contender, unit
        self.mark = uuid.uuid4().hex[:12]
        self.scratch = folder.parent / self.mark  # short, because Ray keeps sockets in it
        self.scratch.mkdir()
        self.log = self.scratch / "log.txt"
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
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
        self._process.stdin.close()  # what the gate takes as the end
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
            words = self.log.read_text(errors="replace").strip().splitlines()[-15:]
            raise ContenderError(f"{self.contender.name} ended with {self._process.wait()}:\n" + "\n".join(words))
        return json.loads(line)

    def go(self, rounds: int) -> dict:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"rounds": rounds}) + "\n")
        self._process.stdin.flush()
        return self.answer()


def marked(mark: str) -> Iterator[int]:
    """The processes of a contender."""
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
        except OSError:
            continue  # not ours to read, or gone


def memory(mark: str) -> int:
    """A contender's proportional set size in bytes: what two of its processes share counts once."""
    total = 0
    for pid in marked(mark):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    return total


def processor_seconds(mark: str) -> float:
    """What a contender's processes and those of them that have ended used so far."""
    total = 0
    for pid in marked(mark):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # own and of children, in programs and in the kernel
    return total / TICKS


def machine_seconds() -> float:
    """What all processors of the machine worked so far."""
    user, nice, system, _idle, _waiting, hard, soft = Path("/proc/stat").read_text().split()[1:8]
    return sum(map(int, (user, nice, system, hard, soft))) / TICKS


class Watch(threading.Thread):
    """Samples a contender's memory until it is stopped; `peak` is the most that was seen."""

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
    contenders: Sequence[Contender], folder: Path, unit: int, repeats: int, alone: bool = True
) -> dict[str, Measured]:
    """Start-up and memory of every contender by itself, then the times of all in turn.

    Memory is seen apart because what two contenders share (torch's libraries) would count half for each, and because
    looking takes time from who is looked at. One that fails is named and left out.
    """
    found = {contender.name: Measured(contender.name) for contender in contenders}
    for contender in contenders if alone else ():
        say(f"  {contender.name}: start-up and memory")
        with _left_out_if_it_fails(contender.name, found):
            _alone(found[contender.name], Running(contender, folder, unit))
    with ExitStack() as ends:
        contests: dict[str, tuple[Running, int]] = {}
        for contender in (contender for contender in contenders if contender.name in found):
            with _left_out_if_it_fails(contender.name, found):
                running = ends.enter_context(Running(contender, folder, unit))
                contests[contender.name] = (running, _rounds_of_a_go(found[contender.name], running, unit))
        for repeat in range(repeats):
            names = list(found)
            turn = repeat % max(1, len(names))
            for name in names[turn:] + names[:turn]:
                with _left_out_if_it_fails(name, found):
                    _timed(found[name], *contests[name], unit)
            times = ", ".join(f"{name} {measured.seconds[-1]:.3f}" for name, measured in found.items())
            say(f"  repeat {repeat + 1} of {repeats}: {times} s")
    return found


def _rounds_of_a_go(measured: Measured, running: Running, unit: int) -> int:
    """As many as take `GO_SECONDS`: the first ones are slower, so it is seen twice."""
    rounds = unit
    for _ in range(2):
        seconds = _note(measured, running.go(rounds), unit)
        rounds = unit * max(1, round(GO_SECONDS / seconds))
    return rounds


@contextmanager
def _left_out_if_it_fails(name: str, found: dict[str, Measured]) -> Iterator[None]:
    try:
        yield
    except ContenderError as error:
        say(f"  {error}")
        del found[name]


def _alone(measured: Measured, running: Running) -> None:
    watch = Watch(running.mark)
    try:
        with running:
            a_round = running.go(running.unit)["seconds_per_round"]
            measured.start_up = running.first_round_ended - a_round
    finally:
        measured.memory = watch.stop()


def _timed(measured: Measured, running: Running, rounds: int, unit: int) -> None:
    before, own, began = machine_seconds(), processor_seconds(running.mark), time.monotonic()
    answer = running.go(rounds)
    wall = time.monotonic() - began
    others = machine_seconds() - before - (processor_seconds(running.mark) - own)
    measured.disturbed = max(measured.disturbed, others / wall / (os.cpu_count() or 1))
    measured.seconds.append(_note(measured, answer, unit))
    if answer["work_seconds"] is not None:
        measured.work.append(answer["work_seconds"] * unit)


def _note(measured: Measured, answer: dict, unit: int) -> float:
    """Keep the accuracies of an answer; gives its seconds for a unit of rounds."""
    measured.accuracy |= {int(done): accuracy for done, accuracy in answer["accuracy"].items()}
    return answer["seconds_per_round"] * unit


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
