"""Arrays as files: npz, npy, IDX, both forms of CIFAR-10, LEAF's JSON, MATLAB's files, sound, and word vectors."""

import functools
import gzip
import io
import json
import pickle
import struct
import wave
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy import io as scipy_io

from silobench.data.readers.cifar import _cifar_rows, _pickled_rows
from silobench.data.readers.image_arrays import _leaf_split, _svhn_split, read_idx
from silobench.data.readers.speech import read_wav
from silobench.data.readers.user_arrays import npz
from silobench.data.word_vectors import _read as read_vectors
from silobench.runs.new_rows import features
from silobench.tasks.row_format import RowFormat

_SHAPES = (
    "(10,)", "(10, 2)", "(1000000000000,)", "(10, 2, 0)", "(-1, 2)", "()", "(3, 100000000)", "(2,) * 9", "[10, 2]",
    "(1000000000000, 0)", "(4, 3)",
)  # fmt: skip
_TYPES = (
    "<f8", ">f4", "|u1", "|O", "<U7", "<M8[s]", "|b1", "<c16", "|V9", "[('a', '<f8')]", "<f2", "|S3", "<U99999999",
    "<U0",
)  # fmt: skip


_FIELDS = ("{" * 500, "[" * 9_000, "__import__('os').system('touch pwned')", "{}", "9" * 5_000, "\x00", "")


def npy_file(rng: Random) -> bytes:
    """Return an array in numpy's format: a sound one, or a header that does not fit what follows it."""
    if rng.random() < 0.4:
        return _saved(_array(rng))
    order = rng.choice(("False", "True", "0"))
    fields = f"{{'descr': {_type(rng)}, 'fortran_order': {order}, 'shape': {rng.choice(_SHAPES)}, }}"
    if rng.random() < 0.2:
        fields = rng.choice(_FIELDS)
    version = rng.choice(((1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    header = fields.encode("latin-1") + b" " * rng.choice((0, 13)) + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", rng.choice((len(header),) * 6 + (0, 60_000)))
    return b"\x93NUMPY" + bytes(version) + length + header + rng.randbytes(rng.choice((0, 16, 160)))


def _type(rng: Random) -> str:
    kind = rng.choice(_TYPES)
    return kind if kind.startswith("[") else repr(kind)


def _array(rng: Random) -> Any:
    rows = rng.choice((0, 1, 10, 40))
    values = np.arange(rows * 2).reshape(rows, 2)
    return rng.choice(
        (
            values % 3, values[:, 0] % 2, values.astype(">f4"), np.asfortranarray(values % 5, dtype=np.uint8),
            values * np.nan, values.astype(np.complex64), values.astype("U8"), values.astype("M8[s]"), values[:, :0],
            np.array([["a", "b"]] * rows), values.reshape(rows, 1, 2), np.array(3), values % 2 == 0,
            values.astype(np.float64) * 1e306, np.zeros(rows, [("a", "<f8")]), np.array([None] * rows, object),
        )
    )  # fmt: skip


def _saved(array: Any) -> bytes:
    target = io.BytesIO()
    np.save(target, array, allow_pickle=True)  # an array of objects must be refused by the reader
    return target.getvalue()


def npz_file(rng: Random) -> bytes:
    """Return a NumPy archive: sound arrays x and y, strange ones, or a bomb."""
    rows = rng.choice((1, 10, 40))
    x, y = np.arange(rows * 3.0).reshape(rows, 3), np.arange(rows) % 2
    members = {"x.npy": _saved(x), "y.npy": _saved(y)}
    for name in rng.sample(("x.npy", "y.npy", "groups.npy", "x_train.npy", "../x.npy", "x", ".npy"), rng.randrange(3)):
        members[name] = npy_file(rng)
    if rng.random() < 0.005:
        return _bomb()
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if rng.random() < 0.05:
            archive.writestr("x.npy", members["x.npy"])
    return target.getvalue()


@functools.cache
def _bomb() -> bytes:
    """Return an archive of 1 MB with an array of 210 MB."""
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', 'fortran_order': False, 'shape': (40, 5250000), }"
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", header.ljust(127) + b"\n" + bytes(210_000_000))
        archive.writestr("y.npy", _saved(np.arange(40) % 2))
    return target.getvalue()


def read_npz(content: bytes) -> None:
    """Read the content as a NumPy archive of rows and labels."""
    path = Path("rows.npz")
    path.write_bytes(content)
    npz(str(path), scale="standard" if len(content) % 2 else "none")


def rows_file(rng: Random) -> bytes:
    """Return one array, or an archive of arrays."""
    return npy_file(rng) if rng.random() < 0.6 else npz_file(rng)


def read_new_rows(content: bytes) -> None:
    """Read the content as new rows for a trained network: one array, or the array x of an archive."""
    path = Path("rows.npz" if content.startswith(b"PK") else "rows.npy")
    path.write_bytes(content)
    kinds = ("float32", "uint8", "int32")
    features(path, RowFormat((3,), kinds[len(content) % 3]), encoded=bool(len(content) % 2))


# --- published forms ---------------------------------------------------------------------------------


def idx_file(rng: Random) -> bytes:
    """Return an IDX file, plain or compressed, whose header may promise more than it has."""
    sides = [rng.choice((0, 1, 3, 28, 2**31, 2**32 - 1)) for _ in range(rng.choice((0, 1, 3, 3, 200)))]
    sides = [2, 28, 28] if rng.random() < 0.3 else sides
    head = bytes((0, 0, rng.choice((8, 8, 12, 9)), len(sides) % 256)) + b"".join(
        side.to_bytes(4, "big") for side in sides
    )
    content = head + bytes(rng.choice((0, 5, 2 * 28 * 28, 9 * 4)))
    return gzip.compress(content, mtime=0) if rng.random() < 0.4 else content


def read_idx_file(content: bytes) -> None:
    """Read the content as an IDX file."""
    path = Path("images-idx3-ubyte")
    path.write_bytes(content)
    read_idx(path)


class Bait:
    """An object whose pickle writes a file when it is loaded."""

    def __reduce__(self) -> Any:
        return (open, ("pwned", "w"))


def cifar_file(rng: Random) -> bytes:
    """Return a batch of CIFAR-10 in its binary or its python form, or another pickle."""
    if rng.random() < 0.2:
        return b"".join(bytes((rng.randrange(12),)) + bytes(3072) for _ in range(rng.randrange(3))) + bytes(
            rng.choice((0, 0, 5))
        )
    rows = rng.randrange(3)
    batch: Any = {b"data": np.zeros((rows, 3072), np.uint8), b"labels": [rng.randrange(11) for _ in range(rows)]}
    if rng.random() < 0.5:
        batch[rng.choice((b"data", b"labels", b"x", "data", 7, ("a",)))] = rng.choice(
            (None, [], [2**100], Bait(), np.zeros(3072), "x", (1, (2, (3,))), {b"data": 1}, np.array([None]), 1.5, b"")
        )
    if rng.random() < 0.1:
        batch = rng.choice(([], Bait(), None, {}, "x", 10**50))
    return pickle.dumps(batch, rng.randrange(6))


def read_cifar(content: bytes) -> None:
    """Read the content as a batch of CIFAR-10: a pickle by its form, without running code, else as bytes."""
    path = Path("data_batch_1")
    path.write_bytes(content)
    is_pickle = content[:1] in (b"\x80", b"(", b"c", b"}", b"]", b"N", b"I", b"d") or content[-1:] == b"."
    (_pickled_rows if is_pickle else _cifar_rows)(path)


def leaf_file(rng: Random) -> bytes:
    """Return a JSON file in LEAF's form, with strange values in some places."""
    odd = (None, 1, "x", "\ud800", [], {}, [[1]], [10**400], 1e400, True, [[0.0] * 784], {"x": [], "y": []})
    users: Any = [rng.choice(odd) if rng.random() < 0.1 else f"u{place}" for place in range(rng.randrange(4))]
    data: Any = {str(user): {"x": [[k / 255] * 784 for k in range(2)], "y": [1, 2]} for user in users}
    whole: Any = {"users": users, "num_samples": [2] * len(users), "user_data": data}
    for _ in range(rng.choice((0, 0, 1, 2))):
        place = rng.choice([whole, *(value for value in data.values() if isinstance(value, dict))])
        place[rng.choice((*place, "more"))] = rng.choice(odd)
    text = json.dumps(whole)
    return (
        text if rng.random() < 0.95 else rng.choice(("[" * 100_000, "{" * 2_000, "1e", "9" * 5_000, "NaN"))
    ).encode()


def read_leaf(content: bytes) -> None:
    """Read the content as FEMNIST in LEAF's form."""
    path = Path("all_data_0.json")
    path.write_bytes(content)
    _leaf_split([path], "train", 62)


def mat_file(rng: Random) -> bytes:
    """Return a MATLAB file with X and y, as SVHN has them, or with other variables."""
    rows = rng.randrange(1, 4)
    variables: dict[str, Any] = {"X": np.zeros((32, 32, 3, rows), np.uint8), "y": np.ones((rows, 1), np.uint8)}
    if rng.random() < 0.4:
        odd = (np.zeros((1, 1), object), np.zeros((2, 2)), np.zeros(0), "text", {"a": 1}, np.ones((1, 1)) * 99)
        variables[rng.choice(("X", "y", "z"))] = rng.choice(odd)
    target = io.BytesIO()
    scipy_io.savemat(
        target,
        variables,
        do_compression=rng.random() < 0.5,
        format=rng.choice(("4", "5", "5"))
        if "z" not in variables
        and all(isinstance(v, np.ndarray) and v.ndim == 2 and v.dtype != object for v in variables.values())
        else "5",
    )
    return target.getvalue()


def read_mat(content: bytes) -> None:
    """Read the content as a MATLAB file of SVHN."""
    path = Path("train_32x32.mat")
    path.write_bytes(content)
    _svhn_split(path)


def sound_file(rng: Random) -> bytes:
    """Return a WAV clip, often with a header that a clip of speech does not have."""
    target = io.BytesIO()
    with wave.open(target, "wb") as clip:
        clip.setnchannels(rng.choice((1, 1, 2)))
        clip.setsampwidth(rng.choice((2, 2, 1, 4)))
        clip.setframerate(rng.choice((16_000, 16_000, 8_000, 2**28)))
        clip.writeframes(rng.randbytes(rng.choice((0, 3, 400, 32_000))))
    return target.getvalue()


def read_sound(content: bytes) -> None:
    """Read the content as a clip of speech."""
    read_wav(content, "clip.wav")


def vectors_text(rng: Random) -> bytes:
    """Return word vectors as text, with wrong lines here and there."""
    lines = [f"w{row} 0.5 -1 {row}" for row in range(rng.choice((0, 1, 5)))]
    for _ in range(rng.choice((0, 0, 1, 2))):
        odd = (
            "",
            " ",
            "w 1",
            "w0 1 2 3",
            "\ufeffw 1 2 3",
            "w 1e999 0 0",
            "w nan 0 0",
            " 1 2 3",
            "w  1 2 3",
            "\x85 1 2 3",
            "w 1 2 3 #",
        )
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(odd))
    return rng.choice(("\n", "\n", "\r\n", "\r")).join(lines).encode()


def read_vectors_file(content: bytes) -> None:
    """Read the content as word vectors."""
    path = Path("vectors.txt")
    path.write_bytes(content)
    read_vectors(path)
