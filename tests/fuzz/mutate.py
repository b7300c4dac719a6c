"""A seeded mutator: small changes to whole inputs, so that they get past the first check."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

_Change: TypeAlias = Callable[[random.Random, bytearray, Sequence[bytes]], None]
_NUMBERS = (
    b"0", b"-1", b"1", b"255", b"256", b"65536", b"2147483648", b"-9223372036854775809", b"99999999999999999999",
    b"1e308", b"1e999", b"-0.0", b"NaN", b"Infinity", b"null", b"true", b"0.5", b"9" * 400, b"1" * 5000,
)  # fmt: skip
_PIECES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\\",
    b'"',
    b"'",
    b"[[",
    b"{}",
    b"[]",
    b"()",
    b"/",
    b"../",
    b"..",
    b"%00",
    b"\xe2\x80\xae",
    b"\x1b[31m",
    b"</script>",
    b"A" * 300,
    b"(" * 200,
    b"[" * 3000,
    b"\\ud800",
    b"=",
    b",",
    b"\n",
)


def mutations(seeds: Sequence[bytes], words: Sequence[bytes], seed: int, most: int) -> Iterator[bytes]:
    """Yield the seeds, then mutations of them, for ever."""
    rng = random.Random(seed)
    yield from seeds
    while True:
        yield mutated(rng, rng.choice(seeds), [*words, *seeds], most)


def mutated(rng: random.Random, data: bytes, words: Sequence[bytes], most: int) -> bytes:
    """Return an input after one to six random changes."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        rng.choice(_CHANGES)(rng, content, words)
    return bytes(content[: max(most, len(data))])


def _span(rng: random.Random, content: bytearray) -> slice:
    start = rng.randrange(len(content) + 1)
    return slice(start, min(len(content), start + rng.choice((1, 1, 2, 4, 8, 32, 256, 4096))))


def _flip(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    if content:
        content[rng.randrange(len(content))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _delete(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    del content[_span(rng, content)]


def _repeat(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    span = _span(rng, content)
    content[span.start : span.start] = content[span] * rng.choice((1, 1, 2, 9))


def _move(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    span = _span(rng, content)
    piece = content[span]
    del content[span]
    start = rng.randrange(len(content) + 1)
    content[start:start] = piece


def _truncate(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    del content[rng.randrange(len(content) + 1) :]


def _insert(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = rng.choice((rng.choice(words) if words else b"", rng.choice(_PIECES), rng.choice(_NUMBERS)))


def _replace(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    """Put another number or word where one stands: the structure around it stays whole."""
    tokens = list(re.finditer(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_][\w-]*", bytes(content[:100_000])))
    if tokens:
        token = rng.choice(tokens)
        short = [word for word in words if len(word) < 60]
        content[slice(*token.span())] = rng.choice((rng.choice(_NUMBERS), rng.choice(short or [b"x"])))


def _splice(rng: random.Random, content: bytearray, words: Sequence[bytes]) -> None:
    other = rng.choice(words) if words else b""
    content[rng.randrange(len(content) + 1) :] = other[rng.randrange(len(other) + 1) :]


_CHANGES: tuple[_Change, ...] = (
    _flip, _flip, _set, _delete, _repeat, _move, _truncate, _insert, _insert, _replace, _replace, _replace, _splice,
)  # fmt: skip
