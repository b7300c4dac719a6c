"""Devices: where a network trains and is tested. Algorithms, messages, records and checkpoints stay on the CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, get_args

import torch

from silobench.errors import ConfigError

Device: TypeAlias = Literal["auto", "cpu", "cuda", "cuda-nondeterministic", "mps"]
_FREE = "-nondeterministic"  # the end of a device's name that allows operations without a deterministic form
_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
_WITH_SETTINGS = ("cuda",)  # devices whose bits depend on settings of PyTorch


def resolved(device: str) -> str:
    """Return the device of this machine that a name stands for: auto is the first of cuda, mps and cpu that it has.

    >>> resolved("cpu")
    'cpu'
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    first = next(name for name, is_present in present.items() if is_present)
    if device == "auto":
        return first
    if device not in get_args(Device):
        names = [f"'{name}'" for name in get_args(Device)]
        raise ConfigError(f"device must be {', '.join(names[:-1])} or {names[-1]}, but '{device}' was given.")
    if not present[type_of(device)]:
        raise ConfigError(
            f"device {device} was chosen, but PyTorch {torch.__version__} finds none on this machine: use {first}, or "
            f"install a PyTorch that supports {type_of(device)}."
        )
    return device


def type_of(device: str) -> str:
    """Return PyTorch's name of a device.

    >>> type_of("cuda-nondeterministic"), type_of("cpu")
    ('cuda', 'cpu')
    """
    return device.removesuffix(_FREE)


def is_deterministic(device: str) -> bool:
    """Whether two runs on a device of this name must have the same bits.

    >>> is_deterministic("cuda"), is_deterministic("cuda-nondeterministic")
    (True, False)
    """
    return not device.endswith(_FREE)


def facts_of(device: str) -> dict[str, str]:
    """Return what the bits of a run depend on besides versions: the model of the GPU, on cuda.

    >>> facts_of("cpu")
    {}
    """
    return {"gpu": torch.cuda.get_device_name()} if type_of(device) == "cuda" else {}


def visible_gpus() -> list[str]:
    """Return the CUDA devices that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    if not torch.cuda.is_available():
        return []
    chosen, count = os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count()
    names = [name.strip() for name in chosen.split(",")] if chosen else [str(number) for number in range(count)]
    return names[:count]  # names behind one that does not exist are ignored, as CUDA does


def prepare_process(gpu: str | None = None) -> None:
    """Prepare a process for CUDA before it starts there: cuBLAS repeats its sums, and only one GPU is seen if named.

    A worker process calls it first. Ray names the GPU of a worker itself.
    """
    os.environ.setdefault(_WORKSPACE, ":4096:8")
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu


@contextmanager
def deterministic(device: str, is_on: bool = True) -> Iterator[None]:
    """Use those settings of PyTorch in this block by which two runs on one GPU have the same bits, and full precision.

    Kernels are deterministic if `is_on`, cuDNN does not choose kernels by their speed, and products have no TF32. The
    settings before are restored. A device without such settings is left as it is.
    """
    if device not in _WITH_SETTINGS:
        yield
        return
    prepare_process()
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    values = [(owner, name, getattr(owner, name)) for owner, name, _ in _settings(is_on)]
    try:
        torch.use_deterministic_algorithms(is_on)
        for owner, name, value in _settings(is_on):
            setattr(owner, name, value)
        yield
    except RuntimeError as error:
        explained = _explained(error)
        if explained is None:
            raise
        raise explained from error
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        for owner, name, value in values:
            setattr(owner, name, value)


def _settings(is_deterministic: bool) -> list[tuple[Any, str, Any]]:
    """Return settings as (owner, name, value)."""
    cudnn: Any = torch.backends.cudnn
    matmul: Any = torch.backends.cuda.matmul
    settings = [(cudnn, "benchmark", False), (cudnn, "deterministic", is_deterministic)]
    if hasattr(matmul, "fp32_precision"):
        return [*settings, *((each, "fp32_precision", "ieee") for each in (matmul, cudnn.conv, cudnn.rnn))]
    return [*settings, (matmul, "allow_tf32", False), (cudnn, "allow_tf32", False)]  # PyTorch before 2.9


def _explained(error: RuntimeError) -> ConfigError | None:
    """Return the sentence for an operation that is not deterministic; None for any other error."""
    text = str(error)
    if "does not have a deterministic implementation" in text:
        operation = text.split()[0]
        return ConfigError(
            f"{operation} has no deterministic form in PyTorch {torch.__version__} on this device, so two runs would "
            "differ: choose another model, or device = cuda-nondeterministic."
        )
    if _WORKSPACE in text:
        return ConfigError(
            f"CUDA was started in this process before {_WORKSPACE} was set, so two runs would differ: set "
            f"{_WORKSPACE}=:4096:8 before Python starts, or choose device = cuda-nondeterministic."
        )
    return None


def seed_torch(seed: int) -> None:
    """Seed torch's random numbers on the CPU and on every other device of this machine.

    Where there is no other device, `torch.manual_seed` has the same result, but it writes down the whole call stack for
    each kind of device that is absent, which takes longer than the training of a small party.
    """
    if torch.cuda.is_available() or torch.backends.mps.is_available() or torch.xpu.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's random numbers, and restore the former state of the CPU's generator and of CUDA's afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        seed_torch(seed)
        yield


def random_state(device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the state of torch's random numbers, for the CPU and for a CUDA device."""
    return torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def set_random_state(state: tuple[torch.Tensor, ...], device: torch.device) -> None:
    """Restore a state that `random_state` returned."""
    torch.set_rng_state(state[0])
    for of_device in state[1:]:
        torch.cuda.set_rng_state(of_device, device)
