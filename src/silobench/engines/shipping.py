"""Pickle objects for another process: closures by value, tensors as arrays, large arrays as file names.

Both processes map that file into memory: the file that the array was mapped from, or one that exists in memory only and
vanishes with this process.
"""

import importlib
import io
import mmap
import os
import pickle
import sys
import tempfile
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

import cloudpickle
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LARGE = 1 << 16  # bytes
_COMPARED = 1 << 20  # bytes at a time


class Shelf:
    """The files of large arrays that other processes may map. They exist as long as the shelf does."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int, str], tuple[Callable[..., NDArray[Any]], str, int]] = {}
        self._arrays: list[NDArray[Any]] = []  # referenced, so that no other array gets the same address

    def reduced(self, array: NDArray[Any]) -> tuple[Callable[..., NDArray[Any]], tuple[Any, ...]]:
        """Return a function and its arguments that restore an array in another process."""
        key = (_address(array), array.nbytes, array.dtype.str)
        if key not in self._places:
            source = _mapped_from(array)
            self._places[key] = (_map, *source) if source else (_map_copy, self._copied(array), 0)
            self._arrays.append(array)
        function, *place = self._places[key]
        return function, (*place, array.dtype.str, array.shape)

    def _copied(self, array: NDArray[Any]) -> str:
        if hasattr(os, "memfd_create"):
            number = os.memfd_create("silobench")
            path = f"/proc/{os.getpid()}/fd/{number}"
            weakref.finalize(self, os.close, number)
        else:
            number, path = tempfile.mkstemp(prefix="silobench-")
            weakref.finalize(self, _remove, number, path)
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return path


def _remove(number: int, path: str) -> None:
    os.close(number)
    os.unlink(path)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _mapped_from(array: NDArray[Any]) -> tuple[str, int] | None:
    """Return the path and offset of the file that an array is mapped from; None if there is none with its bytes."""
    root: Any = array
    while isinstance(root, np.ndarray):
        if isinstance(root, np.memmap) and root.filename is not None and not isinstance(root.base, np.ndarray):
            path, offset = str(root.filename), root.offset + _address(array) - _address(root)
            return (path, offset) if _is_in_file(array, path, offset) else None
        root = root.base
    return None


def _is_in_file(array: NDArray[Any], path: str, offset: int) -> bool:
    """Whether a file has the bytes of an array. What was written to a copy-on-write map is in memory only."""
    try:
        stored = np.memmap(path, np.uint8, "r", offset, (array.nbytes,))
    except (OSError, ValueError):  # the file is gone, or shorter
        return False
    ours, begins = array.reshape(-1).view(np.uint8), range(0, array.nbytes, _COMPARED)
    return all(np.array_equal(ours[begin : begin + _COMPARED], stored[begin : begin + _COMPARED]) for begin in begins)


def _map(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    # Copy-on-write, because torch requires writable arrays.
    return np.memmap(path, np.dtype(dtype), "c", offset, shape)


def _map_copy(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Map a copied array as a plain array: its file name must not be reused, because the file may soon vanish."""
    with open(path, "rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return np.frombuffer(content, np.dtype(dtype), offset=offset).reshape(shape)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """A pickler of closures by value and of tensors as arrays; it puts large arrays on a shelf, if it has one."""

    def __init__(self, file: BinaryIO, shelf: Shelf | None):
        super().__init__(file, protocol=5)
        self.shelf = shelf

    def reducer_override(self, obj: Any) -> Any:
        if (array := array_of(obj)) is not None:
            return torch.from_numpy, (array,)
        if isinstance(obj, ModuleType) and obj.__name__ in sys.modules:
            return importlib.import_module, (obj.__name__,)  # cloudpickle does not know silobench's module class
        if isinstance(obj, np.ndarray) and self.shelf and obj.nbytes >= LARGE and is_plain(obj):
            return self.shelf.reduced(obj)
        return super().reducer_override(obj)


def array_of(value: Any) -> NDArray[Any] | None:
    """Return a tensor as an array; None for another value, or a tensor that is no array of NumPy, as of bfloat16."""
    if type(value) is not Tensor or value.layout != torch.strided or value.device.type != "cpu":
        return None
    try:
        array: NDArray[Any] = value.detach().numpy()
    except (TypeError, RuntimeError):
        return None
    return array


def is_plain(array: NDArray[Any]) -> bool:
    """Whether the bytes of an array, its type and its shape restore it."""
    return array.dtype.kind in "biuf" and bool(array.flags.c_contiguous)


def packed(value: Any, shelf: Shelf | None = None) -> bytes:
    """Pickle a value; its large arrays are put on the shelf, if there is one."""
    buffer = io.BytesIO()
    Pickler(buffer, shelf).dump(value)
    return buffer.getvalue()


def unpacked(content: bytes | memoryview) -> Any:
    return pickle.loads(content)
