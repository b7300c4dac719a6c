"""One bit per entry."""

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form


@CODECS.register
def signs() -> Codec:
    """Send one bit per entry, its sign, and the mean magnitude of all entries.

    A zero counts as positive. A part with an entry that is not finite arrives as not-a-number.

    >>> content = SIGNS.pack(np.array([3, -1, 2], np.float32))
    >>> len(content), SIGNS.unpack(content, Form((3,), np.dtype(np.float32)))
    (5, array([ 2., -2.,  2.], dtype=float32))
    """
    return SIGNS


def _pack(part: Array) -> Content:
    flat = part.reshape(-1)
    if not flat.size:
        return b""
    mean = np.abs(flat).mean(dtype=np.float64)
    return np.array(mean if np.isfinite(mean) else np.nan, flat.dtype).tobytes() + np.packbits(flat >= 0).tobytes()


def _unpack(content: Content, form: Form) -> Array:
    if not form.size:
        return np.zeros(form.shape, form.dtype)
    mean = np.frombuffer(content, form.dtype, 1)[0]
    positive = np.unpackbits(np.frombuffer(content, np.uint8, offset=form.dtype.itemsize), count=form.size)
    signed: Array = np.where(positive, mean, -mean)
    return signed.reshape(form.shape)


SIGNS = Codec(_pack, _unpack)
