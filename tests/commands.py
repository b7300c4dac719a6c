"""Calling silobench as a user does: in this process where speed matters, in one of its own where a kill does."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from silobench.cli import app as cli
from silobench.processes import context, start_server, without_main
from silobench.runs import writer
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare

PATIENCE = 900  # seconds: more than anything takes on a busy machine, so that it only ends what hangs
# A shell that runs the tests in the background has its children ignore Ctrl-C; a user's shell does not.
_LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = [sys.executable, "-c", f"{_LISTEN}; from silobench.cli import main; main()"]

TINY = """
dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "scaffold"]
solver = "sgd(epochs=1)"
rounds = 3
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    """Run a command in this process."""
    capsys.readouterr()
    before = sys.argv
    sys.argv = ["silobench", *map(str, arguments)]
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def start(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    """Run a command in a process of its own."""
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


class Program:
    """Code that runs as `python -c` does, in a new process that has imported the package already.

    The process is a fork of the server of workers, so it has nothing of this process but the environment, and it does
    not have to wait for PyTorch.
    """

    def __init__(self, code: str, *arguments: str | Path, stdin: bytes = b"") -> None:
        self._folder = tempfile.TemporaryDirectory()
        for name, content in (("in", stdin), ("out", b""), ("err", b"")):
            (Path(self._folder.name) / name).write_bytes(content)
        start_server()
        with without_main():
            given = (self._folder.name, code, list(map(str, arguments)), dict(os.environ), os.getcwd())
            self._process = context().Process(target=_run_program, args=given)
            self._process.start()

    def wait(self) -> tuple[int | None, bytes, bytes]:
        """Return the exit code, the output and the errors; a program that hangs is killed."""
        self._process.join(PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        out, err = ((Path(self._folder.name) / name).read_bytes() for name in ("out", "err"))
        self._folder.cleanup()
        return self._process.exitcode, out, err


def _run_program(folder: str, code: str, arguments: list[str], environment: dict[str, str], directory: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for number, name in enumerate(("in", "out", "err")):
        os.dup2(os.open(Path(folder) / name, os.O_RDWR), number)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})


def run_code(code: str, *arguments: str | Path, stdin: bytes = b"") -> bytes:
    """Return the output of a `Program`, which must not fail."""
    exit_code, out, err = Program(code, *arguments, stdin=stdin).wait()
    assert exit_code == 0, err.decode()
    return out


def run_killed(out: Path, rounds: int, *arguments: str | Path) -> None:
    """Run a command in a process that kills itself, wherever it is, once this many rounds are on disk.

    It watches itself, so that it does not come to its end where a busy machine wakes the one who watches too late.
    """
    start_server()
    with without_main():
        process = context().Process(target=_run_and_die, args=(out, rounds, list(map(str, arguments))))
        process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL, f"it ended with {process.exitcode}"


def _run_and_die(out: Path, rounds: int, arguments: list[str]) -> None:
    def watch() -> None:
        while rounds_on_disk(out) < rounds:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    writer._COMMIT_EVERY = 5  # not 50: a run of a second is also committed often, but several rounds at a time
    threading.Thread(target=watch, daemon=True).start()
    sys.argv = ["silobench", *arguments]
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        cli.main()


def execute_killed(choices: Mapping[str, Any], out: Path, number: int) -> None:
    """Run an experiment in a process that kills itself after a round, before it does anything else."""
    start_server()
    with without_main():
        process = context().Process(target=_execute_and_die, args=(dict(choices), out, number))
        process.start()
    process.join(PATIENCE)
    assert process.exitcode == -signal.SIGKILL, f"it ended with {process.exitcode}"


def _execute_and_die(choices: dict[str, Any], out: Path, number: int) -> None:
    (planned,) = plan(choices)
    for record in execute(prepare(planned), out):
        if record.round == number:
            os.kill(os.getpid(), signal.SIGKILL)


def rounds_on_disk(out: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in out.glob("*/rounds.jsonl"))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
