"""Machines of a Ray cluster on this one: each is `ray start` with its own address, resources and folder.

They are started as processes of their own and stopped by their process ids; `ray stop` would stop every Ray here.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0  # seconds; it only ends what hangs
# A head notices within two seconds that a machine is gone. By default it takes fifteen.
_SOON = {"period_ms": "500", "timeout_ms": "1000", "failure_threshold": "2", "initial_delay_ms": "1000"}


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: a process that ends when its parts do, with everything below it."""

    process: subprocess.Popen[bytes]
    name: str

    @property
    def pids(self) -> list[int]:
        """The process ids of the machine, the deepest last."""
        return _tree(self.process.pid)

    def kill(self) -> None:
        """End all processes of the machine at once, as a power cut does."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


class Nodes:
    """A cluster with a head; its token and folder are its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="r-", dir="/tmp"))  # short: Ray puts sockets below it
        self.token = secrets.token_hex(32)
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._nodes: list[Node] = []

    @property
    def alive(self) -> list[Node]:
        """The machines that run, the head first."""
        return [node for node in self._nodes if node.process.poll() is None]

    @property
    def pids(self) -> list[int]:
        """The process ids of all machines, without those of workers, which come and go."""
        return [pid for node in self._nodes for pid in _tree(node.process.pid, depth=2)]

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to use the cluster."""
        health = {f"RAY_health_check_{name}": value for name, value in _SOON.items()}
        return {
            **os.environ, **health, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(self.folder / "0"),
        }  # fmt: skip

    def start(self, cpus: int = 1) -> Node:
        """Start a machine with this many CPUs and a resource of its own; the first one is the head."""
        number = len(self._nodes)
        ip, folder = f"127.0.0.{number + 1}", self.folder / str(number)
        folder.mkdir()
        head = ["--head", "--port", str(self.port), "--include-dashboard", "false", "--disable-usage-stats"]
        head.append("--no-monitor")  # which would only add machines
        place = head if number == 0 else ["--address", self.address]
        command = [
            str(Path(sys.executable).parent / "ray"), "start", *place, "--node-ip-address", ip, "--block",
            "--num-cpus", str(cpus), "--resources", f'{{"machine-{number}": 1}}',
            "--object-store-memory", str(200 << 20), "--temp-dir", str(folder),
        ]  # fmt: skip
        environment = {**self.environment, "MACHINE": str(number)}  # which its workers can read
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=folder)
        node = Node(process, str(number))
        self._nodes.append(node)
        self._await(node, folder / "output")
        return node

    def stop(self) -> None:
        """End all machines, and delete their folders."""
        for node in reversed(self._nodes):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await(self, node: Node, output: Path) -> None:
        until = time.monotonic() + PATIENCE
        while b"Ray runtime started" not in output.read_bytes():
            if node.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"a Ray node did not start: {output.read_text()}")
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _tree(pid: int, depth: int = 99) -> list[int]:
    """Return a process and those below it, down to a depth."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    below = children if depth > 1 else []
    return [pid, *(one for child in below for one in _tree(int(child), depth - 1))]
