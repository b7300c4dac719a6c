"""Lazy layers of torch, which learn the size of their input from their first rows."""

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from silobench.errors import ConfigError


def initialise_lazy(module: nn.Module, shape: tuple[int, ...], reads_words: bool) -> None:
    """Give lazy layers their sizes by a pass over rows of zeros; do nothing if there are none."""
    if not _lazy_names(module):
        return
    rows = torch.zeros((2, *shape), dtype=torch.int64 if reads_words else torch.float32)
    try:
        with torch.no_grad():
            module.eval()(rows)
    except Exception as error:
        raise ConfigError(
            f"the lazy layers of {type(module).__name__} cannot be sized by rows of shape {tuple(rows.shape)}: "
            f"{type(error).__name__}: {error}; give the layers their sizes."
        ) from error
    module.train()
    if names := _lazy_names(module):
        raise ConfigError(
            f"the lazy parameter {names[0]} of {type(module).__name__} has no size after a pass over rows, so its "
            "layer is not used: use the layer in forward, or leave it out."
        )


def _lazy_names(module: nn.Module) -> list[str]:
    tensors = (*module.named_parameters(), *module.named_buffers())
    return [name for name, tensor in tensors if is_lazy(tensor)]
