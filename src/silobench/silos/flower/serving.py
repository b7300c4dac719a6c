"""The lead's side: a SuperLink with TLS and node authentication, the silos' keys, one run, and its progress."""

import hashlib
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

_LOG = logging.getLogger(__name__)
CONSORTIUM, OUT, NEWS = "SILOBENCH_CONSORTIUM", "SILOBENCH_CONSORTIUM_OUT", "SILOBENCH_CONSORTIUM_NEWS"
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
    def local(self) -> str:
        """The address of the SuperLink on this machine."""
        return (
            f"127.0.0.1:{self.port}"
            if self.host in ("0.0.0.0", "127.0.0.1", "localhost")
            else f"{self.host}:{self.port}"
        )


def serve(office: Office, keys: Sequence[str], out: Path) -> Iterator[str]:
    """Serve a consortium until its run ends; yield lines about the progress. A run that fails is a `RecordError`.

    `keys` are the public keys of the silos.
    """
    news = office.private / "news.log"
    news.write_bytes(b"")
    facts = {CONSORTIUM: str(office.folder.resolve()), OUT: str(out.resolve()), NEWS: str(news.resolve())}
    with _superlink(office, flower_environment(office.private / "flower", **facts)) as process:
        control = _control(office)
        for key in keys:
            _register(control, key)
        run = _started(control, office.folder)
        yield from _followed(control, run, process, news)


@contextmanager
def _superlink(office: Office, environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Run a SuperLink during the body; its output goes to superlink.log among the lead's secrets."""
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
    log = private / "superlink.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_until_ready(office, process, log)
        yield process
    finally:
        end(process)


def _wait_until_ready(office: Office, process: "subprocess.Popen[bytes]", log: Path) -> None:
    context = ssl.create_default_context(cafile=str(office.folder / certificates.AUTHORITY))
    host, _, port = office.local.rpartition(":")
    limit = time.monotonic() + _READY
    while time.monotonic() < limit and process.poll() is None:
        try:
            with (
                socket.create_connection((host, int(port)), 5) as plain,
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


def _control(office: Office) -> Any:
    """Return a client of the interface that registers silos and starts runs."""
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    logging.getLogger("httpx").setLevel(logging.WARNING)
    return ControlHttpClient.from_server_address(
        server_address=office.local,
        insecure=False,
        root_certificates=(office.folder / certificates.AUTHORITY).read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
    )


def _register(control: Any, line: str) -> None:
    """Let a silo in, by its public key."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    key = public_key_to_bytes(load_ssh_public_key(line.encode()))
    control.RegisterNode(RegisterNodeRequest(public_key=key))


def _started(control: Any, folder: Path) -> int:
    """Start a run of the app in a folder, and return Flower's number of it."""
    from flwr.cli.build import build_fab_from_disk
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab

    app = build_fab_from_disk(folder)
    fab = fab_to_proto(Fab(hashlib.sha256(app).hexdigest(), app, {}))
    return int(control.StartRun(StartRunRequest(fab=fab)).run_id)


def _followed(control: Any, run: int, process: "subprocess.Popen[bytes]", news: Path) -> Iterator[str]:
    """Yield lines of news until the run has ended."""
    with news.open(encoding="utf-8") as lines:
        status = ""
        while not status:
            for _ in range(_LOOKS):
                yield from (line.rstrip("\n") for line in lines)
                time.sleep(_PAUSE)
            if process.poll() is not None:
                raise RecordError("Flower's SuperLink ended: start again, and the run goes on where it was.")
            status = _end_of(control, run)
        yield from (line.rstrip("\n") for line in lines)
    if status != "completed":
        raise RecordError("the run did not come to its end: the last lines say why; start again to continue it.")


def _end_of(control: Any, run: int) -> str:
    """Return how a run ended, such as "completed" or "failed"; "" while it goes on."""
    from flwr.proto.control_pb2 import ListRunsRequest

    status = control.ListRuns(ListRunsRequest(run_id=run)).run_dict[run].status
    return str(status.sub_status) if status.status == "finished" else ""
