"""What silos and their server read from each other: letters, answers, messages, consortia, keys."""

import json
import logging
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from consortia import Rehearsal, rehearsal
from fuzz.target import PREPARED, Target
from silobench.errors import SilobenchError
from silobench.method.codecs import (
    CODECS,
    DENSE,
    SPARSE,
    Codec,
    Form,
    Packed,
    factors,
    quantized,
    random_subset,
    signs,
    sparse,
)
from silobench.method.types import Message
from silobench.silos.agreement import Agreement
from silobench.silos.answers import check_join
from silobench.silos.consortium import Consortium
from silobench.silos.letters import Letter
from silobench.silos.messages import reply_of
from silobench.silos.session import _read as read_answer
from silobench.silos.silo_file import SiloFile

_WORDS = (
    b'"kind":"train"', b'"kind":"begin"', b'"kind":"score"', b'"kind":"final"', b'"kind":"unmask"', b'"kind":"end"',
    b'"round":1', b'"facts":{}', b'"arrays":[]', b"null", b"true", b"[]", b"{}", b'"<f4"', b'"|u1"', b"-1", b"1e308",
)  # fmt: skip


@cache
def _three(place: str, secure: bool) -> Rehearsal:
    """Return three silos after a whole run, with its letters; `place` is the folder that they are made in."""
    choices = {"transforms": "secure_sum(protocol=pairwise, range=100)"} if secure else {}
    if not (Path(place) / PREPARED).is_dir():
        (Path(place) / PREPARED).mkdir()
    three = rehearsal(
        Path(place) / PREPARED / ("secure" if secure else "plain"), limits="max_runs = 1000", rounds=2, **choices
    )
    three.run()
    return three


def _plain() -> Rehearsal:
    return _three(str(Path.cwd()), False)


def _secure() -> Rehearsal:
    return _three(str(Path.cwd()), True)


def _letter(data: bytes) -> None:
    letter = Letter.of(data)
    if Letter.of(letter.content).content != letter.content:
        raise AssertionError("a letter is read otherwise than it was written")


def _letter_seeds() -> list[bytes]:
    letters = [content for _, letter, answer in _plain().letters for content in (letter, answer) if content]
    shortest = {Letter.of(content).kind: content for content in sorted(letters, key=len, reverse=True)}
    some = Letter("score", {"a": [1, None, {"b": "c"}]}, {"x": np.arange(5.0), "y": np.zeros((2, 3), np.int8)}).content
    return [some, *shortest.values()]


# --- a silo's door ------------------------------------------------------------------------------------


class _Failures(logging.Handler):
    """Collects the errors that a silo logs because it did not expect them."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] and record.levelno >= logging.ERROR:
            self.errors.append(record.exc_info[1])


_failures = _Failures()


def _door(three: Rehearsal, data: bytes) -> None:
    """Hand a letter to a silo, with the digest and the run that the silo knows; its answer must be a letter."""
    log = logging.getLogger("silobench.silos.silo")
    if _failures not in log.handlers:
        log.addHandler(_failures)
        log.propagate = False
    _failures.errors.clear()
    answer = Letter.of(three.silos["north"].answer(data))
    if _failures.errors and not isinstance(_failures.errors[0], SilobenchError):
        raise _failures.errors[0]
    if answer.kind == "refusal":
        raise SilobenchError(str(answer.facts["reason"]).rstrip(".") + ".")


def _to_north(three: Rehearsal) -> list[bytes]:
    """Return letters of a new run in which the silo has joined, and of the run that has ended."""
    old = [letter for name, letter, _ in three.letters if name == "north"]
    run = Letter.of(old[0]).run
    other = "f" * len(run)
    seeds = {}
    for content in old:
        letter = Letter.of(content)
        fresh = Letter(letter.kind, letter.facts, letter.arrays, letter.consortium, other, letter.silo, letter.round)
        seeds[letter.kind, letter.round] = fresh.content
    three.silos["north"].answer(seeds["join", 0])
    return [*seeds.values(), old[0]]


# --- answers at the server ----------------------------------------------------------------------------


def _join(data: bytes) -> None:
    read_answer(lambda letter: check_join(letter, _agreement(), []), Letter.of(data))


def _agreement() -> Agreement:
    return _secure().silos["north"].agreement


def _join_seeds() -> list[bytes]:
    return [answer for _, letter, answer in _secure().letters if answer and Letter.of(letter).kind == "join"]


_FORM = Form((24,), np.dtype(np.float32))
_LAYOUTS: dict[str, Codec] = {
    "dense": DENSE,
    "sparse": SPARSE,
    "sparse32": sparse("int32"),
    "sparse64": sparse("int64"),
    "bitmap": sparse("bitmap"),
    "signs": signs(),
    "quantized2": quantized(2, 8),
    "quantized4": quantized(4),
    "quantized8": quantized(8, 5),
    "quantized16": quantized(16),
    "random": random_subset(0.25, True),
    "factors": factors(((4, 5), (4,)), 1),
    "sparse-quantized": SPARSE.values(quantized(4)) if SPARSE.values else SPARSE,
    "bitmap-signs": sparse("bitmap").values(signs()) if SPARSE.values else SPARSE,
    "random-quantized": random_subset(0.5).values(quantized(8)) if SPARSE.values else SPARSE,
}
_ORDER = sorted(_LAYOUTS)


def _message(data: bytes) -> None:
    """Read the message of a silo as the server does: the first byte names the codec, the rest are its bytes."""
    codec = _LAYOUTS[_ORDER[data[0] % len(_ORDER)]] if data else DENSE
    blank = Message({"delta": Packed(codec.pack(np.zeros(24, np.float32)), _FORM, codec)}, 1.0, {})
    facts = {"weight": 1.0, "loss": 0.5, "steps": 2, "seconds": {}, "slowest": 0.1, "reports": {}, "work": [0, 0.1]}
    letter = Letter("train", facts, {"total/delta": np.frombuffer(data[1:], np.uint8)}, "c", "r", "north", 0)
    reply = reply_of(letter, blank, 0)
    part = reply.update.total["delta"]
    if part.shape != (24,):
        raise AssertionError(f"a part of shape {tuple(part.shape)} arrived")


def _message_seeds() -> list[bytes]:
    assert {name.split("(")[0] for name in CODECS.factories} <= {
        "dense",
        "factors",
        "quantized",
        "random-subset",
        "signs",
        "sparse",
    }
    values = np.zeros(24, np.float32)
    values[[2, 5, 11]] = [1.0, -2.0, 0.5]
    return [bytes([place]) + bytes(_LAYOUTS[name].pack(values)) for place, name in enumerate(_ORDER)]


def _facts(data: bytes) -> None:
    """Read the numbers of a silo's reply, which are JSON."""
    blank = Message({"delta": Packed(DENSE.pack(np.zeros(24, np.float32)), _FORM, DENSE)}, 1.0, {})
    header = json.dumps(
        {"kind": "train", "consortium": "", "run": "", "silo": "n", "round": 0, "facts": 0, "arrays": 0}
    )
    text = header.encode().replace(b'"facts": 0', b'"facts": ' + data)
    text = text.replace(b'"arrays": 0', b'"arrays": [["total/delta", "|u1", [96]]]')
    reply_of(Letter.of(b"silobench letter 1\n" + len(text).to_bytes(4) + text + bytes(96)), blank, 0)


_REPLY: dict[str, Any] = {
    "weight": 1.0, "loss": None, "steps": 2, "seconds": {"train": 0.5}, "slowest": 0.1, "reports": {"rate": [0.5, 2]},
    "work": [3, 0.1, 0.2],
}  # fmt: skip


# --- files of consortia and silos ---------------------------------------------------------------------


def _consortium(data: bytes) -> None:
    folder = Path("app")
    folder.mkdir()
    for file in (_plain().folder / "app").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "consortium.toml").write_bytes(data)
    Consortium.read_signed(folder)


def _consortium_seeds() -> list[bytes]:
    return [(_plain().folder / "app" / "consortium.toml").read_bytes()]


def _silo_file(data: bytes) -> None:
    Path("silo.toml").write_bytes(data)
    SiloFile.read(Path("silo.toml"))


def _silo_file_seeds() -> list[bytes]:
    return [_plain().silo_file("north").read_bytes()]


TARGETS = (
    Target("letter", _letter, _letter_seeds, words=_WORDS, most_bytes=8192),
    Target(
        "silo-door",
        lambda data: _door(_plain(), data),
        lambda: _to_north(_plain()),
        words=_WORDS,
        share=0.3,
        most_bytes=8192,
    ),
    Target(
        "silo-door-secure",
        lambda data: _door(_secure(), data),
        lambda: _to_north(_secure()),
        words=_WORDS,
        share=0.2,
        most_bytes=8192,
    ),
    Target("join-answer", _join, _join_seeds, words=_WORDS, has_sentences=False, most_bytes=8192),
    Target("codec", _message, _message_seeds, has_sentences=False, most_bytes=200),
    Target("reply-facts", _facts, lambda: (json.dumps(_REPLY).encode(),), words=_WORDS, most_bytes=1024),
    Target(
        "consortium", _consortium, _consortium_seeds, words=(b"[seconds]\n", b"[[silos]]\n", b"[files]\n", b"quorum = ")
    ),
    Target(
        "silo-file", _silo_file, _silo_file_seeds, words=(b"[limits]\n", b"max_epsilon = ", b"inf", b"nan", b"data = ")
    ),
)
