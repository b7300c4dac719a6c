"""Devices: where a network trains and is tested. Algorithms, messages, records and checkpoints stay on the CPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch

from silobench.errors import ConfigError

Device: TypeAlias = Literal["auto", "cpu", "cuda", "mps"]


def resolved(device: str) -> str:
    """Return the device of this machine that a name stands for: auto is the first of cuda, mps and cpu that it has.

    >>> resolved("cpu")
    'cpu'
    """
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    first = next(name for name, is_present in present.items() if is_present)
    if device == "auto":
        return first
    if not present[device]:
        raise ConfigError(
            f"device {device} was chosen, but PyTorch {torch.__version__} finds none on this machine: use {first}, or "
            f"install a PyTorch that supports {device}."
        )
    return device


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's random numbers, and restore the former state of the CPU's generator and of CUDA's afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)  # of the CPU and of every other device
        yield


def random_state(device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the state of torch's random numbers, for the CPU and for a CUDA device."""
    return torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])


def set_random_state(state: tuple[torch.Tensor, ...], device: torch.device) -> None:
    """Restore a state that `random_state` returned."""
    torch.set_rng_state(state[0])
    for of_device in state[1:]:
        torch.cuda.set_rng_state(of_device, device)
