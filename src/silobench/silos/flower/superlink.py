"""Flower's SuperLink, changed in one point: what is not for silos is answered on this machine only.

Flower serves three interfaces at one port. Silos need one of them. The others start runs, which are code on this
machine, and ask for no password.

`python -m silobench.silos.flower.superlink PARENT ARGUMENT...` takes the arguments of `flower-superlink`. It ends with
the process PARENT.
"""

import ipaddress
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

_FOR_SILOS = "/v1/fleet/"


class OnlyForSilos:
    """A layer of the web server that refuses other machines everything but the interface for silos."""

    def __init__(self, app: Callable[..., Awaitable[None]]):
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" or is_allowed(scope.get("path", ""), (scope.get("client") or ("",))[0]):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})


def is_allowed(path: str, host: str) -> bool:
    """Return whether a host may ask for a path.

    >>> is_allowed("/v1/fleet/pull-messages", "192.0.2.7"), is_allowed("/v1/control/start-run", "192.0.2.7")
    (True, False)
    >>> is_allowed("/v1/control/start-run", "127.0.0.1"), is_allowed("/v1/fleet/../control/start-run", "192.0.2.7")
    (True, False)
    """
    if path.startswith(_FOR_SILOS) and ".." not in path:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def guarded(run: Callable[..., None]) -> Callable[..., None]:
    """Return uvicorn's `run` with `OnlyForSilos` around the app, outside of everything else."""

    def run_guarded(app: Callable[..., Awaitable[None]], **options: Any) -> None:
        run(app=OnlyForSilos(app), **options)

    return run_guarded


def guard(module: Any) -> None:
    """Leave a module of Flower no other way to serve than `guarded`; end the process if it does not use uvicorn."""
    if not callable(getattr(getattr(module, "uvicorn", None), "run", None)):
        raise SystemExit("this version of Flower has no place for the guard of its interfaces: install flwr 1.41.")
    module.uvicorn = SimpleNamespace(run=guarded(module.uvicorn.run))


def main() -> None:
    """Run a SuperLink that guards the interfaces of the lead."""
    from flwr.supercore.app_utils import start_parent_process_monitor
    from flwr.superlink.cli.flower_superlink import flower_superlink

    start_parent_process_monitor(int(sys.argv.pop(1)))
    guard(sys.modules[flower_superlink.__module__])
    flower_superlink()


if __name__ == "__main__":
    main()
