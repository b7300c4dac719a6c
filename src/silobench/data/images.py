"""Images: the published sets in their own formats, and any folder of pictures.

Rows are uint8 ``[channels, height, width]`` and stay so; they become numbers batch by batch, elsewhere. No file is
trusted: a header is believed only as far as the bytes behind it go, and a pickle is data, never a program.
"""

import gzip
import io
import json
import math
import os
import pickle
import pickletools
import re
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Any, Literal, TypeAlias, cast

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from PIL import Image, ImageOps
from scipy import io as scipy_io

from silobench.data.archives import allowance, blocks, kind, members
from silobench.data.dataset import Dataset, Labels, Split, TaskKind, encode_labels, hold_out
from silobench.data.files import _MISSING, TestShare, _as_names, _read_table
from silobench.data.geo import read_points, regions
from silobench.data.store import Files, require, stored
from silobench.errors import DataError, suggest

Pixels: TypeAlias = NDArray[np.uint8]
Size: TypeAlias = Annotated[int, Ge(4), Le(1024)]
Colour: TypeAlias = Literal["rgb", "grey"]

DIGITS = tuple("0123456789")
CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def _check_labels(path: Path, labels: NDArray[Any], classes: int) -> Labels:
    """Labels as int64; one that is no class is refused with its row."""
    bad = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(bad):
        raise DataError(
            f"{path} has the label {labels[bad[0]]} in row {bad[0]} (counted from 0): 0 to {classes - 1} are needed, "
            "so fetch the file again."
        )
    return labels.astype(np.int64)


def _cut(whole: Split, share: float, task: TaskKind) -> tuple[Split, Split]:
    """Training and test rows; classes in proportion, while numbers are drawn regardless of their values."""
    strata = whole.y if task == "classification" else np.zeros(len(whole), dtype=np.int64)
    train, test = hold_out(Split(np.arange(len(whole)), strata), share)
    return whole.take(train.x), whole.take(test.x)


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
    return Split(x[:, None], _check_labels(labels, y, 10))


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


# --- CIFAR-10 ----------------------------------------------------------------------------------------

_ROW = 3 * 32 * 32
_MOST_TUPLES = 1000  # a real batch has about ten; a tower of them would break the hash of the innermost


def cifar_10(augment: bool = True, form: Literal["any", "binary", "python"] = "any") -> Dataset:
    """60,000 colour photographs of 32 x 32 pixels in ten classes: 50,000 to train, 10,000 to test.

    With `augment` training batches are cropped and flipped at random. Both published forms give the same rows; "any"
    takes the one that is there. The python form is pickled, and is read without running any of it.
    """
    kept = stored("cifar-10", _read_cifar, form="" if form == "any" else form)
    return kept if augment else replace(kept, augment="none")


def _read_cifar(files: Files) -> Dataset:
    read, suffix = (_cifar_rows, ".bin") if files.form == "binary" else (_pickled_rows, "")
    batches = [read(files[f"data_batch_{number}{suffix}"]) for number in range(1, 6)]
    x, y = np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])
    test = read(files[f"test_batch{suffix}"])
    return Dataset(
        "cifar-10", Split(_cifar_images(x), y), Split(_cifar_images(test[0]), test[1]), _CIFAR, files.entry.licence,
        augment="crop-flip",
    )  # fmt: skip


def _cifar_images(rows: Pixels) -> Pixels:
    return np.ascontiguousarray(rows).reshape(-1, 3, 32, 32)


def _cifar_rows(path: Path) -> tuple[Pixels, Labels]:
    """The binary form: every row is the label's byte, then 1,024 bytes each of red, green and blue."""
    size = path.stat().st_size
    if size == 0 or size % (_ROW + 1):
        raise DataError(f"{path} has {size:,} bytes: a multiple of {_ROW + 1:,}, one row, is needed; fetch it again.")
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, _ROW + 1)
    return rows[:, 1:], _check_labels(path, rows[:, 0], 10)


def _pickled_rows(path: Path) -> tuple[Pixels, Labels]:
    """The python form: a pickled dictionary with data, an array of bytes ``[n, 3072]``, and labels, a list."""
    content = _read_pickle(path)
    fields = {_bytes_of(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    x, labels = _pickled_array(path, fields.get(b"data")), fields.get(b"labels")
    if not isinstance(labels, list) or len(labels) != len(x) or any(type(label) is not int for label in labels):
        raise DataError(
            f"{path} has no list of {len(x)} whole numbers as 'labels': one a row is needed; fetch it again."
        )
    if any(not 0 <= label < 10 for label in labels):  # before numpy sees them: they may be of any size
        raise DataError(f"{path} has a label outside 0 to 9 in 'labels': fetch the file again.")
    return x, np.array(labels, dtype=np.int64)


class _Record:
    """What a pickle says of an object, and nothing more: arguments and state are kept, and nothing is run.

    A stand-in is a class with a `__setstate__`, because what has none, a pickle could change itself.
    """

    arguments: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any):
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_Record):
    pass


class _ArrayType(_Record):
    pass


class _Dtype(_Record):
    pass


class _Encoded(_Record):
    """Bytes that Python 3 wrote in a protocol of Python 2, which has none: text, and "latin1"."""


_STAND_INS: Mapping[tuple[str, str], type[_Record]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encoded,
}


class _Reader(pickle.Unpickler):
    """Reads a pickle as data: the few names of a numpy array become records, and any other name is refused."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a batch of images does not need")
        return _STAND_INS[module, name]


def _read_pickle(path: Path) -> Any:
    data = path.read_bytes()
    try:
        _check_pickle(data)
        return _Reader(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # a foreign or hostile pickle may fail in any way
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{path} is not a batch of CIFAR-10 in its python form ({reason}): nothing of it was run; fetch it again."
        ) from error


def _check_pickle(data: bytes) -> None:
    """Refuses what would exhaust the reader before it reads a name: far places in its memo, and towers of tuples."""
    tuples = 0
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and not 0 <= int(cast(int, argument)) <= len(data):
            raise pickle.UnpicklingError(f"it has a memo of {argument} places")
        tuples += "TUPLE" in opcode.name
        if tuples > _MOST_TUPLES:
            raise pickle.UnpicklingError(f"it has more than {_MOST_TUPLES} tuples")


def _pickled_array(path: Path, record: Any) -> Pixels:
    """The array that a record describes, if that is one of bytes ``[n, 3072]`` in C order."""
    needed = f"an array of bytes of n x {_ROW:,} is needed as 'data'; fetch it again."
    state = record.state if isinstance(record, _Array) else None
    if not isinstance(state, tuple) or len(state) != 5:
        raise DataError(f"{path} has no array as 'data': {needed}")
    _, shape, dtype, fortran, raw = state
    kinds = [_bytes_of(kind) for kind in dtype.arguments[:1]] if isinstance(dtype, _Dtype) else []
    if kinds not in ([b"u1"], [b"|u1"]) or fortran:
        raise DataError(f"{path} has an array that is not of bytes (u1) in C order: {needed}")
    content = _bytes_of(raw)
    if not isinstance(shape, tuple) or [type(side) for side in shape] != [int, int] or shape[1] != _ROW:
        raise DataError(f"{path} has an array of another shape than n x {_ROW:,}: {needed}")
    if shape[0] < 1 or content is None or len(content) != shape[0] * _ROW:
        given = "no" if content is None else f"{len(content):,}"
        raise DataError(f"{path} has {given} bytes for an array of {shape[0]} rows: {needed}")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _bytes_of(value: Any) -> bytes | None:
    """Bytes, in the ways that a pickle may hold them."""
    if isinstance(value, _Encoded) and value.arguments[1:] == ("latin1",):
        value = value.arguments[0]
    try:
        return value.encode("latin1") if type(value) is str else value if type(value) is bytes else None
    except UnicodeEncodeError:
        return None


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
    fits = shape[:3] == (32, 32, 3) and type_ == "uint8" and 1 <= count * _ROW <= allowance(path)
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


# --- one picture -------------------------------------------------------------------------------------

_FORMATS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_MOST_PIXELS = 89_478_485  # Pillow's own limit: a quarter of a gigabyte as RGB
_MODES: Mapping[Colour, str] = {"rgb": "RGB", "grey": "L"}


def read_picture(source: Path | bytes, where: str, size: int, colour: Colour) -> Pixels:
    """A picture as ``[channels, size, size]``: upright by its EXIF, its middle square, scaled bilinearly.

    Transparent parts are white; of an animation the first frame is taken, of 16 bits the upper 8. `where` names it in
    errors.
    """
    mode = _MODES[colour]
    try:
        with Image.open(source if isinstance(source, Path) else io.BytesIO(source), formats=_FORMATS) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise Image.DecompressionBombError
            image.draft(mode, (2 * size, 2 * size))  # a JPEG much larger than needed is decoded at a fraction
            flat = _flat(ImageOps.exif_transpose(image), mode)
            pixels = np.asarray(ImageOps.fit(flat, (size, size), Image.Resampling.BILINEAR))
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(
            f"{where} has more than {_MOST_PIXELS:,} pixels: that may be a bomb, so scale it down or leave it out."
        ) from None
    except Exception as error:  # Pillow raises many kinds for a torn or foreign file
        reason = str(error).partition(" <_io")[0] or type(error).__name__
        raise DataError(f"{where} cannot be read as a picture ({reason}): replace it or leave it out.") from error
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if colour == "rgb" else pixels[None]


def _flat(image: Image.Image, mode: str) -> Image.Image:
    """The picture with 8 bits a channel, opaque, in a mode."""
    if image.mode == "F" or (image.mode == "I" and not _has_16_bits(image)):
        raise ValueError("its pixels have 32 bits, where 8 or 16 are needed")
    if image.mode.startswith("I"):  # `convert` would clip it at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque)
    return image.convert(mode)


def _has_16_bits(image: Image.Image) -> bool:
    low, high = cast(tuple[int, int], image.getextrema())
    return low >= 0 and high < 2**16


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow warns of odd metadata, which does no harm, and of bombs, which are refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _read_pictures(paths: Sequence[Path], size: int, colour: Colour) -> Pixels:
    """The pictures in their order; Pillow decodes outside Python's lock, so threads help."""
    x = np.empty((len(paths), 3 if colour == "rgb" else 1, size, size), dtype=np.uint8)
    with _quiet(), ThreadPoolExecutor() as pool:
        found = pool.map(lambda path: read_picture(path, str(path), size, colour), paths)
        for row, pixels in enumerate(found):
            x[row] = pixels
    return x


def _fitted(size: int) -> str:
    return f"the middle square of every picture scaled to {size} x {size} pixels"


# --- any folder of pictures --------------------------------------------------------------------------

_Columns: TypeAlias = dict[str, list[str]]


def images(
    path: str,
    label: str = "label",
    group: str | tuple[str, ...] = (),
    pattern: str = "{label}/*",
    table: str = "",
    size: Size = 32,
    colour: Colour = "rgb",
    task: Literal["classification", "regression"] = "classification",
    test: TestShare = 0.2,
) -> Dataset:
    """A folder of pictures (png, jpeg, bmp, gif, webp, tiff, ppm), scaled to `size` x `size`.

    `pattern` describes the path of a picture inside the folder: ``{name}`` is a field and ``*`` anything, both within
    one file or folder name, as in ``{hospital}/{label}/*`` or ``{source}/{age}_*``. `label` and `group` name fields, or
    columns of `table`: a CSV file whose column `file` has the pictures' paths inside the folder. Of a table all
    pictures must be there; pictures that are not in it, or do not match the pattern, are left out.
    """
    root, wanted = Path(path), (label, *_as_names(group))
    listed = _list_pictures(root)
    if table:
        names, columns = _by_table(Path(table), root, listed, pattern, wanted)
    else:
        names, columns = _by_pattern(root, listed, pattern, wanted)
    y, classes = _targets(root, names, columns[label], task)
    x = _read_pictures([root / name for name in names], size, colour)
    groups = {level: np.array(columns[level]) for level in wanted[1:]}
    train, held = _cut(Split(x, y, groups), test, task)
    left = len(listed) - len(names)
    which = "are not in the table" if table else f"do not match {pattern}"
    notes = (_fitted(size), *([f"{left} pictures that {which} left out"] if left else []))
    return Dataset(root.resolve().name, train, held, classes, "the user's own", notes, task=task)


def _list_pictures(root: Path) -> list[str]:
    """The pictures under a folder by their paths inside it, sorted; hidden files and folders are left out."""
    if not root.is_dir():
        raise DataError(f"there is no folder {root}: give the folder that the pictures are in.")
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(folder).relative_to(root)
        found += [(inside / name).as_posix() for name in files if name.lower().endswith(_SUFFIXES) and name[0] != "."]
    if not found:
        raise DataError(f"the folder {root} has no pictures: files that end in {', '.join(_SUFFIXES)} are needed.")
    return sorted(found)


def _by_pattern(root: Path, listed: Sequence[str], pattern: str, wanted: Sequence[str]) -> tuple[list[str], _Columns]:
    """The pictures that match the pattern, and the fields that are wanted."""
    fields, expression = _compiled(pattern)
    for name in wanted:
        if name not in fields:
            advice = suggest(name, fields) if fields else f"write {{{name}}} where it stands in the path."
            raise DataError(f"the pattern '{pattern}' has no field '{name}': {advice}")
    matches = {name: match for name in listed if (match := expression.fullmatch(name))}
    if not matches:
        raise DataError(f"none of the {len(listed)} pictures of {root} matches '{pattern}': '{listed[0]}' should, say.")
    return [*matches], {name: [m[fields.index(name) + 1] for m in matches.values()] for name in wanted}


def _compiled(pattern: str) -> tuple[list[str], re.Pattern[str]]:
    """The fields of a pattern in their order, and the expression whose groups they are."""
    parts = re.split(r"(\{[^{}/]+\}|\*)", pattern)
    fields = [part[1:-1] for part in parts[1::2] if part != "*"]
    if len(set(fields)) < len(fields) or any(mark in text for text in parts[::2] for mark in "{}"):
        raise DataError(
            f"the pattern '{pattern}' has a stray brace or a field twice: write it as in {{group}}/{{label}}/*."
        )
    special = ["[^/]*" if part == "*" else "([^/]+?)" for part in parts[1::2]]
    literal = [re.escape(part) for part in parts[::2]]
    return fields, re.compile("".join(a + b for a, b in zip(literal, [*special, ""], strict=True)))


def _by_table(
    table: Path, root: Path, listed: Sequence[str], pattern: str, wanted: Sequence[str]
) -> tuple[list[str], _Columns]:
    """The pictures of the table, sorted, and their values; what the table does not have comes from the pattern."""
    columns, lines = _read_table(table)
    if "file" not in columns:
        raise DataError(f"{table} has no column 'file' with the pictures' paths inside {root}: add it, or rename one.")
    place = _places(table, columns["file"], lines, listed, root)
    names, found = sorted(place), {}
    for name in (name for name in wanted if name in columns):
        found[name] = [columns[name][place[file]].strip() for file in names]
        for file, cell in zip(names, found[name], strict=True):
            if cell.lower() in _MISSING:
                raise DataError(
                    f"{table} has no value for '{name}' in line {lines[place[file]]}: fill it, or remove it."
                )
    others = [name for name in wanted if name not in columns]
    unknown = [name for name in others if f"{{{name}}}" not in pattern]
    if unknown:
        raise DataError(f"{table} has no column '{unknown[0]}', nor has the pattern: {suggest(unknown[0], columns)}")
    if others:
        matching, fields = _by_pattern(root, names, pattern, others)
        if len(matching) < len(names):
            strange = next(name for name in names if name not in set(matching))
            raise DataError(f"{table} names '{strange}', which does not match '{pattern}': add a column '{others[0]}'.")
        found |= fields
    return names, found


def _places(
    table: Path, cells: Sequence[str], lines: Sequence[int], listed: Sequence[str], root: Path
) -> dict[str, int]:
    """The row of every picture that a table names. Only what was listed in the folder is found, so none leads out."""
    place: dict[str, int] = {}
    there = set(listed)
    for row, cell in enumerate(cells):
        name = str(PurePosixPath(cell.strip().replace("\\", "/")))
        if name not in there:
            raise DataError(f"{table} names '{cell.strip()}' in line {lines[row]}, but {root} has no such picture.")
        if name in place:
            raise DataError(f"{table} names '{name}' in lines {lines[place[name]]} and {lines[row]}: once is needed.")
        place[name] = row
    return place


def _targets(root: Path, names: Sequence[str], cells: Sequence[str], task: TaskKind) -> tuple[Labels, tuple[str, ...]]:
    if task == "classification":
        return encode_labels(str(root), np.array(cells))
    numbers = np.empty(len(cells), dtype=np.float32)
    for row, cell in enumerate(cells):
        try:
            numbers[row] = float(cell)
        except ValueError:
            numbers[row] = np.nan
        if not np.isfinite(numbers[row]):
            raise DataError(f"{root / names[row]} has the label '{cell}': a finite number is needed for regression.")
    return numbers, ()


# --- Chars74K, faces, mammals ------------------------------------------------------------------------

_CHARACTER = re.compile(r"(?:.*/)?(?:Fnt|Hnd/Img)/Sample(\d{3})/[^/]+\.png")
_LARGEST_FILE = 2**26  # of a packed picture
_OLDEST = 130


def chars74k(size: Size = 32) -> Dataset:
    """Digits and letters in 62 classes, printed in 1,016 typefaces (fnt) and written by 55 people (hnd), in grey.

    Dark on white. The archives are read as they are; a fifth of each class is held out.
    """
    return stored("chars74k", _read_chars74k, size=size)


def _read_chars74k(files: Files, size: int) -> Dataset:
    labels, sources, pictures = [], [], []
    for source in ("fnt", "hnd"):
        for label, pixels in _characters(files[f"English{source.title()}.tgz"], size):
            labels.append(label)
            sources.append(source)
            pictures.append(pixels)
    whole = Split(np.stack(pictures), np.array(labels, dtype=np.int64), {"source": np.array(sources)})
    return Dataset(
        "chars74k", *_cut(whole, 0.2, "classification"), CHARACTERS, files.entry.licence, (_fitted(size),),
        defaults={"partition": "by-group"},
    )  # fmt: skip


def _characters(path: Path, size: int) -> list[tuple[int, Pixels]]:
    """Class and pixels of every character of an archive, sorted by name."""
    found: dict[str, tuple[int, Pixels]] = {}
    with _quiet():
        for member in members(path):
            match = _CHARACTER.fullmatch(member.name)
            if match is None:
                continue
            where = f"{member.name} in {path}"
            if not 1 <= int(match[1]) <= len(CHARACTERS):
                raise DataError(
                    f"{where} is of a class that is none: Sample001 to Sample062 are needed; fetch it again."
                )
            data = b"".join(blocks(member.stream, _LARGEST_FILE, where))
            found[member.name] = int(match[1]) - 1, read_picture(data, where, size, "grey")
    if not found:
        raise DataError(f"{path} has no pictures like Fnt/Sample001/img001-00001.png: fetch it again.")
    return [found[name] for name in sorted(found)]


def age_faces(size: Size = 32) -> Dataset:
    """Faces whose file names begin with the age, one folder a source; the age is what to learn, as a number."""
    return stored("age-faces", _read_age_faces, size=size)


def _read_age_faces(files: Files, size: int) -> Dataset:
    names = sorted(files.names)
    ages = np.array([_age(files, name) for name in names], dtype=np.float32)
    x = _read_pictures([files[name] for name in names], size, "rgb")
    whole = Split(x, ages, {"source": np.array([name.partition("/")[0] for name in names])})
    return Dataset(
        "age-faces", *_cut(whole, 0.2, "regression"), (), files.entry.licence, (_fitted(size),),
        defaults={"partition": "by-group"}, task="regression",
    )  # fmt: skip


def _age(files: Files, name: str) -> int:
    match = re.match(r"(\d{1,3})_", PurePosixPath(name).name)
    if match is None or int(match[1]) > _OLDEST:
        raise DataError(
            f"{files[name]} does not begin with an age: names like 25_0_2_20170116.jpg are needed; rename it."
        )
    return int(match[1])


def flickr_mammal(size: Size = 32) -> Dataset:
    """Photographs of mammals by `continent` and `subcontinent`: the user's own download of Flickr-Mammal."""
    return stored("flickr-mammal", _read_flickr_mammal, size=size)


_ALIASES = {"lat": "latitude", "lon": "longitude", "lng": "longitude", "photo_id": "id", "photoid": "id"}


def _read_flickr_mammal(files: Files, size: int) -> Dataset:
    names, animals, found, gone = [], [], [], 0
    for name in (name for name in files.names if name.endswith(".csv")):
        columns, lines = _read_table(files[name])
        columns = {_ALIASES.get(column.lower(), column.lower()): cells for column, cells in columns.items()}
        places, classes = _mammals(files, name, columns, lines)
        rows = np.array([*places.values()], dtype=np.int64)
        names += [*places]
        animals += [classes[row] for row in rows]
        found.append({level: ids[rows] for level, ids in _mammal_regions(files[name], columns, lines).items()})
        gone += len(lines) - len(places)
    if not names:
        raise DataError(f"none of the pictures that the tables in {files.root} name is there: download them first.")
    y, classes_ = encode_labels("flickr-mammal", np.array(animals))
    groups = {level: np.concatenate([part[level] for part in found]) for level in ("continent", "subcontinent")}
    x = _read_pictures([files[name] for name in names], size, "rgb")
    notes = (
        _fitted(size),
        *([f"{gone} photographs that the tables name but that are not there left out"] if gone else []),
    )
    return Dataset(
        "flickr-mammal", *_cut(Split(x, y, groups), 0.2, "classification"), classes_, files.entry.licence, notes,
        defaults={"partition": "by-group"},
    )  # fmt: skip


def _mammals(files: Files, name: str, columns: _Columns, lines: Sequence[int]) -> tuple[dict[str, int], list[str]]:
    """The row of every picture of a table, sorted, and the class of every row.

    index.csv has columns file and class, and every picture must be there. Of a table metadata/ANIMAL.csv with a column
    id, the pictures are images/ANIMAL/ID.jpg, as many as Flickr still had.
    """
    path, animal = files[name], PurePosixPath(name).stem
    needed = ("file", "class") if name == "index.csv" else ("id",)
    missing = [column for column in needed if column not in columns]
    if missing:
        raise DataError(f"{path} has no column '{missing[0]}': add it, or rename the one that it is.")
    if name == "index.csv":
        classes = [cell.strip() for cell in columns["class"]]
        if "" in classes:
            raise DataError(f"{path} has no class in line {lines[classes.index('')]}: fill it, or remove that line.")
        return dict(sorted(_places(path, columns["file"], lines, files.names, files.root).items())), classes
    there = set(files.names)
    given = {f"images/{animal}/{cell.strip()}.jpg": row for row, cell in enumerate(columns["id"])}
    return {file: row for file, row in sorted(given.items()) if file in there}, [animal] * len(lines)


def _mammal_regions(path: Path, columns: _Columns, lines: Sequence[int]) -> dict[str, NDArray[np.str_]]:
    """The regions of every row: the table's own, or by its coordinates."""
    if {"continent", "subcontinent"} <= columns.keys():
        found = {level: np.array([cell.strip() for cell in columns[level]]) for level in ("continent", "subcontinent")}
        for level, ids in found.items():
            if "" in ids:
                line = lines[int(np.flatnonzero(ids == "")[0])]
                raise DataError(f"{path} has no {level} in line {line}: fill it, or remove that line.")
        return found
    if not {"latitude", "longitude"} <= columns.keys():
        raise DataError(f"{path} has neither continent and subcontinent nor latitude and longitude: add two columns.")
    points = read_points(path, columns["latitude"], columns["longitude"], lines)
    return regions(points[:, 0], points[:, 1])
