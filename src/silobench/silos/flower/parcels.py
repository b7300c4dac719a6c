"""A letter as the content of a Flower message: one array of bytes, which Flower cuts into chunks."""

from typing import Any

_NAME = "letter"


def record_of(letter: bytes) -> Any:
    """Return the content of a message that carries a letter."""
    from flwr.app import Array, ArrayRecord, RecordDict

    array = Array("uint8", (len(letter),), "silobench.letter", letter)
    return RecordDict({_NAME: ArrayRecord({_NAME: array})})


def letter_in(content: Any) -> bytes:
    """Return the letter that a message carries."""
    return bytes(content[_NAME][_NAME].data)
