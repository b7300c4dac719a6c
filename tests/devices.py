"""A second device for tests, on any machine: its tensors are in main memory, but do not mix with those of the CPU."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")  # PyTorch knows this name everywhere, and the tensors below have it
_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Elsewhere(Tensor):
    """A tensor of the second device."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Elsewhere":
        options = {"strides": inner.stride(), "dtype": inner.dtype, "device": DEVICE}
        whole = Tensor._make_wrapper_subclass(cls, inner.size(), **options)
        whole.inner = inner
        return whole

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class SecondDevice(TorchDispatchMode):
    """Create tensors on the second device where a function is asked for its device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


def _call(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function of PyTorch; refuse tensors of two devices as it does, except for copies and scalars."""
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
    there = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    writes = func._schema.name.endswith("_")
    if there and func not in _COPIES:
        mixed = [tensor for tensor in tensors if not isinstance(tensor, Elsewhere) and tensor.dim()]
        if mixed or (writes and not isinstance(args[0], Elsewhere)):
            raise RuntimeError(f"{func}: expected all tensors on one device")
    goal = kwargs.get("device")
    plain_args, plain_kwargs = tree_map_only(Elsewhere, lambda tensor: tensor.inner, (args, kwargs))
    result = func(*plain_args, **plain_kwargs | ({"device": torch.device("cpu")} if goal is not None else {}))
    if writes:
        return args[0]
    if there if goal is None else goal == DEVICE:
        return tree_map_only(Tensor, Elsewhere, result)
    return result
