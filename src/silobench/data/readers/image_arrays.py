"""Image datasets published as arrays of pixels: MNIST and Fashion-MNIST (idx), SVHN (.mat), FEMNIST (LEAF's JSON).

Readers of picture files (png, jpeg, ...) are in `image_files`. Rows are uint8 ``[channels, height, width]``; they are
converted to floats batch by batch during training. Files are not trusted: a header never allocates memory by itself.
"""

import gzip
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import io as scipy_io

from silobench.data.dataset import Dataset, Labels, Split
from silobench.data.readers.checks import check_labels, unreadable
from silobench.data.store.archives import kind, read_limited, size_limit
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files, require
from silobench.errors import DataError

Pixels: TypeAlias = NDArray[np.uint8]

DIGITS = tuple("0123456789")
CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


# --- idx: MNIST, Fashion-MNIST, QMNIST ----------------------------------------------------------------

_IDX_TYPES: Mapping[int, np.dtype[Any]] = {0x08: np.dtype(np.uint8), 0x0C: np.dtype(">i4")}


def mnist() -> Dataset:
    """70,000 handwritten digits of 28 x 28 pixels, light on dark: 60,000 for training, 10,000 for testing."""
    return stored("mnist", _read_mnist)


def fmnist() -> Dataset:
    """Fashion-MNIST: 70,000 pictures of clothing in the format of MNIST."""
    return stored("fmnist", _read_fmnist)


def mnist_writers() -> Dataset:
    """MNIST with the writer of every digit (NIST's ids): 539 writers for training, 297 others for testing."""
    return stored("mnist-writers", _read_mnist_writers)


def _read_mnist(files: Files) -> Dataset:
    return Dataset("mnist", *_idx_splits(files), DIGITS, files.entry.licence)


def _read_fmnist(files: Files) -> Dataset:
    return Dataset("fmnist", *_idx_splits(files), _CLOTHES, files.entry.licence)


def _read_mnist_writers(files: Files) -> Dataset:
    train, test = _idx_splits(require("mnist"))
    return Dataset(
        "mnist-writers",
        _with_writers(train, files["qmnist-train-labels-idx2-int.gz"]),
        _with_writers(test, files["qmnist-test-labels-idx2-int.gz"]),
        DIGITS,
        files.entry.licence,
        defaults={"partition": "by-group"},
    )


def _idx_splits(files: Files) -> tuple[Split, Split]:
    train, test = (
        _idx_split(files[f"{side}-images-idx3-ubyte"], files[f"{side}-labels-idx1-ubyte"]) for side in ("train", "t10k")
    )
    return train, test


def _idx_split(images: Path, labels: Path) -> Split:
    x, y = read_idx(images), read_idx(labels)
    if x.dtype != np.uint8 or x.shape[1:] != (28, 28):
        raise DataError(f"{images} has {x.dtype} of shape {x.shape}: bytes of n x 28 x 28 are needed; fetch it again.")
    if y.dtype != np.uint8 or y.shape != (len(x),):
        raise DataError(
            f"{labels} has {y.dtype} of shape {y.shape} for the {len(x)} images of {images.name}: one byte each is "
            "needed, so fetch both again."
        )
    return Split(x[:, None], check_labels(labels, y, 10))


def _with_writers(split: Split, path: Path) -> Split:
    """Add the writers: column 2 of QMNIST. Its first rows are those of MNIST, which its digits (column 0) confirm."""
    table = read_idx(path)
    if table.dtype != np.int32 or table.ndim != 2 or table.shape[1] != 8 or len(table) < len(split):
        raise DataError(
            f"{path} has {table.dtype} of shape {table.shape}: at least {len(split)} rows of 8 numbers (int32) are "
            "needed, so fetch it again."
        )
    table = table[: len(split)]
    wrong = np.flatnonzero(table[:, 0] != split.y)
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{path} has the digit {table[row, 0]} in row {row} (counted from 0) where MNIST has {split.y[row]}: "
            "the rows of MNIST in the same order are needed, so fetch both again."
        )
    return replace(split, groups={"writer": table[:, 2].astype(np.int64)})


def read_idx(path: Path) -> NDArray[Any]:
    """Read an idx file of bytes or 32-bit integers, plain or compressed by gzip.

    The content is read first and then compared with the size in the header, so a wrong header allocates no memory.
    """
    try:
        with _open(path) as stream:
            dtype, shape = _idx_header(path, stream)
            needed = math.prod(shape) * dtype.itemsize
            sides = " x ".join(map(str, shape))
            data = read_limited(stream, min(needed, size_limit(path)), f"{path}, an idx file of {sides},")
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error, "an idx file", "fetch it again") from error
    if len(data) != needed or not needed:
        raise DataError(
            f"{path} has {len(data):,} bytes after a header of {sides}: {max(needed, 1):,} are needed, so fetch it "
            "again."
        )
    return np.frombuffer(data, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if kind(path) == "gzip" else path.open("rb")


def _idx_header(path: Path, stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the header: two zero bytes, the type, the number of dimensions, and each dimension as 32 bits."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not 1 <= magic[3] <= 4:
        raise DataError(
            f"{path} begins with the bytes {magic.hex(' ') or '(none)'}: an idx file of bytes (00 00 08) or integers "
            "(00 00 0c) is needed, so fetch it again."
        )
    sides = stream.read(4 * magic[3])
    if len(sides) < 4 * magic[3]:
        raise DataError(f"{path} ends in its header: {magic[3]} dimensions are needed, so fetch it again.")
    return _IDX_TYPES[magic[2]], tuple(np.frombuffer(sides, dtype=">u4").tolist())


# --- SVHN --------------------------------------------------------------------------------------------


def svhn() -> Dataset:
    """Street View House Numbers, cropped: 73,257 training and 26,032 test digits of 32 x 32 pixels in colour."""
    return stored("svhn", _read_svhn)


def _read_svhn(files: Files) -> Dataset:
    train, test = (_svhn_split(files[name]) for name in ("train_32x32.mat", "test_32x32.mat"))
    return Dataset("svhn", train, test, DIGITS, files.entry.licence)


def _svhn_split(path: Path) -> Split:
    """Read X ``[row, column, channel, n]`` and y, which is 1 to 9, and 10 for the digit 0."""
    _check_mat(path)
    try:
        content = scipy_io.loadmat(path, variable_names=("X", "y"))
        x = np.ascontiguousarray(np.asarray(content["X"], dtype=np.uint8).transpose(3, 2, 0, 1))
        y = np.asarray(content["y"]).reshape(len(x))
    except Exception as error:  # scipy raises many types of error for a truncated file
        raise DataError(f"{path} is damaged ({error}): fetch it again.") from error
    bad = np.flatnonzero(~np.isin(y, np.arange(1, 11)))
    if len(bad):
        raise DataError(
            f"{path} has the label {y[bad[0]]} in row {bad[0]} (counted from 0): 1 to 10 are needed, so fetch it again."
        )
    return Split(x, y.astype(np.int64) % 10)


def _check_mat(path: Path) -> None:
    """Check the names, shapes and types of all variables, which are in the headers, before the data are read."""
    try:
        variables = {name: (tuple(shape), type_) for name, shape, type_ in scipy_io.whosmat(path)}
    except Exception as error:
        raise unreadable(path, error, "a MATLAB file", "fetch it again") from error
    shape, type_ = variables.get("X", ((), ""))
    count = shape[3] if len(shape) == 4 else 0
    fits = shape[:3] == (32, 32, 3) and type_ == "uint8" and 1 <= count * 32 * 32 * 3 <= size_limit(path)
    right_labels = variables.get("y") in (((count, 1), "uint8"), ((count, 1), "double"))
    if set(variables) != {"X", "y"} or not fits or not right_labels:
        listed = ", ".join(f"{name} {' x '.join(map(str, s))} ({t})" for name, (s, t) in variables.items()) or "nothing"
        raise DataError(
            f"{path} has {listed}: X of 32 x 32 x 3 x n (uint8) and y of n x 1, and nothing else, are needed; fetch it "
            "again."
        )


# --- FEMNIST -----------------------------------------------------------------------------------------


def femnist(digits: bool = True) -> Dataset:
    """Handwritten digits (or, with ``digits=false``, all 62 characters) by writer, from the output of LEAF's scripts.

    Images have 28 x 28 pixels, dark on white, unlike MNIST. LEAF's values k/255 become k; other values are refused,
    because rounding would hide a wrong scale. Writers are sorted, so that the rows do not depend on how the writers are
    distributed over files.
    """
    return stored("femnist", _read_femnist, digits=digits)


def _read_femnist(files: Files, digits: bool) -> Dataset:
    classes = DIGITS if digits else CHARACTERS
    train, test = (
        _leaf_split([files[name] for name in files.names if name.startswith(f"{side}/")], side, len(classes))
        for side in ("train", "test")
    )
    notes = ("only the digits are used, not the letters",) if digits else ()
    return Dataset("femnist", train, test, classes, files.entry.licence, notes, defaults={"partition": "by-group"})


def _leaf_split(paths: Sequence[Path], side: str, classes: int) -> Split:
    """Read LEAF files and keep the rows with a label below `classes`."""
    users: dict[str, tuple[Path, Pixels, Labels]] = {}
    for path in paths:
        for user, x, y in _leaf_users(path):
            if user in users:
                raise DataError(f"{path} has the user '{user}', who is also in {users[user][0]}: give each file once.")
            rows = y < classes
            users[user] = path, x[rows], y[rows]
    order = sorted(users)
    if not any(len(users[user][2]) for user in order):
        raise DataError(
            f"the {len(paths)} files in femnist's {side} folder have no rows: run LEAF's preprocess.sh again."
        )
    writers = np.repeat(np.array(order), [len(users[user][2]) for user in order])
    x, y = (np.concatenate([users[user][part] for user in order]) for part in (1, 2))
    return Split(x, y, {"writer": writers})


def _leaf_users(path: Path) -> Iterator[tuple[str, Pixels, Labels]]:
    """Yield the name, images and labels of every user of a file."""
    try:
        content = json.loads(path.read_bytes(), object_hook=_compact)
    except (ValueError, RecursionError) as error:
        raise unreadable(path, error, "JSON", "run LEAF's preprocess.sh again") from error
    whole: dict[str, Any] = content if isinstance(content, dict) else {}
    users: Any = whole.get("users")
    counts: Any = whole.get("num_samples")
    rows: Any = whole.get("user_data")
    lists = isinstance(users, list) and isinstance(counts, list) and isinstance(rows, dict)
    if not lists or len(users) != len(counts) or sorted(map(str, users)) != sorted(rows):
        raise DataError(
            f"{path} is not a file of LEAF: users and num_samples of equal length, and user_data for the same users, "
            "are needed; run LEAF's preprocess.sh again."
        )
    for user, count in zip(users, counts, strict=True):
        x, y = _leaf_rows(f"the user '{user}' of {path}", rows[str(user)])
        if len(y) != count:
            raise DataError(
                f"the user '{user}' of {path} has {len(y)} rows but a num_samples of {count}: both must be equal, so "
                "run LEAF's preprocess.sh again."
            )
        yield str(user), x, y


def _compact(value: dict[str, Any]) -> dict[str, Any]:
    """Convert each user's numbers to an array while parsing, because lists would need many times the memory."""
    if value.keys() == {"x", "y"}:
        try:
            with np.errstate(over="ignore"):  # `_leaf_rows` refuses infinite values
                return {"x": np.array(value["x"], dtype=np.float32), "y": value["y"]}
        except (ValueError, TypeError, OverflowError):
            pass  # `_leaf_rows` raises the error, where the user's name is known
    return value


def _leaf_rows(where: str, rows: Any) -> tuple[Pixels, Labels]:
    x: Any = rows.get("x") if isinstance(rows, dict) else None
    y: Any = rows.get("y") if isinstance(rows, dict) else None
    fits = isinstance(x, np.ndarray) and isinstance(y, list) and (x.shape == (len(y), 784) or x.size == len(y) == 0)
    if not fits:
        raise DataError(
            f"{where} does not have rows of 784 numbers with one label per row: run LEAF's preprocess.sh again."
        )
    if any(type(label) is not int or not 0 <= label < len(CHARACTERS) for label in y):
        raise DataError(f"{where} has labels that are not whole numbers from 0 to 61: run LEAF's preprocess.sh again.")
    with np.errstate(all="ignore"):  # overflow and NaN fail the comparison below
        scaled = x.reshape(-1, 1, 28, 28) * 255
        pixels = np.rint(scaled)
        good = (np.abs(scaled - pixels) < 0.01) & (pixels >= 0) & (pixels <= 255)
    if not good.all():
        raise DataError(f"{where} has pixels that are not k/255 with k from 0 to 255: run LEAF's preprocess.sh again.")
    return pixels.astype(np.uint8), np.array(y, dtype=np.int64)
