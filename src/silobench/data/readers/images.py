"""Images in formats of their own: MNIST and its kin (idx), SVHN (.mat), FEMNIST (LEAF's json).

Rows are uint8 ``[channels, height, width]`` and stay so; they become numbers batch by batch, elsewhere. No file is
trusted: a header is believed only as far as the bytes behind it go.
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
from silobench.data.store.archives import allowance, blocks, kind
from silobench.data.store.cache import stored
from silobench.data.store.store import Files, require
from silobench.errors import DataError

Pixels: TypeAlias = NDArray[np.uint8]

DIGITS = tuple("0123456789")
CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def check_labels(path: Path, labels: NDArray[Any], classes: int) -> Labels:
    """Labels as int64; one that is no class is refused with its row."""
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise DataError(
            f"{path} has the label {labels[bad[0]]} in row {bad[0]} (counted from 0): 0 to {classes - 1} are needed, "
            "so fetch the file again."
        )
    return labels.astype(np.int64)


# --- idx: MNIST and its kin --------------------------------------------------------------------------

_IDX_TYPES: Mapping[int, np.dtype[Any]] = {0x08: np.dtype(np.uint8), 0x0C: np.dtype(">i4")}


def mnist() -> Dataset:
    """70,000 handwritten digits of 28 x 28 pixels, light on dark: 60,000 to train, 10,000 to test."""
    return stored("mnist", _read_mnist)


def fmnist() -> Dataset:
    """Fashion-MNIST: 70,000 pictures of clothing in the form of MNIST."""
    return stored("fmnist", _read_fmnist)


def mnist_writers() -> Dataset:
    """MNIST with the writer of every digit, by NIST's ids: 539 writers in training, 297 others in the test rows."""
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
    """The split with QMNIST's column 2. Its first rows are MNIST's, in MNIST's order; that column 0 agrees shows it."""
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
            f"{path} has the digit {table[row, 0]} in row {row} (counted from 0) where MNIST has {split.y[row]}: the "
            "rows must be MNIST's, so fetch both again."
        )
    return replace(split, groups={"writer": table[:, 2].astype(np.int64)})


def read_idx(path: Path) -> NDArray[Any]:
    """The array of an idx file of bytes or 32-bit integers, plain or packed by gzip.

    The header says how much must follow. No memory is taken on its word: what is there is read, and then compared.
    """
    try:
        with _plain(path) as stream:
            dtype, shape = _idx_header(path, stream)
            needed = math.prod(shape) * dtype.itemsize
            sides = " x ".join(map(str, shape))
            limit = min(needed, allowance(path))
            data = b"".join(blocks(stream, limit, f"{path}, an idx file of {sides},"))
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as an idx file ({error}): fetch it again.") from error
    if len(data) != needed:
        raise DataError(
            f"{path} has {len(data):,} bytes after a header of {sides}: {needed:,} are needed, so fetch it again."
        )
    return np.frombuffer(data, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _plain(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if kind(path) == "gzip" else path.open("rb")


def _idx_header(path: Path, stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Two zeros, the type, the number of sides; then each side as 32 bits."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES or not 1 <= magic[3] <= 4:
        raise DataError(
            f"{path} begins with the bytes {magic.hex(' ') or '(none)'}: an idx file of bytes (00 00 08) or integers "
            "(00 00 0c) is needed, so fetch it again."
        )
    sides = stream.read(4 * magic[3])
    if len(sides) < 4 * magic[3]:
        raise DataError(f"{path} ends in its header: {magic[3]} sides are needed, so fetch it again.")
    return _IDX_TYPES[magic[2]], tuple(np.frombuffer(sides, dtype=">u4").tolist())


# --- SVHN --------------------------------------------------------------------------------------------


def svhn() -> Dataset:
    """Street View House Numbers, cropped: 73,257 digits of 32 x 32 pixels in colour to train, 26,032 to test."""
    return stored("svhn", _read_svhn)


def _read_svhn(files: Files) -> Dataset:
    train, test = (_svhn_split(files[name]) for name in ("train_32x32.mat", "test_32x32.mat"))
    return Dataset("svhn", train, test, DIGITS, files.entry.licence)


def _svhn_split(path: Path) -> Split:
    """X is [row, column, channel, n]; y is 1 to 9, and 10 for the digit 0."""
    _check_mat(path)
    try:
        content = scipy_io.loadmat(path, variable_names=("X", "y"))
        x = np.ascontiguousarray(np.asarray(content["X"], dtype=np.uint8).transpose(3, 2, 0, 1))
        y = np.asarray(content["y"]).reshape(len(x))
    except Exception as error:  # scipy raises many kinds for a torn file
        raise DataError(f"{path} is damaged ({error}): fetch it again.") from error
    bad = np.flatnonzero(~np.isin(y, np.arange(1, 11)))
    if len(bad):
        raise DataError(
            f"{path} has the label {y[bad[0]]} in row {bad[0]} (counted from 0): 1 to 10 are needed, so fetch it again."
        )
    return Split(x, y.astype(np.int64) % 10)


def _check_mat(path: Path) -> None:
    """Refuses other variables, shapes or types than SVHN's, by the headers alone."""
    try:
        found = {name: (tuple(shape), type_) for name, shape, type_ in scipy_io.whosmat(path)}
    except Exception as error:
        raise DataError(f"{path} cannot be read as a MATLAB file ({error}): fetch it again.") from error
    shape, type_ = found.get("X", ((), ""))
    count = shape[3] if len(shape) == 4 else 0
    fits = shape[:3] == (32, 32, 3) and type_ == "uint8" and 1 <= count * 32 * 32 * 3 <= allowance(path)
    if set(found) != {"X", "y"} or not fits or found["y"] not in (((count, 1), "uint8"), ((count, 1), "double")):
        given = ", ".join(f"{name} {' x '.join(map(str, s))} ({t})" for name, (s, t) in found.items()) or "nothing"
        raise DataError(
            f"{path} has {given}: X of 32 x 32 x 3 x n (uint8) and y of n x 1, and nothing else, are needed; fetch it "
            "again."
        )


# --- FEMNIST -----------------------------------------------------------------------------------------


def femnist(digits: bool = True) -> Dataset:
    """Handwritten digits (or, with ``digits=false``, all 62 characters) by writer, as LEAF's scripts write them.

    28 x 28 pixels, dark ink on white paper as LEAF has it: the other way round than MNIST. LEAF's numbers are k/255 and
    become k; other numbers are refused, because rounding would hide another scale. Writers are in sorted order, so that
    the rows do not depend on which file has whom.
    """
    return stored("femnist", _read_femnist, digits=digits)


def _read_femnist(files: Files, digits: bool) -> Dataset:
    classes = DIGITS if digits else CHARACTERS
    train, test = (
        _leaf_split([files[name] for name in files.names if name.startswith(f"{side}/")], side, len(classes))
        for side in ("train", "test")
    )
    notes = ("only the digits of every writer are used",) if digits else ()
    return Dataset("femnist", train, test, classes, files.entry.licence, notes, defaults={"partition": "by-group"})


def _leaf_split(paths: Sequence[Path], side: str, classes: int) -> Split:
    """The rows of some LEAF files whose label is among the first `classes`."""
    found: dict[str, tuple[Path, Pixels, Labels]] = {}
    for path in paths:
        for user, x, y in _leaf_users(path):
            if user in found:
                raise DataError(f"{path} has the user '{user}' who is in {found[user][0]} too: give each file once.")
            kept = y < classes
            found[user] = path, x[kept], y[kept]
    order = sorted(found)
    if not any(len(found[user][2]) for user in order):
        raise DataError(
            f"the {len(paths)} files of femnist's {side} folder have no rows: run LEAF's preprocess.sh again."
        )
    writers = np.repeat(np.array(order), [len(found[user][2]) for user in order])
    x, y = (np.concatenate([found[user][part] for user in order]) for part in (1, 2))
    return Split(x, y, {"writer": writers})


def _leaf_users(path: Path) -> Iterator[tuple[str, Pixels, Labels]]:
    """Every user of a file with images and labels."""
    try:
        content = json.loads(path.read_bytes(), object_hook=_compact)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}): run LEAF's preprocess.sh again.") from error
    whole: dict[str, Any] = content if isinstance(content, dict) else {}
    users: Any = whole.get("users")
    counts: Any = whole.get("num_samples")
    rows: Any = whole.get("user_data")
    lists = isinstance(users, list) and isinstance(counts, list) and isinstance(rows, dict)
    if not lists or len(users) != len(counts) or sorted(map(str, users)) != sorted(rows):
        raise DataError(
            f"{path} is no file of LEAF: users and num_samples of equal length, and user_data for the same users, are "
            "needed; run its preprocess.sh again."
        )
    for user, count in zip(users, counts, strict=True):
        x, y = _leaf_rows(f"the user '{user}' of {path}", rows[str(user)])
        if len(y) != count:
            raise DataError(
                f"the user '{user}' of {path} has {len(y)} rows but a num_samples of {count}: write it again."
            )
        yield str(user), x, y


def _compact(found: dict[str, Any]) -> dict[str, Any]:
    """Packs each user's numbers as they are read, since lists of them would fill many times the memory."""
    if found.keys() == {"x", "y"}:
        try:
            return {"x": np.array(found["x"], dtype=np.float32), "y": found["y"]}
        except (ValueError, TypeError, OverflowError):
            pass  # refused later, where the user's name is known
    return found


def _leaf_rows(where: str, rows: Any) -> tuple[Pixels, Labels]:
    x: Any = rows.get("x") if isinstance(rows, dict) else None
    y: Any = rows.get("y") if isinstance(rows, dict) else None
    fits = isinstance(x, np.ndarray) and isinstance(y, list) and (x.shape == (len(y), 784) or x.size == len(y) == 0)
    if not fits:
        raise DataError(f"{where} has no rows of 784 numbers with a label each: run LEAF's preprocess.sh again.")
    if any(type(label) is not int or not 0 <= label < len(CHARACTERS) for label in y):
        raise DataError(f"{where} has labels that are not whole numbers from 0 to 61: run LEAF's preprocess.sh again.")
    with np.errstate(all="ignore"):  # what overflows or is NaN fails the comparison
        scaled = x.reshape(-1, 1, 28, 28) * 255
        pixels = np.rint(scaled)
        good = (np.abs(scaled - pixels) < 0.01) & (pixels >= 0) & (pixels <= 255)
    if not good.all():
        raise DataError(f"{where} has pixels that are not k/255 with k from 0 to 255: run LEAF's preprocess.sh again.")
    return pixels.astype(np.uint8), np.array(y, dtype=np.int64)
