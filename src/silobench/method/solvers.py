"""Local training. A solver walks the network's flat parameters over a party's batches; it knows no algorithm."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge
from numpy.typing import NDArray
from torch import Tensor

from silobench.errors import SpecError
from silobench.federation import Federation, Party
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

Correct = Callable[[Vector, Vector], Vector]  # (gradient, where) -> gradient
_GRADIENT_BATCH = 1000


@dataclass(frozen=True)
class Problem:
    """What one party minimises in one round: a task on its own rows, by the task's loss unless there is another."""

    task: Task
    federation: Federation
    party: Party
    seed: int
    other_loss: Callable[[Batch], Tensor] | None = None

    def backward(self, rows: Tensor, augmented: bool = False) -> Tensor:
        """The loss on some rows at the network's parameters; its gradient fills ``network.grad``."""
        self.task.network.grad.zero_()
        loss = self._loss(*self.federation.batch(rows, augmented))
        loss.backward()
        return loss.detach()

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        if self.other_loss is None:
            return self.task.loss(x, y)
        held = self.federation.held[self.party.id]
        return self.other_loss(Batch(x, y, held, partial(self.task.network.answer, x)))

    def gradient(self, params: Vector) -> Vector:
        """The gradient of the loss over all of the party's rows, as they are."""
        network, total = self.task.network, torch.zeros_like(params)
        network.params.copy_(params)
        for rows in self.party.rows.split(_GRADIENT_BATCH):
            self.backward(rows)
            total.add_(network.grad, alpha=len(rows) / self.party.samples)
        return total


SCHEDULES: Registry[Knob] = Registry("schedule")


@SCHEDULES.register
def constant(start: Positive) -> Knob:
    """The same in every round; a plain number means this."""
    return start


@SCHEDULES.register
def exponential(start: Positive, decay: Positive) -> Knob:
    """start · decay^round (Zhao et al.: 0.995 on MNIST, 0.992 on CIFAR-10)."""
    return lambda server: start * decay**server.round


@SCHEDULES.register
def step(start: Positive, at: tuple[Annotated[int, Ge(0)], ...], factor: Positive = 0.1) -> Knob:
    """Multiplied by `factor` at each of the rounds `at`, as in step(0.1, at=[64, 96])."""
    return lambda server: start * factor ** sum(server.round >= when for when in at)


@SCHEDULES.register
def polynomial(start: Positive, over: Count, end: NonNegative = 0.0, power: Positive = 1.0) -> Knob:
    """From start to end over so many rounds: end + (start - end)(1 - round/over)^power."""
    return lambda server: end + (start - end) * (1 - min(server.round, over) / over) ** power


@dataclass(frozen=True)
class Solver:
    """Minibatch SGD with momentum, on flat vectors. Made by `sgd`."""

    lr: Knob
    momentum: float
    weight_decay: float
    epochs: int
    steps: int | None
    batch: int | None  # None for all rows at once
    keep_momentum: bool
    left: float = 0.0  # momentum that is left to the algorithm

    def train(
        self,
        problem: Problem,
        start: Vector,
        server: Server,
        correct: Correct | None,
        pull: Pull,
        memory: Memory,
    ) -> tuple[Local, Memory]:
        """Train from `start`; gives what came of it and the momentum to keep."""
        network, lr, steps = problem.task.network, at(self.lr, server), 0
        here = network.params
        here.copy_(start)
        velocity = memory["momentum"].clone() if memory else torch.zeros_like(here)
        total_loss = torch.zeros(())
        for rows in self.batches(problem, server.round):
            total_loss += problem.backward(rows, augmented=True)
            grad = network.grad
            if self.weight_decay:
                grad.add_(here, alpha=self.weight_decay)
            if pull.strength:
                grad.add_(here if pull.anchor is None else here - pull.anchor, alpha=pull.strength)
            if pull.linear is not None:
                grad.add_(pull.linear)
            if correct is not None:
                grad = correct(grad, here)
            velocity.mul_(self.momentum).add_(grad)
            here.add_(velocity, alpha=-lr)
            if pull.drift is not None:
                here.add_(pull.drift, alpha=-lr)
            steps += 1
        local = self.local(problem, start, here.clone(), steps, lr, float(total_loss) / steps)
        return local, {"momentum": velocity} if self.keep_momentum else {}

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
        """A finished training, wherever it was done; `gradient` by PyTorch, unless there is a faster one."""
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

    def leaving_momentum(self) -> "Solver":
        """The same with steps that have no momentum: the algorithm applies it."""
        return replace(self, momentum=0.0, keep_momentum=False, left=self.momentum)

    def gradient_of(self, problem: Problem) -> Callable[[Vector], Vector]:
        """The full gradient of what is minimised, weight decay included, as a function of the parameters."""
        return lambda params: problem.gradient(params).add_(params, alpha=self.weight_decay)

    def count(self, samples: int) -> int:
        """The steps of a round for a party of so many rows."""
        return self.epochs * -(-samples // (self.batch or samples)) if self.steps is None else self.steps

    def rows(self, samples: int) -> int:
        """The rows that a party of so many visits in a round, repetitions included."""
        if self.steps is None:
            return self.epochs * samples
        return self.steps * min(samples, self.batch or samples)

    def batches(self, problem: Problem, round: int) -> tuple[Tensor, ...]:
        """Row numbers of every batch of a round, in shuffled order."""
        rows, sizes = self.order(problem, round)
        return rows.split(sizes)  # type: ignore[no-any-return]  # torch has no types here

    def order(self, problem: Problem, round: int) -> tuple[Tensor, list[int]]:
        """The row numbers of a round in the order in which they are visited, and the sizes of its batches."""
        rows, size = problem.party.rows.numpy(), self.batch or problem.party.samples
        whole, rest = divmod(len(rows), size)
        sizes = [size] * whole + [rest] * (rest > 0)  # of one pass
        if self.steps is None:
            order = stream(problem.seed, "order", round, problem.party.id)
            return _tensor([order.permutation(rows) for _ in range(self.epochs)]), sizes * self.epochs
        # A number of steps: go on through the passes where the last round stopped, without any memory.
        first, skipped = divmod(round * self.steps, len(sizes))
        passes = range(first, first - (-(skipped + self.steps) // len(sizes)))
        visited = _tensor([_in_pass(problem, number) for number in passes])
        sizes = sizes * len(passes)
        begin, taken = sum(sizes[:skipped]), sizes[skipped : skipped + self.steps]
        return visited[begin : begin + sum(taken)], taken


def _in_pass(problem: Problem, number: int) -> NDArray[np.int64]:
    """The rows of a party in the order of a pass. It is remembered: a round may be one single step of it."""
    party, key = problem.party, (problem.seed, number)
    if key not in party.order_of_pass:
        party.order_of_pass.clear()
        drawn = stream(problem.seed, "pass", number, party.id).permutation(party.rows.numpy())
        party.order_of_pass[key] = drawn
    return party.order_of_pass[key]


def _tensor(parts: list[NDArray[np.int64]]) -> Tensor:
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts))


@cache
def reach(steps: int, momentum: float) -> float:
    """The sum of the weights that `steps` gradients get in a displacement of SGD with this momentum.

    >>> reach(5, 0.0), round(reach(2, 0.9), 6)  # the first of two gradients counts 1.9, the second 1
    (5.0, 2.9)
    """
    total = velocity = 0.0
    for _ in range(steps):  # exact also for a momentum near 1, where the closed form cancels
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

    `lr` is a number or a schedule: constant, exponential, step or polynomial. `steps` replaces epochs by a
    number of minibatches a round; `batch=full` takes all rows at once. Momentum starts from zero in every
    round unless `keep_momentum` leaves it with the party.
    """
    if steps is not None and epochs != 10:  # 10 is the default: a resolved spec states it beside steps
        raise SpecError(f"sgd: steps={steps} and epochs={epochs} were both given: give one of them.")
    keep = keep_momentum and momentum > 0
    return Solver(lr, momentum, weight_decay, epochs, steps, None if batch == "full" else batch, keep)
