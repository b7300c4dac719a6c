"""A second device for tests: tensors on it compute on the CPU, and an operation on tensors of both devices fails.

PyTorch names the device type `lazy`, but has no such device here. Inside ``SecondDevice()`` a tensor that is created
there or moved there is a `Remote`: it reports the device `lazy` and has a tensor of the CPU inside.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "lazy"
_CROSSING = ("aten::_to_copy", "aten::copy_")  # operations that move numbers from one device to another


class Remote(Tensor):
    """A tensor on the second device."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> "Remote":
        is_dense = inside.layout == torch.strided
        tensor = Tensor._make_wrapper_subclass(
            cls,
            inside.size(),
            strides=inside.stride() if is_dense else None,
            storage_offset=inside.storage_offset() if is_dense else None,
            dtype=inside.dtype,
            layout=inside.layout,
            device=NAME,
        )
        tensor.inside = inside
        return tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _called(function, args, kwargs or {})

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, other: "Remote") -> None:  # of a parameter: torch would replace the wrapper only
        self.inside = other.inside

    def __deepcopy__(self, memo: Any) -> "Remote":
        copied = Remote(self.inside.clone()).requires_grad_(self.requires_grad)
        copied._is_param = getattr(self, "_is_param", False)
        return copied

    def numpy(self) -> Any:
        raise TypeError(f"cannot convert a tensor of device {NAME} to numpy: use Tensor.cpu() first")


class SecondDevice(TorchDispatchMode):
    """A context in which the device exists. `operations` counts those that ran on it."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += any(isinstance(tensor, Remote) for tensor in _tensors(args, kwargs or {}))
        return _called(function, args, kwargs or {})


def _called(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = _tensors(args, kwargs)
    remote = [isinstance(tensor, Remote) for tensor in tensors]
    name, target = function._schema.name, kwargs.get("device")
    if name not in _CROSSING and any(remote):
        strays = [tensor for tensor, is_remote in zip(tensors, remote, strict=True) if not is_remote and tensor.dim()]
        if strays:  # as on a GPU, where a number from the CPU may take part, but an array may not
            raise RuntimeError(f"{name}: expected all tensors on one device, but found {NAME} and cpu")
    if target is not None:
        is_remote, kwargs = torch.device(target).type == NAME, {**kwargs, "device": torch.device("cpu")}
    else:
        is_remote = remote[0] if name == "aten::copy_" else any(remote)
    inside = {key: _mapped(_inside, value) for key, value in kwargs.items()}
    result = function(*_mapped(_inside, args), **inside)
    originals = {id(_inside(tensor)): tensor for tensor in tensors}  # an operation in place returns its argument

    def outside(tensor: Tensor) -> Tensor:
        return originals.get(id(tensor)) if id(tensor) in originals else Remote(tensor) if is_remote else tensor

    return _mapped(outside, result)


def _tensors(args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors among the arguments, and in lists among them: operations have no deeper ones.

    PyTorch's own walk over anything that is nested would take more time than the operations.
    """
    found: list[Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [each for each in value if isinstance(each, Tensor)]
    return found


def _mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Change a tensor, or those in a list or tuple."""
    if isinstance(value, Tensor):
        return change(value)
    return type(value)([_mapped(change, each) for each in value]) if isinstance(value, list | tuple) else value


def _inside(tensor: Tensor) -> Tensor:
    return tensor.inside if isinstance(tensor, Remote) else tensor
