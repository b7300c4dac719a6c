"""The lead's side: a SuperLink with TLS and node authentication, the silos' keys, one run, and its progress."""

import hashlib
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silobench.errors import ConfigError, RecordError
from silobench.silos.flower import certificates
from silobench.silos.flower.environment import flower_environment
from silobench.silos.flower.supervision import end

TASK = "SILOBENCH_TASK"  # the variable that names the file with the ServerApp's task
_READY = 120.0  # seconds that a SuperLink has to start
_PAUSE, _LOOKS = 0.3, 10  # seconds between two looks for news, and looks between two questions whether the run goes on


@dataclass(frozen=True)
class Office:
    """Where the lead serves: the folder that silos have too, the folder of secrets, and the address."""

    folder: Path
    private: Path
    host: str
    port: int

    @property
    def local(self) -> tuple[str, int]:
        """The address of the SuperLink on this machine."""
        return "127.0.0.1" if self.host in ("0.0.0.0", "localhost") else self.host, self.port


@dataclass(frozen=True)
class Task:
    """What the ServerApp does: which consortium it runs, into which directory, and where it writes its news."""

    folder: Path
    out: Path
    news: Path

    @classmethod
    def read(cls) -> "Task":
        """Read the task in the file that the environment names."""
        facts = json.loads(Path(os.environ[TASK]).read_text(encoding="utf-8"))
        return cls(**{name: Path(path) for name, path in facts.items()})

    def write(self, file: Path) -> None:
        facts = {name: str(path.resolve()) for name, path in vars(self).items()}
        file.write_text(json.dumps(facts), encoding="utf-8")


def is_over(session: Path, digest: str) -> bool:
    """Whether the run of a consortium, with its letters in this folder, has ended and its silos were told."""
    try:
        facts = json.loads((session / "session.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no run yet, or a file that the session refuses with a sentence
        return False
    return bool(facts["ended"]) and facts["consortium"] == digest


def serve(office: Office, keys: Sequence[str], out: Path) -> Iterator[str]:
    """Serve a consortium until its run ends; yield lines about the progress. A run that fails is a `RecordError`.

    `keys` are the public keys of the silos.
    """
    with superlink(office) as link:
        for key in keys:
            link.register(key)
        yield f"listening on {office.host}:{office.port}"
        yield from link.run(office.folder, out)


@contextmanager
def superlink(office: Office) -> Iterator["Link"]:
    """Run a SuperLink during the body; its output goes to superlink.log among the lead's secrets."""
    _check_port(office)
    private = office.private
    files = (
        "--ssl-ca-certfile", office.folder / certificates.AUTHORITY,
        "--ssl-certfile", private / certificates.SERVER,
        "--ssl-keyfile", private / certificates.SERVER_KEY,
    )  # fmt: skip
    place = ("--host", office.host, "--port", office.port)
    options = ("--enable-supernode-auth", "--disable-runtime-dependency-installation")
    module = "silobench.silos.flower.superlink"
    command = [sys.executable, "-m", module, *map(str, (os.getpid(), *files, *place, *options))]
    environment = flower_environment(private / "flower", **{TASK: str((private / "task.json").resolve())})
    log = private / "superlink.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_until_ready(office, process, log)
        yield Link(office, process)
    finally:
        end(process)


def _check_port(office: Office) -> None:
    try:
        with socket.create_server((office.host, office.port)):
            return
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # which states the address again
        raise ConfigError(
            f"the server cannot listen on {office.host}:{office.port} ({reason}): is another one running? End it, or "
            "give another --port or --address."
        ) from error


def _wait_until_ready(office: Office, process: "subprocess.Popen[bytes]", log: Path) -> None:
    context = ssl.create_default_context(cafile=str(office.folder / certificates.AUTHORITY))
    host, port = office.local
    limit = time.monotonic() + _READY
    while time.monotonic() < limit and process.poll() is None:
        try:
            with (
                socket.create_connection((host, port), 5) as plain,
                context.wrap_socket(plain, server_hostname=host),
            ):
                return
        except ssl.SSLCertVerificationError as error:
            raise ConfigError(
                f"the certificate of the server is not valid for {host} ({error.verify_message}): make a new one with "
                "`silobench silo renew`."
            ) from error
        except OSError:
            time.sleep(_PAUSE)
    raise ConfigError(
        f"Flower's SuperLink did not start on {office.host}:{office.port}: is the port free? {log} has the reason."
    )


class Link:
    """The lead's connection to its SuperLink: it lets silos in and runs consortia."""

    def __init__(self, office: Office, process: "subprocess.Popen[bytes]"):
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        logging.getLogger("httpx").setLevel(logging.WARNING)
        self._private, self._process = office.private, process
        self._control: Any = ControlHttpClient.from_server_address(
            server_address=":".join(map(str, office.local)),
            insecure=False,
            root_certificates=(office.folder / certificates.AUTHORITY).read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )

    def register(self, line: str) -> None:
        """Let a silo in, by its public key."""
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key
        from flwr.proto.control_pb2 import RegisterNodeRequest
        from flwr.supercore.primitives.asymmetric import public_key_to_bytes

        key: Any = load_ssh_public_key(line.encode())
        self._control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(key)))

    def run(self, folder: Path, out: Path) -> Iterator[str]:
        """Run the consortium in a folder to its end, and yield lines of news."""
        task = Task(folder, out, self._private / "news.log")
        task.news.write_bytes(b"")
        task.write(self._private / "task.json")
        number = self.start(folder)
        with task.news.open(encoding="utf-8") as lines:
            status = ""
            while not status:
                for _ in range(_LOOKS):
                    yield from (line.rstrip("\n") for line in lines)
                    time.sleep(_PAUSE)
                if self._process.poll() is not None:
                    raise RecordError("Flower's SuperLink ended: start again, and the run goes on where it was.")
                status = self._end_of(number)
            yield from (line.rstrip("\n") for line in lines)
        if status != "completed":
            raise RecordError(
                "the run did not come to its end, and the last line of news says why; if it does not, "
                f"{self._private / 'superlink.log'} does: start again to continue it."
            )

    def start(self, folder: Path) -> int:
        """Start a run of the app in a folder, and return Flower's number of it."""
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        app = build_fab_from_disk(folder)
        fab = fab_to_proto(Fab(hashlib.sha256(app).hexdigest(), app, {}))
        return int(self._control.StartRun(StartRunRequest(fab=fab)).run_id)

    def _end_of(self, run: int) -> str:
        """Return how a run ended, such as "completed" or "failed"; "" while it goes on."""
        from flwr.proto.control_pb2 import ListRunsRequest

        status = self._control.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
        return str(status.sub_status) if status.status == "finished" else ""
