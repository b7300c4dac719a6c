"""Flower's SuperNode, which takes no app from the network except the one that silobench writes.

`python -m silobench.silos.flower.supernode PARENT ARGUMENT...` takes the arguments of `flower-supernode`. It ends with
the process PARENT. If Flower has no place for the check any more, it does not start. It also looks for letters more
often than Flower does, so that a round of small models takes less time.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from silobench.silos.flower.app_files import fault_of_app

_RECEIVE, _FETCH, _FUNCTIONS = 1, 4, 8  # places among the functions of a connection, and their number
_LOOKS, _PAUSE = 40, 0.5  # how often a look for a letter is repeated, and seconds between two looks


def main() -> None:
    """Run a SuperNode that checks apps."""
    from flwr.supercore.app_utils import start_parent_process_monitor
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    parent = int(sys.argv.pop(1))
    start_parent_process_monitor(parent)
    start_client_internal._init_connection = checked(start_client_internal._init_connection)
    flower_supernode()


def checked(connect: Callable[..., AbstractContextManager[Any]]) -> Callable[..., AbstractContextManager[Any]]:
    """Return a connection to the SuperLink whose function that fetches an app refuses all but silobench's."""

    @contextmanager
    def connection(*arguments: Any, **options: Any) -> Iterator[Any]:
        with connect(*arguments, **options) as functions:
            names = [getattr(function, "__name__", "") for function in functions]
            if len(names) != _FUNCTIONS or (names[_RECEIVE], names[_FETCH]) != ("receive", "get_fab"):
                raise SystemExit("this version of Flower has no place to check an app: install flwr 1.41.")
            changed = {_RECEIVE: _patient(functions[_RECEIVE]), _FETCH: _checked_fetch(functions[_FETCH])}
            yield tuple(changed.get(place, function) for place, function in enumerate(functions))

    return connection


def _patient(receive: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that looks for a letter several times; Flower itself rests three seconds after each look."""

    def waited() -> Any:
        for _ in range(_LOOKS):
            if (letter := receive()) is not None:
                return letter
            time.sleep(_PAUSE)
        return None

    return waited


def _checked_fetch(fetch: Callable[[str, int], Any]) -> Callable[[str, int], Any]:
    from flwr.supercore.run import RunNotRunningException

    def get_fab(fab_hash: str, run_id: int) -> Any:
        app = fetch(fab_hash, run_id)
        if fault := fault_of_app(app.content):
            print(f"refused the app {fab_hash[:16]} of run {run_id}: {fault}.", file=sys.stderr, flush=True)
            raise RunNotRunningException  # Flower then drops the message and waits for the next one
        return app

    return get_fab


if __name__ == "__main__":
    main()
