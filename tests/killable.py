"""Commands as processes that can be killed with all that they have started, and what is left of them.

Forks import this module, so it imports nothing that takes time.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from file_trap import TRAP, install
from silobench.processes import context, start_server, without_main

TOKEN = "SILOBENCH_GAUNTLET"  # a variable of the environment by which all processes of a command are found
PATIENCE = 900  # seconds: they only end what hangs
_ENDED = 30.0  # seconds that processes have to notice that their parent is gone
_TESTS = Path(__file__).parent
_PATH = os.pathsep.join(map(str, (_TESTS / "gauntlet" / "site", _TESTS, *filter(None, sys.path))))


@dataclass
class Command:
    """A command of silobench in a process group of its own."""

    arguments: Sequence[str]
    folder: Path  # where it runs, and where its output goes
    trap: Mapping[str, Any] = field(default_factory=dict)
    is_forked: bool = False  # a fork of a process that has imported silobench, which saves seconds
    module: str = "silobench"
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def environment(self) -> dict[str, str]:
        variables = {"SILOBENCH_DATA": str(self.folder / "data"), "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
        variables["RAY_worker_niceness"] = "0"  # else Ray's workers do not get their turn on a busy machine
        return {
            **os.environ, **variables, "PYTHONPATH": _PATH, TOKEN: self.token, TRAP: json.dumps(dict(self.trap))
        }  # fmt: skip

    def start(self) -> None:
        if self.is_forked:
            start_server()
            with without_main():
                given = (list(self.arguments), self.environment, str(self.folder))
                self._process: Any = context().Process(target=_run_forked, args=given)
                self._process.start()
            return
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *self.arguments],
                env=self.environment, cwd=self.folder, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code; None if the command still runs after these seconds."""
        seconds = PATIENCE if seconds is None else seconds
        if self.is_forked:
            self._process.join(seconds)
            return self._process.exitcode  # type: ignore[no-any-return]
        try:
            return self._process.wait(seconds)  # type: ignore[no-any-return]
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the process group."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # a fork that has no group yet
        self.wait()

    @property
    def errors(self) -> str:
        return (self.folder / "err").read_text(encoding="utf-8", errors="replace")

    def processes(self) -> list[int]:
        """Return the processes of this command that are alive, workers included."""
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and self._is_ours(path)]

    def _is_ours(self, path: Path) -> bool:
        """Whether a process is alive and has the token, or the session if it is a fork, which has no token."""
        try:
            state, _, _, session, *_ = (path / "stat").read_text().rpartition(")")[2].split()
            has_token = f"{TOKEN}={self.token}".encode() in (path / "environ").read_bytes()
            return state != "Z" and (has_token or int(session) == self._process.pid)
        except OSError:
            return False

    def leftovers(self) -> list[int]:
        """Return the processes that are still alive after they had time to end; kill them."""
        limit = time.monotonic() + _ENDED
        while (alive := self.processes()) and time.monotonic() < limit:
            time.sleep(0.05)
        for pid in alive:
            _end(pid)
        return alive


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _run_forked(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    install()
    sys.argv = ["silobench", *arguments]
    from silobench.cli import main

    main()


@contextmanager
def running(command: Command) -> Iterator[Command]:
    """Start a command; kill what is left of it at the end."""
    command.start()
    try:
        yield command
    finally:
        command.kill()
        for pid in command.processes():
            _end(pid)
