"""Local training. A solver moves the network's flat parameters over a party's batches; it knows no algorithm."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.errors import SpecError
from silobench.federation import Federation, Party
from silobench.method.schedules import SCHEDULES as SCHEDULES
from silobench.method.types import (
    Batch,
    BelowOne,
    Count,
    Knob,
    Local,
    Memory,
    NonNegative,
    Positive,
    Pull,
    Server,
    Vector,
    at,
)
from silobench.rng import stream
from silobench.spec import Registry
from silobench.tasks.task import Task
from silobench.vectors import moved

Correct = Callable[[Vector, Vector], Vector]  # (gradient, params) -> gradient
_GRADIENT_BATCH = 1000


@dataclass(frozen=True)
class Problem:
    """The problem of one party in a round: the loss of a task, or `other_loss`, on the rows of the party."""

    task: Task
    federation: Federation
    party: Party
    seed: int
    other_loss: Callable[[Batch], Tensor] | None = None

    def backward(self, rows: Tensor, augmented: bool = False) -> Tensor:
        """Return the loss on some rows at the network's parameters, and write its gradient to ``network.grad``."""
        self.task.network.grad.zero_()
        loss = self._loss(*self.federation.batch(rows, augmented))
        loss.backward()
        return loss.detach()

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        if self.other_loss is None:
            return self.task.loss(x, y)
        class_counts = self.federation.class_counts[self.party.id].to(x.device)
        return self.other_loss(Batch(x, y, class_counts, partial(self.task.network.answer, x)))

    def gradient(self, params: Vector) -> Vector:
        """Return the gradient of the loss over all rows of the party, without augmentation."""
        network, total = self.task.network, torch.zeros_like(params)
        network.params.copy_(params)
        for rows in self.party.rows.split(_GRADIENT_BATCH):
            self.backward(rows)
            total.add_(network.grad.to(total.device), alpha=len(rows) / self.party.samples)
        return total


@dataclass(frozen=True)
class Solver:
    """Minibatch SGD with momentum, on flat vectors; see `sgd`."""

    lr: Knob
    momentum: float
    weight_decay: float
    epochs: int
    steps: int | None
    batch: int | None  # None for all rows at once
    keep_momentum: bool
    left: float = 0.0  # momentum that the algorithm applies instead of the solver

    def train(
        self,
        problem: Problem,
        start: Vector,
        server: Server,
        correct: Correct | None,
        pull: Pull,
        memory: Memory,
    ) -> tuple[Local, Memory]:
        """Train from `start`; return the finished training and the memory of the solver (its momentum)."""
        network, lr, steps = problem.task.network, at(self.lr, server), 0
        params = network.params
        params.copy_(start)
        velocity = memory["momentum"].to(params.device, copy=True) if memory else torch.zeros_like(params)
        total_loss, pull = torch.zeros((), device=params.device), moved(pull, params.device)
        for rows in self.batches(problem, server.round):
            total_loss += problem.backward(rows, augmented=True)
            grad = network.grad
            if self.weight_decay:
                grad.add_(params, alpha=self.weight_decay)
            if pull.strength:
                grad.add_(params if pull.anchor is None else params - pull.anchor, alpha=pull.strength)
            if pull.linear is not None:
                grad.add_(pull.linear)
            if correct is not None:
                grad = correct(grad, params)
            velocity.mul_(self.momentum).add_(grad)
            params.add_(velocity, alpha=-lr)
            if pull.drift is not None:
                params.add_(pull.drift, alpha=-lr)
            steps += 1
        local = self.local(problem, start, params.clone().cpu(), steps, lr, float(total_loss) / steps)
        return local, {"momentum": velocity.cpu()} if self.keep_momentum else {}

    def local(
        self,
        problem: Problem,
        start: Vector,
        end: Vector,
        steps: int,
        lr: float,
        loss: float,
        gradient: Callable[[Vector], Vector] | None = None,
    ) -> Local:
        """Describe a finished training by any engine; `gradient` replaces PyTorch's by a faster function."""
        samples, gradient = problem.party.samples, gradient or self.gradient_of(problem)
        return Local(
            start,
            end,
            steps,
            reach(steps, self.momentum),
            lr,
            samples,
            loss,
            gradient,
            problem.task.network.layout,
            self.first_lr,
            self.momentum or self.left,
            -(-samples // (self.batch or samples)),
        )

    @cached_property
    def first_lr(self) -> float:
        """The learning rate of the first round."""
        return at(self.lr, Server(torch.zeros(0), {}, {}, 0, 1, {}))

    def without_momentum(self) -> "Solver":
        """Return a solver whose steps have no momentum, because the algorithm applies it."""
        return replace(self, momentum=0.0, keep_momentum=False, left=self.momentum)

    def gradient_of(self, problem: Problem) -> Callable[[Vector], Vector]:
        """Return a function of the parameters: the gradient of the loss over all rows, including weight decay."""
        return lambda params: problem.gradient(params).add_(params, alpha=self.weight_decay)

    def count(self, samples: int) -> int:
        """Return how many steps a round has for a party with `samples` rows."""
        return self.epochs * -(-samples // (self.batch or samples)) if self.steps is None else self.steps

    def rows(self, samples: int) -> int:
        """Return how many rows a party with `samples` rows visits in a round, counting repetitions."""
        if self.steps is None:
            return self.epochs * samples
        return self.steps * min(samples, self.batch or samples)

    def batches(self, problem: Problem, round: int) -> tuple[Tensor, ...]:
        """Return the row numbers of every batch of a round, in shuffled order."""
        rows, sizes = self.order(problem, round)
        return rows.split(sizes)  # type: ignore[no-any-return]  # torch has no types here

    def order(self, problem: Problem, round: int) -> tuple[Tensor, list[int]]:
        """Return the row numbers of a round in the order of visits, and the sizes of its batches."""
        rows, size = problem.party.rows.numpy(), self.batch or problem.party.samples
        whole, rest = divmod(len(rows), size)
        sizes = [size] * whole + [rest] * (rest > 0)  # of one pass
        if self.steps is None:
            order = stream(problem.seed, "order", round, problem.party.id)
            return _tensor([order.permutation(rows) for _ in range(self.epochs)]), sizes * self.epochs
        # A number of steps: continue in the pass where the last round stopped, which follows from the round alone.
        first, skipped = divmod(round * self.steps, len(sizes))
        passes = range(first, first - (-(skipped + self.steps) // len(sizes)))
        visited = _tensor([_in_pass(problem, number) for number in passes])
        sizes = sizes * len(passes)
        begin, chosen = sum(sizes[:skipped]), sizes[skipped : skipped + self.steps]
        return visited[begin : begin + sum(chosen)], chosen


def _in_pass(problem: Problem, number: int) -> NDArray[np.int64]:
    """Return the rows of a party in the order of a pass. It is cached, because a round may be a single step of it."""
    party, key = problem.party, (problem.seed, number)
    if key not in party.order_of_pass:
        party.order_of_pass.clear()
        order = stream(problem.seed, "pass", number, party.id).permutation(party.rows.numpy())
        party.order_of_pass[key] = order
    return party.order_of_pass[key]


def _tensor(parts: list[NDArray[np.int64]]) -> Tensor:
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts))


@cache
def reach(steps: int, momentum: float) -> float:
    """Return the sum of the weights of the gradients in the displacement of SGD after `steps` steps.

    >>> reach(5, 0.0), round(reach(2, 0.9), 6)  # the first of two gradients counts 1.9, the second 1
    (5.0, 2.9)
    """
    total = velocity = 0.0
    for _ in range(steps):  # accurate also for a momentum near 1, where the closed form suffers cancellation
        velocity = 1 + momentum * velocity
        total += velocity
    return total


SOLVERS: Registry[Solver] = Registry("solver", nested=SCHEDULES)


@SOLVERS.register
def sgd(
    lr: Positive | Callable[[Server], float] = 0.01,
    momentum: BelowOne = 0.9,
    weight_decay: NonNegative = 1e-5,
    epochs: Count = 10,
    steps: Count | None = None,
    batch: Count | Literal["full"] = 64,
    keep_momentum: bool = False,
) -> Solver:
    """Minibatch SGD; the defaults are NIID-Bench's.

    `lr` is a number or a schedule: constant, exponential, step or polynomial. `steps` replaces epochs by a number of
    minibatches per round; `batch=full` takes all rows at once. Momentum starts from zero in every round, unless each
    party keeps its own with `keep_momentum`.
    """
    if steps is not None and epochs != 10:  # 10 is the default: a full spec states it together with steps
        raise SpecError(f"sgd: steps={steps} and epochs={epochs} were both given: give one of them.")
    keep = keep_momentum and momentum > 0
    return Solver(lr, momentum, weight_decay, epochs, steps, None if batch == "full" else batch, keep)
