"""Records of runs: other bytes, whole JSON with values of wrong types, archives and checkpoints."""

import hashlib
import json
import lzma
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from safetensors.numpy import save

from fuzz.target import PREPARED, Target
from silobench.errors import SilobenchError
from silobench.runs.archive import read_archive, read_header
from silobench.runs.checkpoint import unpack
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.index import INDEX, RunIndex, _version
from silobench.runs.prepare import prepare
from silobench.runs.results import read_planned
from silobench.runs.stored import facts_digest, read_run, run_id
from silobench.runs.submission import check_records
from wrong_inputs.case import answered

_CHOICES = {"dataset": "fcube", "partition": "octants", "model": "linear", "solver": "sgd(epochs=1, batch=512)"}
_MEASURES = ("update-delta", "accuracy-loss", "replicas", "membership(rows=100)", "weight-divergence")
_FILES = ("run.json", "rounds.jsonl", "checkpoint/state.safetensors", "encoder.json")
_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    "",
    "x",
    "</script>",
    "\x1b[31m",
    [],
    [[]],
    {},
    {"a": 1},
    [None],
    ["x"],
)


@cache
def run_files(place: str, **choices: Any) -> dict[str, bytes]:
    """Return the files of a small finished run, by name; `place` is the folder that it is made in."""
    several = {key: list(value) if isinstance(value, tuple) else value for key, value in choices.items()}
    (only,) = plan({**_CHOICES, "rounds": 2, **several})
    folder = Path(place).resolve() / PREPARED / only.id
    for _ in execute(prepare(only), folder.parent):
        pass
    return {name: (folder / name).read_bytes() for name in _FILES if (folder / name).exists()}


def _files() -> dict[str, bytes]:
    return run_files(str(Path.cwd()))


def _measured() -> dict[str, bytes]:
    return run_files(str(Path.cwd()), measure=_MEASURES)


def write_run(files: dict[str, bytes], root: Path) -> Path:
    """Write the files of a run into the directory that its description names."""
    try:
        name = str(json.loads(files["run.json"])["id"])
        name = name if name.isalnum() else "0123456789abcdef"
    except (ValueError, KeyError, TypeError, RecursionError):
        name = "0123456789abcdef"
    for file, content in files.items():
        path = root / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root / name


def sealed(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return files whose digests and id are computed anew, as somebody who edits a record would."""
    try:
        facts = json.loads(files["run.json"])
        lines = files["rounds.jsonl"]
        facts["records"] = {
            "rounds": lines.count(b"\n"),
            "bytes": len(lines),
            "sha256": hashlib.sha256(lines).hexdigest(),
        }
        facts["id"] = run_id(facts["config"])
        facts["facts_sha256"] = facts_digest(facts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return files
    return {**files, "run.json": json.dumps(facts).encode()}


# --- bytes of one file --------------------------------------------------------------------------------


def _damaged(data: bytes) -> None:
    """Read a run of which one file has other bytes; the first byte says which."""
    place, content = data[0] % len(_FILES) if data else 0, data[1:]
    path = write_run({**_files(), _FILES[place]: content}, Path("runs"))
    unpack(path)
    read_run(path)


def _damaged_seeds() -> list[bytes]:
    return [bytes([place]) + _files()[name] for place, name in enumerate(_FILES) if name in _files()]


# --- whole JSON with wrong values ---------------------------------------------------------------------


def _write_edited(data: bytes) -> None:
    """Write a run whose description or rounds were edited and sealed again, beside one that is whole."""
    name = "run.json" if data[:1] == b"{" else "rounds.jsonl"
    content = data if name == "run.json" else data.removeprefix(b"r")
    write_run(sealed({**_measured(), name: content}), Path("runs"))
    write_run(run_files(str(Path.cwd()), algorithm="scaffold"), Path("runs"))


def _shown(data: bytes) -> None:
    _write_edited(data)
    check_records(Path("runs"))
    _command("show", "runs", "--details", "--parties")


def _reported(data: bytes) -> None:
    _write_edited(data)
    _command("report", "runs", "--output", "page.html")


def _command(*arguments: str) -> None:
    """Run a command in this process; its sentence about an error is raised."""
    reply = answered(list(arguments))
    (reply.out + reply.err).encode()  # as a terminal gets it
    if reply.code not in (0, 2):
        raise AssertionError(f"exit code {reply.code}: {reply.err}")
    if reply.code:
        raise SilobenchError(reply.message)


def _edited_seeds() -> list[bytes]:
    run_files(str(Path.cwd()), algorithm="scaffold")
    return [_measured()["run.json"], b"r" + _measured()["rounds.jsonl"]]


def odd_values(documents: list[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of JSON documents of which a few values are others, or missing."""

    @st.composite
    def changed(draw: Any) -> Any:
        document = json.loads(json.dumps(draw(st.sampled_from(documents))))
        for _ in range(draw(st.integers(1, 3))):
            places = list(_places(document))
            owner, key = places[draw(st.integers(0, len(places) - 1))]
            odd = draw(st.sampled_from(range(len(_ODD) + 1)))
            if odd == len(_ODD):
                del owner[key]
                if not document:
                    return document
            else:
                owner[key] = deepcopy(_ODD[odd])  # the next change may be inside it
        return document

    return changed()


def _places(value: Any) -> Any:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield value, key
        yield from _places(inner)


def _edits() -> st.SearchStrategy[bytes]:
    files = _measured()
    facts = odd_values([json.loads(files["run.json"])]).map(lambda facts: json.dumps(facts).encode())
    rows = [json.loads(line) for line in files["rounds.jsonl"].splitlines()]
    lines = odd_values([rows]).map(lambda rows: b"r" + b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return facts | lines


# --- archives -----------------------------------------------------------------------------------------


def _archive(data: bytes) -> None:
    """Read an archive: its bytes, or the text in it if the input starts with a letter t."""
    file = Path("mine.runs.xz")
    file.write_bytes(lzma.compress(data[1:], preset=0) if data[:1] == b"t" else data)
    read_header(file)
    read_archive(file)


def _archive_seeds() -> list[bytes]:
    files = _files()
    header = json.dumps({"silobench": "silobench records", "version": 1, "runs": 1, "title": "t"}).encode()
    text = header + b"\n" + json.dumps(json.loads(files["run.json"])).encode() + b"\n" + files["rounds.jsonl"]
    bomb = lzma.compress(header + b"\n" + bytes(16 << 20), preset=0)
    return [b"t" + text, lzma.compress(text), b"t" + header, bomb, lzma.compress(text) * 2]


# --- checkpoints, lists of planned runs, published tables ---------------------------------------------


def _checkpoint(data: bytes) -> None:
    path = write_run({**_files(), "checkpoint/state.safetensors": data}, Path("runs"))
    unpack(path)


def _checkpoint_seeds() -> list[bytes]:
    whole = _files()["checkpoint/state.safetensors"]
    odd = save({"server/params": np.zeros(0, np.float32), "party/x/y": np.zeros((2, 2), np.int8)}, {"silobench": "{}"})
    header = (
        b'{"__metadata__":{"silobench":"{}"},"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}'
    )
    return [whole, odd, len(header).to_bytes(8, "little") + header + b"1234", b"\xff" * 16]


def _planned(data: bytes) -> None:
    file = Path("runs/.plans/0123456789abcdef.json")
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    read_planned(Path("runs"))


def _indexed(data: bytes) -> None:
    """Read a run beside an index that somebody sealed with a new digest."""
    path = write_run(_files(), Path("runs"))
    Path("runs", INDEX).write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    RunIndex.of(Path("runs")).read(path)


def _index_seeds() -> list[bytes]:
    name, run = json.loads(_files()["run.json"])["id"], [[[1, 2, 3, 4]] * 2, {}, {}, {}]
    return [json.dumps({"version": _version(), "parts": [{}], "runs": {name: run}}).encode()]


def _odd_indices() -> st.SearchStrategy[bytes]:
    return odd_values([json.loads(_index_seeds()[0])]).map(lambda index: json.dumps(index).encode())


_VALUES = (b"null", b"[]", b"{}", b'"x"', b"1e308", b"[[1]]", b"-1", b"true")
TARGETS = (
    Target(
        "run-files",
        _damaged,
        _damaged_seeds,
        words=(b'"complete"', b'"records"', b"{}", b"[]", b"null"),
        most_bytes=8192,
    ),
    Target("run-shown", _shown, _edited_seeds, _edits, _VALUES, share=0.2, most_bytes=8192),
    Target("run-reported", _reported, _edited_seeds, _edits, _VALUES, share=0.02, most_bytes=8192),
    Target("run-index", _indexed, _index_seeds, _odd_indices, _VALUES),
    Target("run-archive", _archive, _archive_seeds, words=(b"\xfd7zXZ\x00", b'"runs": 2', b"\n"), most_bytes=8192),
    Target(
        "checkpoint",
        _checkpoint,
        _checkpoint_seeds,
        words=(b"F32", b"BF16", b"I64", b'"shape":[', b"data_offsets"),
        most_bytes=8192,
    ),
    Target(
        "run-plans", _planned, lambda: (b'{"experiment": "x", "runs": {"0123456789abcdef": "fcube / iid"}}',), share=0.5
    ),
)
