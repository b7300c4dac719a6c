"""Nonzero entries with their positions."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form
from silobench.method.codecs.dense import DENSE

Index: TypeAlias = Literal["auto", "int32", "int64", "bitmap"]
_COUNT = np.dtype("<i4")


@CODECS.register(added_later=("index",))
def sparse(index: Index = "auto") -> Codec:
    """Send nonzero entries only: their positions, as a bitmap or as indices of 4 or 8 bytes, and their values.

    With `index=auto` the shortest of three forms is sent: all entries; bitmap and values; indices of 4 bytes and
    values. Their lengths tell them apart, so no byte is spent on the choice. With n of d entries nonzero, a bitmap
    takes ⌈d / 8⌉ bytes and indices take 4n; the shorter is sent. Indices and values together are shorter than the
    shortest bitmap with its values, and all entries are longer than either.

    >>> content = SPARSE.pack(np.array([0, 0, 7], np.float32))
    >>> len(content), SPARSE.unpack(content, Form((3,), np.dtype(np.float32)))
    (5, array([0., 0., 7.], dtype=float32))
    """
    return SPARSE if index == "auto" else _codec(_Sparse(index))


@dataclass(frozen=True)
class _Sparse:
    """The positions of entries in one form, and their values."""

    index: Index

    def pack(self, part: Array) -> Content:
        where, values = self._split(part.reshape(-1))
        shorter = self.index != "auto" or where.nbytes + values.nbytes < part.nbytes
        return b"".join((where.data, values.data)) if shorter else DENSE.pack(part)

    def unpack(self, content: Content, form: Form) -> Array:
        if self.index == "auto" and len(content) == form.size * form.dtype.itemsize:
            return DENSE.unpack(content, form)
        return self.restored(content, self._count(len(content), form), form, DENSE)

    def around(self, values: Codec) -> Codec:
        """Return the codec with values packed by another; one that sends positions too takes the place of this one."""
        if isinstance(getattr(values.pack, "__self__", None), _Sparse):
            return values
        around = _Around(self, values)
        return Codec(around.pack, around.unpack, values.lossless)

    def _split(self, flat: Array) -> tuple[Array, Array]:
        """Return the positions of the nonzero entries as they are sent, and their values."""
        nonzero = flat != 0
        count = int(np.count_nonzero(nonzero))
        is_bitmap = self._is_bitmap(flat.size, count)
        if is_bitmap and 8 * count > flat.size:  # few zeros: a mask is read faster than as many positions
            return np.packbits(nonzero), flat[nonzero]
        places = np.flatnonzero(nonzero)
        return np.packbits(nonzero) if is_bitmap else places.astype(self._place), flat[places]

    def restored(self, content: Content, count: int, form: Form, values: Codec) -> Array:
        """Return the part from the positions of `count` entries and their values."""
        whole = np.zeros(form.size, form.dtype)
        if self._is_bitmap(form.size, count):
            end = _bitmap_bytes(form.size)
            where = np.unpackbits(np.frombuffer(content, np.uint8, end), count=form.size).view(np.bool_)
        else:
            end = count * self._place.itemsize
            where = np.frombuffer(content, self._place, count)
        if count:
            whole[where] = values.unpack(content[end:], Form((count,), form.dtype))
        return whole.reshape(form.shape)

    def _count(self, length: int, form: Form) -> int:
        """Return the number of entries in a content of this length."""
        bitmap, item = _bitmap_bytes(form.size), form.dtype.itemsize
        entry = self._place.itemsize + item
        is_bitmap = length > bitmap // self._place.itemsize * entry if self.index == "auto" else self.index == "bitmap"
        return (length - bitmap) // item if is_bitmap else length // entry

    def _is_bitmap(self, size: int, count: int) -> bool:
        if self.index == "auto":
            return _bitmap_bytes(size) < count * self._place.itemsize
        return self.index == "bitmap"

    @property
    def _place(self) -> np.dtype[np.signedinteger]:
        return np.dtype("<i8" if self.index == "int64" else "<i4")


@dataclass(frozen=True)
class _Around:
    """The positions of entries, and their values packed by another codec.

    The length of the values is not known to the receiver, so their number is sent too.
    """

    positions: _Sparse
    values: Codec

    def pack(self, part: Array) -> Content:
        where, values = self.positions._split(part.reshape(-1))
        return b"".join((np.array([len(values)], _COUNT).data, where.data, self.values.pack(values)))

    def unpack(self, content: Content, form: Form) -> Array:
        count = int(np.frombuffer(content, _COUNT, 1)[0])
        if not 0 <= count <= form.size:  # before anything of that size is made
            raise ValueError(f"it states {count} of {form.size} entries")
        return self.positions.restored(memoryview(content)[_COUNT.itemsize :], count, form, self.values)


def _bitmap_bytes(size: int) -> int:
    return -(-size // 8)


def _codec(positions: _Sparse) -> Codec:
    return Codec(positions.pack, positions.unpack, lossless=True, values=positions.around)


SPARSE = _codec(_Sparse("auto"))
