"""Arrays that NumPy saved, as one array (npy) or as an archive of them (npz), from files that nobody vouches for.

Nothing is unpickled. A header is compared with the bytes of the file before memory is allocated for it, and an archive
may not hold far more than its size allows.
"""

import functools
import math
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from silobench.data.readers.checks import shorten, unreadable
from silobench.data.store.archives import size_limit
from silobench.errors import DataError

_T = TypeVar("_T")
_ZIP, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"
_ARCHIVE, _SAVEZ = "an npz archive of plain arrays", "save it with numpy.savez"


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive by name."""
    start = _start(path, _ARCHIVE, _SAVEZ)
    if start.startswith(_NPY):
        raise DataError(
            f"{path} cannot be read as {_ARCHIVE}, because it is one array (npy): save x and y with numpy.savez."
        )
    if not start.startswith(_ZIP):
        raise DataError(f"{path} cannot be read as {_ARCHIVE}, because it is not a zip archive: {_SAVEZ}.")
    return _guarded(path, functools.partial(_members, path), _ARCHIVE, _SAVEZ)


def read_npy(path: Path) -> NDArray[Any]:
    """Return the array of a file."""
    form, advice = "an array of numbers that NumPy saved", "save it with numpy.save"
    _start(path, form, advice)
    return _guarded(path, lambda: _array(path, lambda: path.open("rb"), path.stat().st_size), form, advice)


def _start(path: Path, form: str, advice: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(_NPY))
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise unreadable(path, error, form, advice) from error


def _guarded(path: Path, read: Callable[[], _T], form: str, advice: str) -> _T:
    """Return what `read` returns, or raise one error for all that numpy and zipfile raise for a damaged file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about headers of Python 2, and names that occur twice
            return read()
    except DataError:
        raise
    except Exception as error:
        reason = shorten(str(error) or type(error).__name__)
        raise DataError(f"{path} cannot be read as {form} ({reason}): {advice}.") from error


def _members(path: Path) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > size_limit(path):
            raise DataError(
                f"{path} is refused: its {path.stat().st_size:,} bytes decompress to {total:,} or more, like a "
                "decompression bomb; save it without compression, with numpy.savez."
            )
        return {
            member.filename.removesuffix(".npy"): _array(
                path, functools.partial(archive.open, member), member.file_size
            )
            for member in members
            if member.filename.endswith(".npy")
        }


def _array(path: Path, opened: Callable[[], IO[bytes]], size: int) -> NDArray[Any]:
    """Return the array of a stream of `size` bytes, which `opened` opens anew for each call."""
    with opened() as file:
        version = npy.read_magic(file)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0  # 3.0 differs in names
        shape, _, dtype = header(file)
    if dtype.hasobject:
        raise DataError(
            f"{path} has an array of Python objects, which may run code when it is read: convert it to numbers or "
            "texts, and save it again."
        )
    if any(side < 0 for side in shape) or math.prod(shape) * max(1, dtype.itemsize) > size:
        raise DataError(
            f"{path} has {size:,} bytes for an array of {shorten(str(dtype))} of shape {shorten(str(shape))}, which "
            "needs more: save it again."
        )
    with opened() as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))
