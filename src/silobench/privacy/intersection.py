"""Private set intersection: two sides learn the keys that both have, and nothing else but the number of keys.

Diffie-Hellman on Curve25519 (Meadows, 1986; Huberman, Franklin and Hogg, 1999). Side A has a secret scalar a and sends
a·H(key) for each key in a secret order. Side B multiplies each point by its scalar b and sends the products back in the
order in which they came. B does the same with its keys. Now both have the points ab·H(key) of both sides: each knows
which of its keys belongs to which point of the products that came back, and looks them up among the others.

H hashes onto the curve proper. X25519 takes any 32 bytes, and about half of them are points of the curve and half are
points of its twist. A multiple of a point stays where the point is, so hashing to any 32 bytes would show one bit of
the hash of each key.

Who reads all messages learns the number of keys of each side and the number of shared keys, but no key. The two answers
are both made of points ab·H(key), so a shared key has the same point in both: the reader counts these points, and sees
at which places of the secret orders they are. Only an encrypted channel hides this.

Both sides are assumed to follow the protocol: a side can always learn about keys that it pretends to have. Python does
not run in constant time, so a side must not measure the time of the other's computations. With more than two parties,
each one intersects its keys with those of the label holder.
"""

import hashlib
import multiprocessing
import secrets
import signal
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from silobench.errors import DataError
from silobench.processes import context, cores, without_main

PRIME = 2**255 - 19
_COEFFICIENT = 486_662
_SMALL_ORDER = {  # points of the curve that a scalar makes zero, for every scalar
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
}
_DOMAIN = b"silobench private set intersection 1\0"
_SIZE = 32  # bytes of a point
_CHUNK = 1000  # points that a worker process gets at a time: a twentieth of a second
_POOL_POINTS = 20_000  # fewer points take less time than the start of processes
Map: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Report: TypeAlias = Callable[[int], None]
"""Gets the number of points that were computed since the last call."""


def _no_report(count: int) -> None:
    pass


# --- points ------------------------------------------------------------------------------------------


def normal_key(key: str | None) -> str:
    """Return a key in the form in which it is compared: Unicode's NFC. A missing key is empty."""
    return unicodedata.normalize("NFC", key or "")


def hash_to_curve(key: str) -> bytes:
    """Return a point of the curve, as the 32 bytes of its u-coordinate, by try-and-increment.

    The counter has a fixed length and the key comes last, so different inputs of the hash have different bytes.
    """
    content = normal_key(key).encode("utf-8", "surrogatepass")
    for counter in range(256):
        digest = hashlib.sha512(_DOMAIN + counter.to_bytes(4, "little") + content).digest()
        u = int.from_bytes(digest, "little") % PRIME
        if _is_on_curve(u):
            return u.to_bytes(_SIZE, "little")
    raise AssertionError("256 hashes in a row are not on the curve, which has the probability 2^-256")


def _is_on_curve(u: int) -> bool:
    """Whether v² = u³ + 486662u² + u has a solution other than v = 0."""
    return _jacobi(((u + _COEFFICIENT) * u + 1) * u % PRIME) == 1


def _jacobi(a: int) -> int:
    """Return the Legendre symbol of a number modulo `PRIME`, four times as fast as a power."""
    n, sign = PRIME, 1
    while a:
        zeros = (a & -a).bit_length() - 1
        a >>= zeros
        if zeros & 1 and n & 7 in (3, 5):
            sign = -sign
        if a & n & 2:
            sign = -sign
        a, n = n % a, a
    return sign if n == 1 else 0


def _masked_keys(scalar: bytes, keys: Sequence[str]) -> bytes:
    """Return the points of keys, multiplied by a scalar."""
    return _multiples(scalar, [hash_to_curve(key) for key in keys])


def _masked_points(scalar: bytes, points: Sequence[bytes]) -> bytes:
    """Return points of a message, multiplied by a scalar; refuse points off the curve and points of small order."""
    numbers = [int.from_bytes(point, "little") for point in points]
    bad = sum(u >= PRIME or u in _SMALL_ORDER or not _is_on_curve(u) for u in numbers)
    if bad:
        raise DataError(
            f"a message of a private set intersection has {bad} invalid points among {len(points)}: points of "
            "Curve25519 are needed, so let the other side use the same version of silobench."
        )
    return _multiples(scalar, points)


def _multiples(scalar: bytes, points: Sequence[bytes]) -> bytes:
    secret = X25519PrivateKey.from_private_bytes(scalar)
    return b"".join([secret.exchange(X25519PublicKey.from_public_bytes(point)) for point in points])


def _split(points: bytes) -> list[bytes]:
    return [points[start : start + _SIZE] for start in range(0, len(points), _SIZE)]


# --- the two sides -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskedKeys:
    """A side's first message: its keys as points times its scalar, in a secret order."""

    points: bytes


@dataclass(frozen=True)
class MaskedTwice:
    """The answer to a first message: its points times the other scalar, in the order in which they came."""

    points: bytes


class Side:
    """One side of one intersection. It draws a new scalar and a new order, and answers one message.

    Keys that are equal after `normal_key` count once; empty keys take no part.
    """

    def __init__(self, keys: Iterable[str | None], run: Map = map, report: Report = _no_report):
        normal = [normal_key(key) for key in keys]
        self.empty = normal.count("")
        self.keys = list(dict.fromkeys(filter(None, normal)))
        self.duplicates = len(normal) - self.empty - len(self.keys)
        self._shuffle(self.keys)
        self._scalar = secrets.token_bytes(_SIZE)
        self._others: frozenset[bytes] | None = None
        self._run, self._report = run, report

    @staticmethod
    def _shuffle(keys: list[str]) -> None:
        secrets.SystemRandom().shuffle(keys)

    def message(self) -> MaskedKeys:
        """Return the message for the other side."""
        return MaskedKeys(self._computed(_masked_keys, self.keys))

    def answer(self, message: MaskedKeys) -> MaskedTwice:
        """Return the answer to the message of the other side; refuse a second message."""
        points = _split(message.points)
        if self._others is not None:
            raise DataError("a side of a private set intersection got a second message: start a new intersection.")
        if len(message.points) % _SIZE or len(set(points)) < len(points):
            raise DataError(
                f"a message of a private set intersection has {len(message.points)} bytes and {len(set(points))} "
                f"different points: points of {_SIZE} bytes that all differ are needed, so send the message again."
            )
        answer = MaskedTwice(self._computed(_masked_points, points))
        self._others = frozenset(_split(answer.points))
        return answer

    def shared(self, answer: MaskedTwice) -> list[str]:
        """Return the keys that both sides have, sorted, from the answer to this side's message."""
        points = _split(answer.points)
        if self._others is None:
            raise DataError("a private set intersection needs the other side's message first: call answer with it.")
        if len(answer.points) != _SIZE * len(self.keys):
            raise DataError(
                f"an answer of a private set intersection has {len(answer.points)} bytes: {_SIZE * len(self.keys)} are "
                f"needed, for {len(self.keys)} keys, so send the answer again."
            )
        return sorted(key for key, point in zip(self.keys, points, strict=True) if point in self._others)

    def _computed(self, work: Callable[[bytes, Any], bytes], values: Sequence[Any]) -> bytes:
        chunks = [values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK)]
        parts = []
        for chunk, part in zip(chunks, self._run(partial(work, self._scalar), chunks), strict=True):
            parts.append(part)
            self._report(len(chunk))
        return b"".join(parts)


# --- whole intersections -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Intersection:
    """The shared keys of two sides, and every message that was sent."""

    shared: tuple[str, ...]
    messages: tuple[MaskedKeys, MaskedKeys]  # of the first and of the second side
    answers: tuple[MaskedTwice, MaskedTwice]  # to the first and to the second side
    empty: tuple[int, int]
    duplicates: tuple[int, int]

    @property
    def bytes(self) -> int:
        """Bytes of all messages."""
        return sum(len(part.points) for part in (*self.messages, *self.answers))


def intersect(first: Sequence[str | None], second: Sequence[str | None], report: Report = _no_report) -> Intersection:
    """Return the intersection of the keys of two sides, which are both played by this process.

    `report` gets the number of points after every step; there are `points_of` of them. Large sets use all processors.
    """
    with _workers(points_of(first, second)) as run:
        sides = Side(first, run, report), Side(second, run, report)
        messages = sides[0].message(), sides[1].message()
        answers = sides[1].answer(messages[0]), sides[0].answer(messages[1])
        shared = [side.shared(answer) for side, answer in zip(sides, answers, strict=True)]
    assert shared[0] == shared[1], "both sides learn the same keys"
    return Intersection(
        tuple(shared[0]), messages, answers, (sides[0].empty, sides[1].empty),
        (sides[0].duplicates, sides[1].duplicates),
    )  # fmt: skip


def points_of(first: Sequence[str | None], second: Sequence[str | None]) -> int:
    """Return the number of points that an intersection computes, if no key is empty or repeated."""
    return 2 * (len(first) + len(second))


@contextmanager
def _workers(points: int) -> Iterator[Map]:
    """Yield a `map` over all processors: X25519 of `cryptography` holds Python's lock, so threads would not help."""
    if points < _POOL_POINTS or cores() == 1 or multiprocessing.current_process().daemon:
        yield map
        return
    pool = ProcessPoolExecutor(cores(), context(), _ignore_interrupt)
    try:
        with without_main():  # processes start when there is work for them
            yield pool.map
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupt() -> None:
    """Leave Ctrl-C to the main process, which then ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
