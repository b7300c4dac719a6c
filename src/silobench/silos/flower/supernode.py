"""Flower's SuperNode, which runs no code that the network brings.

`python -m silobench.silos.flower.supernode PARENT DESK ARGUMENT...` takes the arguments of `flower-supernode`, and ends
with the process PARENT. The ClientApp of the silobench that is installed here takes letters to the desk in the
folder DESK. Flower would start a process for each message, with the app that the server names. Here that app is only
compared with ours, and a run with another one is refused. If Flower has no place for this any more, the SuperNode does
not start.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from silobench.silos.flower.app_files import fault_of_app
from silobench.silos.flower.client_app import DESK, client_app

_FUNCTIONS = ("receive", "send", "get_run", "get_fab", "pull_object", "push_object", "confirm_message_received")
_LOOKS, _PAUSE = 40, 0.5  # how often a look for a letter is repeated, and seconds between two looks


def main() -> None:
    """Run a SuperNode."""
    from flwr.supercore.app_utils import start_parent_process_monitor
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    start_parent_process_monitor(int(sys.argv.pop(1)))
    desk = sys.argv.pop(1)
    start_client_internal._init_connection = answering(start_client_internal._init_connection, desk)
    flower_supernode()


def answering(
    connect: Callable[..., AbstractContextManager[Any]], desk: str
) -> Callable[..., AbstractContextManager[Any]]:
    """Return a connection to the SuperLink that answers messages itself, so that Flower starts no app for them."""

    @contextmanager
    def connection(*arguments: Any, **options: Any) -> Iterator[Any]:
        with connect(*arguments, **options) as (node, *functions):
            if tuple(getattr(function, "__name__", "") for function in functions) != _FUNCTIONS:
                raise SystemExit("this version of Flower has no place to check an app: install flwr 1.41.")
            carrier = Carrier(node, dict(zip(_FUNCTIONS, functions, strict=True)), client_app(), desk)
            yield (node, carrier.answer_all, *functions[1:])

    return connection


class Carrier:
    """Takes letters from the SuperLink to a desk, and the answers back, by the functions of a connection."""

    def __init__(self, node: int, functions: Mapping[str, Callable[..., Any]], app: Callable[..., Any], desk: str):
        self._node, self._functions, self._app, self._desk = node, functions, app, desk
        self._checked = set[int]()

    def answer_all(self) -> None:
        """Answer the messages that come within some seconds. Nothing is left for Flower to do."""
        for _ in range(_LOOKS):
            messages = self._received()
            for message in messages:
                self._carry(*message)
            if not messages:
                time.sleep(_PAUSE)

    def _received(self) -> list[Any]:
        """Return the newest message of each run of our app, and drop the others that wait.

        A server asks a silo one thing at a time, so nobody waits for the answer to an older letter any more. A silo
        that is slower than the others would never catch up if it answered them all.
        """
        newest = dict[int, Any]()
        while (message := self._functions["receive"]()) is not None:
            data = message[0].metadata
            if not self._is_of_our_app(data.run_id):
                continue
            older = newest.get(data.run_id)
            if older is not None and older[0].metadata.created_at > data.created_at:
                message, older = older, message
            newest[data.run_id] = message
            if older is not None:
                print("dropped a letter, because a newer one has come.", file=sys.stderr, flush=True)
                self._functions["confirm_message_received"](data.run_id, older[0].metadata.message_id)
        return list(newest.values())

    def _is_of_our_app(self, run: int) -> bool:
        """Return whether a run is one of silobench's app; look at the app once."""
        if run not in self._checked:
            number = self._functions["get_run"](run).fab_hash
            if fault := fault_of_app(self._functions["get_fab"](number, run).content):
                print(f"refused the app {number[:16]} of run {run}: {fault}.", file=sys.stderr, flush=True)
                return False
            self._checked.add(run)
        return True

    def _carry(self, message: Any, tree: Any) -> None:
        """Fetch the parts of a message, let the ClientApp answer it, and send the answer."""
        from flwr.app import Context, RecordDict
        from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects

        run, number = message.metadata.run_id, message.metadata.message_id
        parts = [part.object_id for part in iterate_object_tree(tree)]
        contents = pull_objects(parts, lambda part: self._functions["pull_object"](run, part))
        self._functions["confirm_message_received"](run, number)
        whole: Any = inflate_object_from_contents(number, contents)
        whole.metadata.__dict__["_message_id"] = number  # a message does not contain its own number
        context = Context(run, self._node, {DESK: self._desk}, RecordDict(), {})
        start = time.monotonic()
        self._send(run, self._app(whole, context), time.monotonic() - start)

    def _send(self, run: int, reply: Any, seconds: float) -> None:
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
            no_object_id_recompute,
        )
        from flwr.supercore.inflatable.inflatable_utils import push_objects

        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            missing, session = self._functions["send"](reply, get_object_tree(reply), seconds)
            push_objects(
                get_all_nested_objects(reply),
                lambda part, content: self._functions["push_object"](run, session, part, content),
                object_ids_to_push=missing,
            )


if __name__ == "__main__":
    main()
