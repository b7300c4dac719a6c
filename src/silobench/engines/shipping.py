"""Objects on their way to another process: closures by value, tensors as arrays, large arrays not at all.

A large array travels as the name of a file that both processes map into memory: the file it was mapped from, or one
that exists in memory alone and vanishes with this process.
"""

import importlib
import io
import os
import pickle
import sys
import tempfile
import weakref
from types import ModuleType
from typing import Any, BinaryIO

import cloudpickle
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LARGE = 1 << 16  # bytes


class Shelf:
    """The large arrays that others may map. They stay as long as the shelf does."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int, str], tuple[str, int]] = {}
        self._arrays: list[NDArray[Any]] = []  # kept, so that no other array can come to lie at the same address

    def place(self, array: NDArray[Any]) -> tuple[str, int]:
        """The file that holds an array, and where in it."""
        key = (_address(array), array.nbytes, array.dtype.str)
        if key not in self._places:
            self._places[key] = _mapped_from(array) or self._copied(array)
            self._arrays.append(array)
        return self._places[key]

    def _copied(self, array: NDArray[Any]) -> tuple[str, int]:
        if hasattr(os, "memfd_create"):
            number = os.memfd_create("silobench")
            path = f"/proc/{os.getpid()}/fd/{number}"
            weakref.finalize(self, os.close, number)
        else:
            number, path = tempfile.mkstemp(prefix="silobench-")
            weakref.finalize(self, _remove, number, path)
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return path, 0


def _remove(number: int, path: str) -> None:
    os.close(number)
    os.unlink(path)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _mapped_from(array: NDArray[Any]) -> tuple[str, int] | None:
    """The file an array is a view of, if it is one."""
    root: Any = array
    while isinstance(root, np.ndarray):
        if isinstance(root, np.memmap) and root.filename is not None and not isinstance(root.base, np.ndarray):
            return str(root.filename), root.offset + _address(array) - _address(root)
        root = root.base
    return None


def _map(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    # Copy-on-write, because torch wants arrays it could write to.
    return np.memmap(path, np.dtype(dtype), "c", offset, shape)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    def __init__(self, file: BinaryIO, shelf: Shelf | None):
        super().__init__(file, protocol=5)
        self.shelf = shelf

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor and obj.layout == torch.strided:
            return torch.from_numpy, (obj.detach().numpy(),)
        if isinstance(obj, ModuleType) and obj.__name__ in sys.modules:
            return importlib.import_module, (obj.__name__,)  # silobench is of a class that cloudpickle does not know
        if isinstance(obj, np.ndarray) and self.shelf and obj.nbytes >= _LARGE and _plain(obj):
            return _map, (*self.shelf.place(obj), obj.dtype.str, obj.shape)
        return super().reducer_override(obj)


def _plain(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "biuf" and bool(array.flags.c_contiguous)


def packed(value: Any, shelf: Shelf | None = None) -> bytes:
    """A value as bytes; its large arrays are left on the shelf, if there is one."""
    buffer = io.BytesIO()
    _Pickler(buffer, shelf).dump(value)
    return buffer.getvalue()


def unpacked(content: bytes) -> Any:
    return pickle.loads(content)
