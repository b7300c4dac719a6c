"""`Codec`: how one part of a message is laid out on the wire."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.spec import Registry
from silobench.spec.contract import Form as HookForm
from silobench.spec.contract import Origin, described, hooked, is_ours

Array: TypeAlias = NDArray[Any]
Content: TypeAlias = bytes | memoryview


class Form(NamedTuple):
    """The shape and the type of a part. Both ends know them from the model, so they are not sent."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """The number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Codec:
    """A layout of one part on the wire: an array to bytes, and bytes back to an array.

    >>> whole = Codec(lambda part: part.tobytes(), lambda content, form: np.frombuffer(content, form.dtype))
    >>> part = np.array([1.0, 2.0], np.float32)
    >>> content = whole.pack(part)
    >>> len(content), whole.unpack(content, Form(part.shape, part.dtype))
    (8, array([1., 2.], dtype=float32))
    """

    pack: Callable[[Array], Content]
    """(part, contiguous) -> bytes to send."""
    unpack: Callable[[Content, Form], Array]
    """(bytes, form of the part) -> part."""
    lossless: bool = False
    """Whether `unpack` returns every part as it was, so that sums of such parts can be sent in the same way."""
    values: Callable[["Codec"], "Codec"] | None = None
    """(codec) -> this codec, with the values that it sends packed by the other codec; None if it cannot be combined."""
    adds: bool = False
    """Whether the bytes are values of the part's type at places that all parties share, which can be added up."""
    note: Any = None
    """What both ends know about the part besides its form. It is not sent."""


@dataclass(frozen=True)
class Packed:
    """One part as it is sent."""

    content: Content
    form: Form
    codec: Codec

    @classmethod
    def of(cls, part: Tensor, codec: Codec) -> "Packed":
        array = np.ascontiguousarray(part.numpy()).reshape(tuple(part.shape))  # NumPy makes a scalar a vector of one
        pack = _hook(codec.pack, "pack", "array", packs)
        return cls(pack(array), Form(array.shape, array.dtype), codec)

    @property
    def nbytes(self) -> int:
        return len(self.content)

    def unpack(self) -> Tensor:
        """Return the part as it arrives."""
        unpack = _hook(self.codec.unpack, "unpack", "content, form", unpacks)
        array = unpack(self.content, self.form)
        return torch.from_numpy(array if array.flags.writeable else array.copy())


def _hook(function: Callable[..., Any], name: str, arguments: str, check: Callable[..., str | None]) -> Any:
    """Return a function of a codec, which a plugin may name without a registry, so that its errors name it."""
    if is_ours(function):
        return function
    return hooked(function, name, Origin.of(function, "codec", ""), HookForm(arguments, check))


def packs(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check what `Codec.pack` returns."""
    return None if isinstance(value, bytes | memoryview) else f"{described(value)}, but bytes are expected"


def unpacks(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check what `Codec.unpack` returns."""
    form: Form = arguments[1]
    if isinstance(value, np.ndarray) and (value.shape, value.dtype) == tuple(form):
        return None
    return f"{described(value)}, but an array of shape {form.shape} and type {form.dtype} is expected"


CODECS: Registry[Codec] = Registry("codec")
