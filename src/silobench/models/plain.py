"""Plain layers: torch's own instead of faster ones of silobench, where torch.func.vmap has to see through a network."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_is_plain: ContextVar[bool] = ContextVar("plain layers", default=False)


@contextmanager
def plain_layers() -> Iterator[None]:
    """Compute with torch's own layers in this block. Values are the same; on a CPU they take longer."""
    token = _is_plain.set(True)
    try:
        yield
    finally:
        _is_plain.reset(token)


def uses_plain_layers() -> bool:
    return _is_plain.get()


def channels_last(x: Tensor) -> Tensor:
    """Return images with their channels last in memory, except in plain layers: vmap does not have this format."""
    return x if uses_plain_layers() else x.contiguous(memory_format=torch.channels_last)
