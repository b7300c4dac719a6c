"""A silo's side: the process that answers letters, and the SuperNode that brings them."""

import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from silobench.errors import ConfigError
from silobench.silos.flower.desk import answer_letters, opened_desk
from silobench.silos.flower.environment import flower_environment
from silobench.silos.flower.supervision import supervised
from silobench.silos.letters import REFUSAL, Letter, LetterError

_LOG = logging.getLogger(__name__)
_PATIENCE = 60  # seconds that a SuperNode tries to reach the server again by itself


def serve_silo(answer: Callable[[bytes], bytes], superlink: str, key: Path, authority: Path, state: Path) -> None:
    """Answer letters until the process is asked to end, with a SuperNode that is started again whenever it ends.

    `key` is the silo's private key, `authority` the certificate that vouches for the server, `state` a private folder.
    """
    check_server(superlink, authority)
    signal.signal(signal.SIGTERM, _leave)
    with opened_desk() as (folder, listener):
        command = supernode_command(superlink, key, authority, folder)
        environment = flower_environment(state / "flower")
        with supervised("Flower's SuperNode", command, environment, state / "supernode.log"):
            answer_letters(listener, announcing_the_end(answer))


def announcing_the_end(answer: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that answers letters, and says in the log when one of them ended the run."""

    def answered(content: bytes) -> bytes:
        reply = answer(content)
        try:
            has_ended = Letter.of(content).kind == "end" and Letter.of(reply).kind != REFUSAL
        except LetterError:  # which the answer states
            return reply
        if has_ended:
            _LOG.info("the run is over; Ctrl-C ends this process.")
        return reply

    return answered


def address_of(superlink: str) -> tuple[str, int]:
    """Return the host and the port of a server."""
    host, _, port = superlink.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 1 << 16):
        raise ConfigError(
            f"--superlink {superlink} is not the address of a server: give HOST:PORT, with a port from 1 to 65535."
        )
    return host.strip("[]"), int(port)


def check_server(superlink: str, authority: Path) -> None:
    """Refuse a server whose certificate the consortium's authority did not sign; wait for one that is not there yet."""
    host, port = address_of(superlink)
    context = ssl.create_default_context(cafile=str(authority))
    try:
        with socket.create_connection((host, port), 10) as plain, context.wrap_socket(plain, server_hostname=host):
            return
    except ssl.SSLCertVerificationError as error:
        raise ConfigError(
            f"the server at {superlink} is not the one of this consortium ({error.verify_message}): compare the "
            "fingerprint of its certificate with the lead by phone."
        ) from error
    except OSError as error:
        _LOG.info("the server at %s does not answer yet (%s); the silo goes on trying.", superlink, error)


def supernode_command(superlink: str, key: Path, authority: Path, desk: Path) -> list[str]:
    """Return the command of a SuperNode that brings letters to a desk."""
    arguments = (
        "--superlink", superlink, "--root-certificates", authority.resolve(), "--auth-supernode-private-key",
        key.resolve(), "--max-wait-time", _PATIENCE, "--host", "127.0.0.1", "--port", _free_port(),
        "--isolation", "process",
    )  # fmt: skip
    module = "silobench.silos.flower.supernode"
    return [sys.executable, "-m", module, str(os.getpid()), str(desk), *map(str, arguments)]


def _free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
