"""`Letter`: what server and silos write to each other, as bytes that can be read without trusting the writer.

A letter is a magic number, the length of a JSON header, the header and the bytes of its arrays. Nothing in it is
executed, every length is checked, and arrays have numbers only.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.errors import SilobenchError
from silobench.safety.texts import visible

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

REFUSAL = "refusal"  # the kind of an answer that says why there is no other
_MAGIC = b"silobench letter 1\n"
_LENGTH_BYTES = 4
_MOST_HEADER = 64 << 20  # bytes
_MOST_DIMENSIONS = 8
_DTYPES = frozenset({"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"})
_FIELDS = {"kind": str, "consortium": str, "run": str, "silo": str, "round": int, "facts": dict, "arrays": list}


class LetterError(SilobenchError):
    """A letter cannot be read, or is not what its receiver accepts."""


@dataclass(frozen=True)
class Letter:
    """One message between the server and a silo.

    >>> letter = Letter("train", {"cohort": [0, 1]}, {"params": np.zeros(3, np.float32)}, run="7f", silo="a", round=2)
    >>> Letter.of(letter.content).facts
    {'cohort': [0, 1]}
    """

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)  # what JSON can hold
    arrays: Arrays = field(default_factory=dict)
    consortium: str = ""  # digest of the consortium
    run: str = ""  # id of the run
    silo: str = ""  # its sender or receiver
    round: int = 0  # counted from 0

    @property
    def content(self) -> bytes:
        """The bytes of the letter; equal letters have equal bytes."""
        arrays = {name: _little_endian(name, array) for name, array in sorted(self.arrays.items())}
        header = {
            "kind": self.kind,
            "consortium": self.consortium,
            "run": self.run,
            "silo": self.silo,
            "round": self.round,
            "facts": self.facts,
            "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()],
        }
        text = _text(header)
        return b"".join(
            [_MAGIC, len(text).to_bytes(_LENGTH_BYTES), text, *(each.tobytes() for each in arrays.values())]
        )

    @classmethod
    def of(cls, content: bytes) -> "Letter":
        """Read a letter; anything odd in it is a `LetterError`."""
        start = len(_MAGIC) + _LENGTH_BYTES
        if not content.startswith(_MAGIC) or len(content) < start:
            raise LetterError("the bytes are not a letter of this version of silobench: update one of the two ends.")
        length = int.from_bytes(content[len(_MAGIC) : start])
        if length > min(_MOST_HEADER, len(content) - start):
            raise LetterError(
                f"a letter of {len(content)} bytes has a header of {length}: it was cut off, or is damaged."
            )
        header = _header(content[start : start + length])
        arrays = _arrays(header["arrays"], memoryview(content)[start + length :])
        return cls(**{**header, "arrays": arrays})


def refusal(reason: str, to: Letter | None = None) -> Letter:
    """Return the answer that says in one sentence why there is no other."""
    facts = {"reason": visible(reason)}  # the name of a file may have bytes that no letter can carry
    if to is None:
        return Letter(REFUSAL, facts)
    return Letter(REFUSAL, facts, {}, to.consortium, to.run, to.silo, to.round)


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(array)
    fixed = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).reshape(array.shape)
    if fixed.dtype.str not in _DTYPES:
        raise LetterError(f"the array {name} of a letter has the type {array.dtype}: use numbers or booleans.")
    return fixed


def _text(header: Any) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _header(content: bytes) -> dict[str, Any]:
    try:
        header = json.loads(content, parse_constant=_no_constant)
        _text(header)  # half characters and 1e999 can be read, but neither be written nor stored
    except (ValueError, RecursionError) as error:
        raise LetterError("the header of a letter is not JSON: it was cut off, or is damaged.") from error
    if not isinstance(header, dict) or header.keys() != _FIELDS.keys():
        raise LetterError("the header of a letter has other fields than this version of silobench writes.")
    for name, kind in _FIELDS.items():
        if type(header[name]) is not kind:
            raise LetterError(f"the field {name} of a letter has another type than {kind.__name__}.")
    if header["round"] < 0:
        raise LetterError(f"a letter has the round {header['round']}: rounds are counted from 0.")
    return header


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _arrays(entries: list[Any], content: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays of a letter, which together have all of its bytes after the header."""
    arrays, place = dict[str, NDArray[Any]](), 0
    for entry in entries:
        name, dtype, shape = _form(entry)
        size = math.prod(shape) * dtype.itemsize
        if name in arrays or size > len(content) - place:
            raise LetterError(f"the array {name[:40]} of a letter is there twice, or has fewer bytes than it states.")
        try:
            arrays[name] = np.frombuffer(content[place : place + size], dtype).reshape(shape).copy()
        except (ValueError, OverflowError) as error:  # an array without entries may state sides of any length
            raise LetterError(f"the array {name[:40]} of a letter has a shape that no array can have.") from error
        place += size
    if place != len(content):
        raise LetterError(f"a letter has {len(content) - place} bytes after its last array: it is damaged.")
    return arrays


def _form(entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    match entry:
        case [str(name), str(dtype), list(shape)] if (
            dtype in _DTYPES
            and len(shape) <= _MOST_DIMENSIONS
            and all(type(side) is int and side >= 0 for side in shape)
        ):
            return name, np.dtype(dtype), tuple(shape)
    raise LetterError("a letter has an array whose name, type or shape cannot be read.")
