"""All entries, one after the other."""

import numpy as np

from silobench.method.codecs.codec import CODECS, Array, Codec, Content, Form


@CODECS.register
def dense() -> Codec:
    """Send all entries as they are. Nothing is copied: the bytes are the memory of the array."""
    return DENSE


def _pack(part: Array) -> Content:
    return part.reshape(-1).view(np.uint8).data


def _unpack(content: Content, form: Form) -> Array:
    return np.frombuffer(content, form.dtype).reshape(form.shape)


def _values(codec: Codec) -> Codec:
    return codec


DENSE = Codec(_pack, _unpack, lossless=True, values=_values)
