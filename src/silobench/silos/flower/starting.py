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
            answer_letters(listener, answer)


def check_server(superlink: str, authority: Path) -> None:
    """Refuse a server whose certificate the consortium's authority did not sign; wait for one that is not there yet."""
    host, _, port = superlink.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"'{superlink}' is not the address of a server: give HOST:PORT.")
    context = ssl.create_default_context(cafile=str(authority))
    try:
        with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain, server_hostname=host):
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
