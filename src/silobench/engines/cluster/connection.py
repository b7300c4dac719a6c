"""The connection of a command to Ray: a cluster that runs already, or one on this machine that ends with the command.

Ray runs any code that a client sends, so every connection needs a token: `RAY_AUTH_MODE=token`, unless the user has set
something else.
"""

import functools
import importlib
import logging
import math
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from silobench.engines.cluster.tasks import differences, ready, this_machine
from silobench.errors import ConfigError
from silobench.processes import cores
from silobench.safety.private_files import FOLDER_MODE, need_private, write_private

LOCAL = "local"  # an address: start Ray on this machine, for this command only

_LOG = logging.getLogger("silobench")
_REACHABLE = 5.0  # seconds that a head has to accept a connection
_ANSWER = 600.0  # seconds that a node has to import silobench, also if it is busy
_OURS = {  # of the environment, before Ray is imported; what the user has set stays
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_task_oom_retries": "3",  # by default a party that needs too much memory is tried again without end
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray's future behaviour, without its warning
    "RAY_NUM_REDIS_GET_RETRIES": "3",  # attempts to connect, one per second, each with a warning; by default 20
}


def library() -> Any:
    """Return the module `ray`; refuse to go on without it, or where it was imported without a token."""
    if "RAY_AUTH_MODE" not in os.environ and "ray" in sys.modules and not sys.modules["ray"].is_initialized():
        raise ConfigError(
            "the module ray was imported before silobench could turn on its tokens: set the environment variable "
            "RAY_AUTH_MODE to token before the import, or connect with ray.init first."
        )
    for name, value in _OURS.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            "the engine ray needs the package ray, which is not installed here: "
            "run pip install 'silobench[ray]', or choose another engine, such as pool."
        ) from error


@functools.cache
def connect(address: str, least_cpus: int = 1) -> None:
    """Connect this process to a cluster, once; `local` starts Ray with at least this many CPUs on this machine.

    A process that is connected already stays with its cluster, as in a notebook that called `ray.init`.
    """
    if address != LOCAL:
        _check_address(address)
    ray = library()
    if not ray.is_initialized():
        _need_token(address)
        options = {"logging_level": logging.ERROR, "log_to_driver": True, "configure_logging": False}
        if address == LOCAL:
            options |= {"num_cpus": max(cores(), least_cpus), "include_dashboard": False}
        with _explained(address), _quiet():
            ray.init(address=address, **options)
        _warn_of_listeners(address)
    _check_nodes(ray)


def slots(cpus: float, gpus: float) -> int:
    """Return how many jobs with this need of CPUs and GPUs the cluster runs at the same time now."""
    total = library().cluster_resources()
    counts = [
        sum(math.floor(node["Resources"].get(name, 0.0) / need + 1e-9) for node in _alive(library()))
        for name, need in (("CPU", cpus), ("GPU", gpus))
        if need
    ]
    count = min(counts, default=int(total.get("CPU", 1)))
    if count < 1:
        raise ConfigError(
            f"a party needs {cpus:g} CPUs and {gpus:g} GPUs, but no machine of the Ray cluster has them (it has "
            f"{total.get('CPU', 0):g} CPUs and {total.get('GPU', 0):g} GPUs in all): "
            "lower --cpus-per-party or --gpus-per-party, or add a machine."
        )
    return count


# --- tokens and addresses -----------------------------------------------------------------------------


def token_file() -> Path:
    """Return the file in which Ray looks for its token."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")


def _need_token(address: str) -> None:
    """Refuse to connect without a token; for a Ray of this command, write one that only this user can read.

    Ray would write it too, but all users of the machine could read that file.
    """
    path = token_file()
    if os.environ["RAY_AUTH_MODE"] != "token" or os.environ.get("RAY_AUTH_TOKEN"):
        return
    if path.is_file():
        need_private(path, "the file of Ray's token")
        return
    if address != LOCAL:
        raise ConfigError(
            f"there is no token for the Ray cluster at {address}: copy the file {path} from its head, or set "
            "RAY_AUTH_TOKEN."
        )
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    write_private(path, secrets.token_hex(32).encode())


def _check_address(address: str) -> None:
    """Refuse an address that is none, or that nobody listens at."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(
            f"the address of a Ray cluster is auto, local or HOST:PORT, but '{address}' was given: write, for example, "
            "--ray-address 10.0.0.1:6379."
        )
    try:
        socket.create_connection((host, int(port)), _REACHABLE).close()
    except OSError as error:
        raise ConfigError(
            f"no Ray cluster answers at {address} ({error.strerror or error}): check the address, and start one "
            f"there with `ray start --head --port {port}`."
        ) from error


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turn an error of `ray.init` into one sentence."""
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())
        if "token" in text.lower() or "Failed to connect" in text:  # of a head that listens, as was checked
            raise ConfigError(
                f"the Ray cluster at {address} refused this command, most likely its token: use that of its head, by "
                f"RAY_AUTH_TOKEN or in the file {token_file()}, and the same version of Ray."
            ) from error
        if address == "auto" and isinstance(error, ConnectionError):
            raise ConfigError(
                "no Ray cluster runs on this machine, so auto finds none: start one with `ray start --head`, give "
                "--ray-address HOST:PORT, or leave the option out."
            ) from error
        where = "on this machine" if address == LOCAL else f"at {address}"
        raise ConfigError(
            f"Ray {where} could not be used ({text[:300].rstrip('.')}): this machine must be part of the cluster, with "
            "the same versions of Python and Ray."
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what Ray prints while it connects: it would break the progress line."""
    log = logging.getLogger("ray")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _warn_of_listeners(address: str) -> None:
    """Say who can reach the cluster. `--node-ip-address 127.0.0.1` does not change it: Ray listens everywhere."""
    if os.environ["RAY_AUTH_MODE"] != "token":
        _LOG.warning(
            "RAY_AUTH_MODE is not token: whoever can reach this Ray cluster can run code on its machines, also with "
            "--node-ip-address 127.0.0.1, because Ray listens on all network interfaces."
        )
    elif address == LOCAL or address.startswith(("127.", "localhost")):
        _LOG.warning(
            "Ray listens on all network interfaces of this machine, also with --node-ip-address 127.0.0.1; its token "
            "keeps others out, and its traffic is not encrypted."
        )


# --- machines -----------------------------------------------------------------------------------------


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _check_nodes(ray: Any) -> None:
    """Refuse a cluster in which a machine has other versions; warn of other processors."""
    ours, others = this_machine(), set()
    for name, machine in _machines(ray):
        if refusal := differences(ours.versions, machine.versions):
            raise ConfigError(f"the machine {name} of the Ray cluster {refusal}")
        if machine.cpu != ours.cpu:
            others.add(name)
    if others:
        _LOG.warning(
            "the processors of %s differ from that of this machine: the last digits of results may depend on where "
            "a party was trained.",
            ", ".join(sorted(others)),
        )


def _machines(ray: Any) -> Iterator[tuple[str, Any]]:
    """Ask every machine for its versions, all at the same time."""
    affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    task = ray.remote(ready)
    answers = [
        (
            node["NodeManagerAddress"],
            task.options(num_cpus=0, scheduling_strategy=affinity(node["NodeID"], soft=False)).remote(
                node["NodeManagerAddress"]
            ),
        )
        for node in _alive(ray)
        if node["Resources"].get("CPU")
    ]
    for name, answer in answers:
        try:
            yield ray.get(answer, timeout=_ANSWER)
        except ray.exceptions.GetTimeoutError as error:
            raise ConfigError(
                f"the machine {name} of the Ray cluster did not answer within {_ANSWER:g} s: if it is busy, start the "
                "same command again later; else take it out of the cluster."
            ) from error
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ConfigError(
                f"the machine {name} of the Ray cluster cannot run silobench ({reason}): install there what this "
                f"machine has, silobench with Python {sys.version.split()[0]}."
            ) from error
