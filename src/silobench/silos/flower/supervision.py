"""A process that is started again whenever it ends, until its supervisor stops."""

import logging
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_LOG = logging.getLogger(__name__)
_FIRST_WAIT, _LONGEST_WAIT = 2.0, 30.0  # seconds before a restart
_STEADY = 120.0  # seconds; after so long a life the waits start small again
_EXIT, _LONGEST = "Exit Code:", 300  # what Flower prints before a reason, and characters that are repeated
_PATIENCE = 10.0  # seconds that a process has to end by itself


@contextmanager
def supervised(name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator["Supervisor"]:
    """Keep a process running during the body, with its output in a file; end it afterwards."""
    supervisor = Supervisor(name, command, environment, log)
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()
        thread.join()


class Supervisor:
    """Starts a process again when it ends, and waits longer each time it ends soon."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path):
        self._name, self._command, self._environment, self._log = name, command, environment, log
        self._stopped = threading.Event()

    def run(self) -> None:
        """Run the process until the supervisor is stopped."""
        wait = _FIRST_WAIT
        while not self._stopped.is_set():
            start = time.monotonic()
            code = self._lived()
            if self._stopped.is_set():
                return
            wait = _FIRST_WAIT if time.monotonic() - start > _STEADY else wait
            _LOG.info("%s ended with code %d (%s); it starts again in %.0f s.", self._name, code, self._reason(), wait)
            self._stopped.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    def stop(self) -> None:
        """End the process, and do not start it again."""
        self._stopped.set()

    def _lived(self) -> int:
        """Start the process, wait until it ends or is to end, and return its exit code."""
        with self._log.open("wb") as output:
            process = subprocess.Popen(
                self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        _LOG.info("started %s, process %d.", self._name, process.pid)
        try:
            while process.poll() is None and not self._stopped.wait(0.2):
                pass
        finally:
            end(process)
        return process.returncode

    def _reason(self) -> str:
        """Return why the process ended: what Flower prints with its exit code, or else the last line of output."""
        output = self._log.read_text(errors="replace")
        paragraph = output.rpartition(_EXIT)[2].partition("\n\n")[0] if _EXIT in output else output.strip()[-_LONGEST:]
        lines = [line.strip() for line in paragraph.splitlines() if line.strip()]
        shown = " ".join(lines[1:] or lines) if _EXIT in output else "".join(lines[-1:])
        return shown[:_LONGEST] or "no output"


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a process: ask it first, then kill it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
