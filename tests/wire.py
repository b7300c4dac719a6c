"""A lossy codec and transforms for tests of what crosses the network."""

from typing import Any

import numpy as np

from silobench.method.codecs import Codec, Form
from silobench.method.types import Context, Memory, Transform, Update


def eight_bits() -> Codec:
    """Return a codec that sends the largest magnitude in 8 bytes, and each entry as a share of it in one byte."""

    def pack(part: Any) -> bytes:
        largest = np.abs(part).max(initial=0.0).astype(np.float64)
        shares = np.round(part / largest * 127) if largest else part
        return largest.tobytes() + shares.astype(np.int8).tobytes()

    def unpack(content: Any, form: Form) -> Any:
        largest = np.frombuffer(content, np.float64, 1)
        return (np.frombuffer(content, np.int8, offset=8) * (largest / 127)).astype(form.dtype).reshape(form.shape)

    return Codec(pack, unpack)


def quantised() -> Transform:
    """Return a transform that sends every vector by `eight_bits`."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.coded(eight_bits()), memory

    return Transform(encode)


def identity() -> Transform:
    return Transform(lambda update, memory, context: (update, memory))


def noted(log: list[Any], note: Any) -> Transform:
    """Return a transform that changes nothing, and appends note(update, context) to a log."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        log.append(note(update, context))
        return update, memory

    return Transform(encode)
