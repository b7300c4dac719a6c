"""The post between the server and its silos, over Flower's messages."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from silobench.silos.flower.parcels import letter_in, record_of

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks for answers
_SKEW = 300.0  # seconds that a silo's clock may be wrong; Flower allows as much


class FlowerPost:
    """Letters to silos as messages of Flower. The address of a silo is the number of its node.

    `grace` is how long the post waits for the others once enough silos have answered.
    """

    def __init__(self, grid: Any, grace: float):
        self._grid, self._grace = grid, grace

    def silos(self) -> Sequence[str]:
        """Return the addresses of the silos that are connected now."""
        return sorted(str(node) for node in self._grid.get_node_ids())

    def ask(
        self, letters: Mapping[str, bytes], seconds: float, enough: Callable[[set[str]], bool]
    ) -> Iterator[tuple[str, bytes]]:
        """Send letters, and yield each answer as it comes.

        End when all have answered, after `seconds`, or when those who answered have been enough for the time of grace.
        """
        waiting = self._sent(letters, seconds)
        start = time.monotonic()
        answered: set[str] = set()
        enough_since, pause = None, _FIRST_PAUSE
        while waiting and (now := time.monotonic()) - start < seconds:
            if enough_since is None and enough(answered):
                enough_since = now
            if enough_since is not None and now - enough_since >= self._grace:
                return
            for address, answer in self._fetched(waiting):
                if answer is not None:
                    answered.add(address)
                    pause = _FIRST_PAUSE
                    yield address, answer
            if waiting:
                time.sleep(pause)
                pause = min(1.2 * pause, _LONGEST_PAUSE)

    def _sent(self, letters: Mapping[str, bytes], seconds: float) -> dict[str, str]:
        """Send the letters; return the address of each message that Flower took."""
        from flwr.app import Message, MessageType

        kind, life = MessageType.TRAIN, seconds + _SKEW
        messages = [Message(record_of(letter), int(node), kind, ttl=life) for node, letter in letters.items()]
        numbers = self._grid.push_messages(messages)
        return {number: address for number, address in zip(numbers, letters, strict=True) if number}

    def _fetched(self, waiting: dict[str, str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the answers that have come, None for an error of Flower, and strike them off the list."""
        for message in self._grid.pull_messages(list(waiting)):
            address = waiting.pop(message.metadata.reply_to_message_id)
            if message.has_error():
                _LOG.info("Flower brought no answer of node %s: %s", address, message.error.reason)
            yield address, None if message.has_error() else letter_in(message.content)
