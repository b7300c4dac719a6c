"""What parties tell each other about their rows: profiles, schemas, intersections of keys, secrets of silos."""

import json
from functools import cache
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from safetensors.numpy import save

from fuzz.target import Target
from fuzz.targets.records import odd_values
from silobench.advice.answer import answer
from silobench.advice.profile import Profile, combine, count_codes, read_profile
from silobench.advice.schema import Schema, stated_bins, stated_schema
from silobench.privacy.intersection import MaskedKeys, MaskedTwice, Side
from silobench.silos.allowance import spent_before
from silobench.silos.store import Drawer

_SCHEMA = stated_schema("answer=no,yes", ["age=0:100", "sex=f,m"], 4)


@cache
def _profile(party: str, seed: int) -> Profile:
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, 60)
    return count_codes(party, labels, [draw.integers(-1, 4, 60), draw.integers(0, 2, 60)], _SCHEMA)


def _profiles(data: bytes) -> None:
    Path("mine.json").write_bytes(data)
    profile = read_profile(Path("mine.json"))
    combined = combine([_profile("other party", 1), profile])
    answer(combined, [], "")


def _profile_text() -> bytes:
    return json.dumps(_profile("here", 0).as_json()).encode()


def _odd_profiles() -> st.SearchStrategy[bytes]:
    return odd_values([_profile("here", 0).as_json()]).map(lambda facts: json.dumps(facts).encode())


def _schema(data: bytes) -> None:
    Path("schema.json").write_bytes(data)
    schema = Schema.read(Path("schema.json"))
    if Schema.from_json(json.loads(json.dumps(schema.as_json())), "again") != schema:
        raise AssertionError("a schema is read otherwise than it was written")


def _bins(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    bins = stated_bins(text, 4)
    bins.names  # noqa: B018 - they are computed


@cache
def _points() -> tuple[bytes, bytes]:
    """Return a message and an answer to the message of a side with three keys."""
    other, side = Side(["b", "c", "d"]), Side(["a", "b", "c"])
    return other.message().points, other.answer(side.message()).points


def _intersection(data: bytes) -> None:
    """Read the message and the answer of the other side; the first byte says where they part."""
    cut = 32 * (data[0] % 8) if data else 0
    side = Side(["a", "b", "c"])
    side.answer(MaskedKeys(data[1 : 1 + cut]))
    side.shared(MaskedTwice(data[1 + cut :]))


def _spent(data: bytes) -> None:
    """Read what a silo wrote down of its spent privacy: the ledger, or the number of rounds if it starts with an r."""
    drawer = Drawer(Path.cwd())
    drawer.put("rounds-trained" if data[:1] == b"r" else "spent", data[1:])
    spent_before(drawer)


def _ledger(**changes: object) -> bytes:
    names = ("party", "count", "unit", "sampling", "reproducible", "delta", "noise", "rate", "rho")
    values = {"delta": 1e-5, "noise": 1.0, "rate": 0.1, "rho": -1.0, "count": 20, **changes}
    kinds = {"party": np.int64, "count": np.int64, "unit": np.uint8, "sampling": np.uint8, "reproducible": np.uint8}
    return save({f"privacy/{name}": np.array([values.get(name, 0)], kinds.get(name, np.float64)) for name in names})


TARGETS = (
    Target("profile", _profiles, lambda: (_profile_text(),), _odd_profiles, share=0.4),
    Target(
        "schema", _schema, lambda: (json.dumps(_SCHEMA.as_json()).encode(),), words=(b'"cuts"', b'"categories"', b"NaN")
    ),
    Target(
        "stated-bins",
        _bins,
        lambda: (b"age=0:100", b"sex=f,m", b"x=-1e3:1e3"),
        words=(b":", b"=", b",", b"inf"),
        most_bytes=64,
    ),
    Target("intersection", _intersection, lambda: (b"\x03" + _points()[0] + _points()[1],), most_bytes=400),
    Target("spent-privacy", _spent, lambda: (b"r12", b"l" + _ledger(), b"l" + _ledger(noise=0.0, rate=2.0)), share=0.5),
)
