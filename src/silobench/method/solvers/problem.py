"""`Problem`: the loss of a party's rows, which a solver reduces."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from silobench.federation import Federation, Party
from silobench.method.types import Batch, Vector
from silobench.models.devices import random_state, set_random_state
from silobench.privacy.canaries import Canaries
from silobench.tasks.task import Task

_GRADIENT_BATCH = 1000


@dataclass(frozen=True)
class Problem:
    """The problem of one party in a round: the loss of a task, or `other_loss`, on the rows of the party.

    The network may be on another device than the rows: each batch is copied to it.
    """

    task: Task
    federation: Federation
    party: Party
    seed: int
    other_loss: Callable[[Batch], Tensor] | None = None
    training: str = ""  # name of the training within a round: each has its own order of rows
    canaries: Canaries | None = None  # further rows of an audit, for a solver that adds noise

    @property
    def rows(self) -> Tensor:
        """The row numbers of the party, then those of canaries."""
        return self.party.rows if self.canaries is None else torch.cat([self.party.rows, self.canaries.rows])

    def purpose(self, purpose: str) -> str:
        """Return the purpose of a random stream of this training."""
        return f"{purpose} {self.training}" if self.training else purpose

    def backward(self, rows: Tensor, augmented: bool = False) -> Tensor:
        """Return the loss on some rows at the network's parameters, and write its gradient to ``network.grad``."""
        network = self.task.network
        network.grad.zero_()
        x, y = self.federation.batch(rows, augmented)
        loss = self._loss(x.to(network.grad.device), y.to(network.grad.device))
        loss.backward()
        return loss.detach()

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        if self.other_loss is None:
            return self.task.loss(x, y)
        class_counts = self.federation.class_counts[self.party.id].to(x.device)
        return self.other_loss(Batch(x, y, class_counts, partial(self._answer, x)))

    def _answer(self, x: Tensor, params: Vector | None) -> tuple[Tensor, Tensor]:
        return self.task.network.answer(x, None if params is None else params.to(x.device))

    def gradient(self, params: Vector) -> Vector:
        """Return the gradient of the loss over all rows of the party, without augmentation."""
        network = self.task.network
        network.params.copy_(params)
        total = torch.zeros_like(network.params)
        for rows in self.party.rows.split(_GRADIENT_BATCH):
            self.backward(rows)
            total.add_(network.grad, alpha=len(rows) / self.party.samples)
        return total.cpu()


class Slopes:
    """The gradients of a training that follows a direction, at any parameters: `Step.gradient`."""

    def __init__(self, problem: Problem, weight_decay: float):
        self.loss = 0.0  # sum over the steps
        self._problem, self._decay = problem, weight_decay
        self._network = problem.task.network

    def begin(self, batch: Callable[[int], Tensor]) -> None:
        """Start the next step; `batch` returns the rows of each of its draws."""
        self._batch, self._is_first, self._random = batch, True, random_state(self._network.params.device)

    def __call__(self, params: Vector, draw: int = 0) -> Vector:
        network = self._network
        network.params.copy_(params)
        set_random_state(self._random, network.params.device)
        buffers = network.buffers.clone()
        loss = self._problem.backward(self._batch(draw), augmented=True)
        if self._is_first:
            self.loss += float(loss)
        else:
            network.buffers.copy_(buffers)
        self._is_first = False
        return network.grad.add(params, alpha=self._decay) if self._decay else network.grad.clone()
