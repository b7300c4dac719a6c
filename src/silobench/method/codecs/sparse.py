"""Nonzero entries with their positions, in the shortest of three forms."""

from functools import partial

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form
from silobench.method.codecs.dense import DENSE

_INDEX = np.dtype("<i4")


@CODECS.register
def sparse() -> Codec:
    """Send nonzero entries only, in the shortest of three forms: all entries; bitmap and values; indices and values.

    Their lengths tell them apart, so no byte is spent on the choice. With n of d entries nonzero, a bitmap takes
    ⌈d / 8⌉ bytes and indices take 4n; the shorter is sent. Indices and values together are shorter than the shortest
    bitmap with its values, and all entries are longer than either.

    >>> content = SPARSE.pack(np.array([0, 0, 7], np.float32))
    >>> len(content), SPARSE.unpack(content, Form((3,), np.dtype(np.float32)))
    (5, array([0., 0., 7.], dtype=float32))
    """
    return SPARSE


def _pack(part: Array) -> Content:
    flat = part.reshape(-1)
    nonzero = flat != 0
    where = _where(nonzero)
    values = flat[nonzero]
    return DENSE.pack(part) if flat.nbytes <= where.nbytes + values.nbytes else b"".join((where.data, values.data))


def _unpack(content: Content, form: Form) -> Array:
    if len(content) == form.size * form.dtype.itemsize:
        return DENSE.unpack(content, form)
    bitmap, entry = _bitmap_bytes(form.size), _INDEX.itemsize + form.dtype.itemsize
    if len(content) <= bitmap // _INDEX.itemsize * entry:
        return _restored(content, len(content) // entry, form, DENSE)
    return _restored(content, (len(content) - bitmap) // form.dtype.itemsize, form, DENSE)


def _with_values(values: Codec) -> Codec:
    """Return the codec with values packed by another. Their length is not known, so their number is sent too."""
    return Codec(partial(_pack_around, values), partial(_unpack_around, values), values.lossless)


def _pack_around(values: Codec, part: Array) -> Content:
    flat = part.reshape(-1)
    nonzero = flat != 0
    sent = flat[nonzero]
    return b"".join((np.array([len(sent)], _INDEX).data, _where(nonzero).data, values.pack(sent)))


def _unpack_around(values: Codec, content: Content, form: Form) -> Array:
    count = int(np.frombuffer(content, _INDEX, 1)[0])
    return _restored(memoryview(content)[_INDEX.itemsize :], count, form, values)


def _where(nonzero: Array) -> Array:
    """Return the positions of entries as a bitmap or as indices, whichever is shorter."""
    if _is_bitmap(len(nonzero), int(np.count_nonzero(nonzero))):
        return np.packbits(nonzero)
    return np.flatnonzero(nonzero).astype(_INDEX)


def _restored(content: Content, count: int, form: Form, values: Codec) -> Array:
    """Return the part from the positions of `count` entries and their values."""
    whole = np.zeros(form.size, form.dtype)
    if not count:
        return whole.reshape(form.shape)
    if _is_bitmap(form.size, count):
        end = _bitmap_bytes(form.size)
        where = np.unpackbits(np.frombuffer(content, np.uint8, end), count=form.size).view(np.bool_)
    else:
        end = count * _INDEX.itemsize
        where = np.frombuffer(content, _INDEX, count)
    whole[where] = values.unpack(content[end:], Form((count,), form.dtype))
    return whole.reshape(form.shape)


def _is_bitmap(size: int, count: int) -> bool:
    return _bitmap_bytes(size) < count * _INDEX.itemsize


def _bitmap_bytes(size: int) -> int:
    return -(-size // 8)


SPARSE = Codec(_pack, _unpack, lossless=True, values=_with_values)
