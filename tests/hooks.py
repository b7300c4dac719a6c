"""Helpers for tests that call a hook of an algorithm by itself: vectors, trainings and servers of a few numbers."""

from typing import Any

import torch
from torch import Tensor

from silobench.method.types import Layout, Local, Memory, Server, Update


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def trained(start: Tensor, delta: Tensor, **changes: Any) -> Local:
    """Return a training of one tensor, at a rate of 0.5 and a momentum of 0.5, in which an epoch has 4 steps."""
    fields: dict[str, Any] = {
        "start": start, "end": start + delta, "steps": 1, "reach": 1.0, "lr": 0.5, "samples": 7, "loss": 0.0,
        "gradient": lambda params: 10 * params, "layout": Layout(("w",), (start.shape,), len(start)), "first_lr": 0.5,
        "momentum": 0.5, "steps_per_epoch": 4,
    }  # fmt: skip
    return Local(**{**fields, **changes})


def server_at(params: Tensor, round: int = 0, parties: int = 4, **changes: Any) -> Server:
    return Server(
        **{"params": params, "extras": {}, "optimizer": {}, "round": round, "parties": parties, "knobs": {}, **changes}
    )


def sent(update: Update) -> list[float]:
    return update.total["delta"].tolist()


class Recorder:
    """A `Train` that notes how it is called: the first training adds 1 to its start, the second 2, and so on."""

    def __init__(self, layout: Layout | None = None, scratch: Memory | None = None):
        self.layout, self.scratch = layout, scratch
        self.calls: list[dict[str, Any]] = []

    def __call__(self, start: Tensor, name: str = "", **options: Any) -> Local:
        self.calls.append({"start": start, "name": name, **options})
        return trained(start, torch.full_like(start, len(self.calls)), scratch=self.scratch or {})
