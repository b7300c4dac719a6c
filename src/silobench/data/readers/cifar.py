"""CIFAR-10 in its binary and its python form. The python form is a pickle, which is parsed without running code."""

import io
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from silobench.data.dataset import Dataset, Labels, Split
from silobench.data.readers.checks import check_labels
from silobench.data.readers.image_arrays import Pixels
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError

_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

_ROW = 3 * 32 * 32
_MOST_TUPLES = 25_000  # Python 3 writes one per file name, 10,000; hashing 200,000 nested tuples crashes the process


def cifar_10(augment: bool = True, form: Literal["any", "binary", "python"] = "any") -> Dataset:
    """60,000 colour photographs of 32 x 32 pixels in ten classes: 50,000 for training, 10,000 for testing.

    With `augment`, training batches are cropped and flipped at random. Both published forms give the same rows; "any"
    uses the form that is available. The python form is a pickle, which is parsed without running code.
    """
    dataset = stored("cifar-10", _read_cifar, form="" if form == "any" else form)
    return dataset if augment else replace(dataset, augment="none")


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
    """Read the binary form: a row is one byte for the label, then 1,024 bytes each of red, green and blue."""
    size = path.stat().st_size
    if size == 0 or size % (_ROW + 1):
        raise DataError(f"{path} has {size:,} bytes: a multiple of {_ROW + 1:,} (one row) is needed; fetch it again.")
    rows = np.fromfile(path, dtype=np.uint8).reshape(-1, _ROW + 1)
    return rows[:, 1:], check_labels(path, rows[:, 0], 10)


def _pickled_rows(path: Path) -> tuple[Pixels, Labels]:
    """Read the python form: a pickled dictionary with `data`, an array of bytes ``[n, 3072]``, and `labels`, a list."""
    content = _read_pickle(path)
    fields = {_bytes_of(key): value for key, value in content.items()} if isinstance(content, dict) else {}
    x, labels = _pickled_array(path, fields.get(b"data")), fields.get(b"labels")
    if not isinstance(labels, list) or len(labels) != len(x) or any(type(label) is not int for label in labels):
        raise DataError(
            f"{path} has no list of {len(x)} whole numbers as 'labels': one label per row is needed; fetch it again."
        )
    if any(
        not 0 <= label < 10 for label in labels
    ):  # checked before numpy converts them: a pickled integer may have any size
        raise DataError(f"{path} has a label outside 0 to 9 in 'labels': fetch the file again.")
    return x, np.array(labels, dtype=np.int64)


class _Record:
    """Stand-in for an object of a pickle: it stores arguments and state, and runs nothing.

    It defines `__setstate__`, because without it a pickle could set attributes of the stand-in.
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
    """Bytes that Python 3 wrote for Python 2, whose protocol has no bytes: text and the codec "latin1"."""


_STAND_INS: Mapping[tuple[str, str], type[_Record]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encoded,
}


class _Reader(pickle.Unpickler):
    """Unpickler that replaces the classes of a numpy array by stand-ins and refuses every other class."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which a batch of images does not need")
        return _STAND_INS[module, name]


def _read_pickle(path: Path) -> Any:
    data = path.read_bytes()
    try:
        _check_pickle(data)
        return _Reader(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # a malicious pickle may fail in any way
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{path} is not a pickled batch of CIFAR-10 ({reason}): none of its code was run; fetch it again."
        ) from error


def _check_pickle(data: bytes) -> None:
    """Refuse pickles that would exhaust memory or time: large memo indices, and nested tuples that share parts.

    Hashing a tuple hashes all its items, so 40 nested tuples that each hold the next one twice would never finish.
    """
    tuples, previous = 0, ""
    memo: dict[int, bool] = {}  # whether the value at an index is a tuple
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            place = len(memo) if name == "MEMOIZE" else int(cast(int, argument))
            if not 0 <= place <= len(data):
                raise pickle.UnpicklingError(f"it has the memo index {argument}")
            memo[place] = "TUPLE" in previous
        if name == "DUP" or ("GET" in name and memo.get(int(cast(int, argument)))):
            raise pickle.UnpicklingError("it uses one of its parts twice")
        tuples += "TUPLE" in name
        if tuples > _MOST_TUPLES:
            raise pickle.UnpicklingError(f"it has more than {_MOST_TUPLES} tuples")
        previous = name


def _pickled_array(path: Path, record: Any) -> Pixels:
    """Return the array that a stand-in describes; it must have bytes ``[n, 3072]`` in C order."""
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
        raise DataError(f"{path} has an array whose shape is not n x {_ROW:,}: {needed}")
    if shape[0] < 1 or content is None or len(content) != shape[0] * _ROW:
        count = "no" if content is None else f"{len(content):,}"
        raise DataError(f"{path} has {count} bytes for an array of {shape[0]} rows: {needed}")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _bytes_of(value: Any) -> bytes | None:
    """Return a value as bytes, for each way in which a pickle may store them; None for other values."""
    if isinstance(value, _Encoded) and value.arguments[1:] == ("latin1",):
        value = value.arguments[0]
    try:
        return value.encode("latin1") if type(value) is str else value if type(value) is bytes else None
    except UnicodeEncodeError:
        return None
