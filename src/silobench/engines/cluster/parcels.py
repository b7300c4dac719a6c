"""Pack values for an object store: large arrays stay apart, so that the processes of a machine share one copy of them.

An array that comes out of the store is read-only. Tensors are therefore copied, because networks are trained in place;
the rows of a federation are not, because nothing writes to them.
"""

import io
import pickle
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.engines.shipping import LARGE, Pickler, array_of, is_plain
from silobench.federation import Federation

Parcel: TypeAlias = list[NDArray[Any]]
"""A pickle as bytes, then the large arrays that it refers to by their places."""


def parcelled(value: Any) -> Parcel:
    """Pack a value: its pickle without large arrays, and the arrays."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    pickler.dump(value)
    return [np.frombuffer(buffer.getbuffer(), np.uint8), *pickler.arrays]


def unparcelled(parcel: Parcel) -> Any:
    """Return the value of a parcel. Its large arrays are those of the parcel, not copies."""
    return _Unpickler(parcel).load()


class _Pickler(Pickler):
    def __init__(self, file: BinaryIO):
        super().__init__(file, None)
        self.arrays: Parcel = []
        self._places: dict[tuple[int, int], int] = {}  # of the arrays, by address and size
        self._copied: dict[int, NDArray[Any]] = {}  # arrays of tensors by identity; referenced, so that it stays unique

    def persistent_id(self, obj: Any) -> Any:
        """Return the place, type and shape of a large array; None for what the pickle contains."""
        if not isinstance(obj, np.ndarray) or obj.nbytes < LARGE or not is_plain(obj) or id(obj) in self._copied:
            return None
        key = (obj.__array_interface__["data"][0], obj.nbytes)
        if key not in self._places:
            self._places[key] = len(self.arrays)
            self.arrays.append(np.asarray(obj))
        return self._places[key], obj.dtype.str, obj.shape

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Federation:
            return _federation, _rows_as_arrays(obj)
        if (array := array_of(obj)) is not None:
            self._copied[id(array)] = array
            return torch.from_numpy, (array,)
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    def __init__(self, parcel: Parcel):
        super().__init__(io.BytesIO(parcel[0].data))
        self._arrays = parcel[1:]

    def persistent_load(self, place: tuple[int, str, tuple[int, ...]]) -> NDArray[Any]:
        number, dtype, shape = place
        return self._arrays[number].view(dtype).reshape(shape)


def _rows_as_arrays(federation: Federation) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the attributes of a federation, with its rows and labels as arrays, and the names of these.

    What it caches for a device or for one copy of the test rows is left out.
    """
    values = {name: value for name, value in vars(federation).items() if name not in ("_on_device", "_last_copy")}
    names = tuple(name for name, value in values.items() if isinstance(value, Tensor))
    return {**values, **{name: values[name].numpy() for name in names}}, names


def _federation(values: dict[str, Any], names: tuple[str, ...]) -> Federation:
    federation: Federation = object.__new__(Federation)
    vars(federation).update(values)
    vars(federation).update({name: torch.from_numpy(values[name]) for name in names})
    return federation
