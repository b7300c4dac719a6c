"""A message of zeros: what the server adds noise to where nobody answers, and what messages of a method look like."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from silobench.method.types import Context, Layout, Local, Memory, Server, Update, Vector, at
from silobench.training.setting import Setting


def blank_message(setting: Setting, server: Server) -> tuple[Update, frozenset[str]]:
    """Return a message of zeros, and the names of parts from which personal entries were removed.

    It has the parts of the message of a party that trains for the first time, and whose training changes nothing.
    """
    algorithm, train = setting.method.algorithm, _Idle(setting, server)
    memory = algorithm.memory(server.params)
    if algorithm.trainings is None:
        local = train(algorithm.start(server, memory))
    else:
        local, memory = algorithm.trainings(train, server, memory)
    update, _ = algorithm.message(local, server, memory)
    update, model_parts = setting.without_personal(update)
    if server.buffers.numel() and setting.buffers == "average":
        update = setting.with_buffers(update, server.buffers, server)
    return _zeros(update), model_parts


@dataclass(frozen=True)
class _Idle:
    """A training of one row that changes nothing: a `Train`."""

    setting: Setting
    server: Server

    @property
    def layout(self) -> Layout:
        return self.setting.task.network.layout

    def __call__(self, start: Vector, name: str = "", *, scratch: Memory | None = None, **others: Any) -> Local:
        solver, rate = self.setting.solver, at(self.setting.solver.lr, self.server)
        return Local(
            start, start, 1, solver.reach(1), rate, 1, 0.0, torch.zeros_like, self.layout, solver.first_lr,
            solver.momentum, 1, scratch or {},
        )  # fmt: skip


def encoded_blank(message: Update, setting: Setting, contexts: Sequence[Context]) -> Update:
    """Return a message of zeros with the parts that the first transforms of a chain add; one context for each."""
    for transform, context in zip(setting.method.transforms, contexts, strict=False):
        message, *_ = transform.encode(message, {}, context)
    return _zeros(message)


def _zeros(update: Update) -> Update:
    return replace(update.map(torch.zeros_like), weight=1.0, codecs={})
