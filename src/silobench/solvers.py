"""Local training. A solver walks the network's flat parameters over a party's batches; it knows no algorithm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge
from torch import Tensor

from silobench.errors import SpecError
from silobench.federation import Federation, Party
from silobench.rng import stream
from silobench.spec import Registry
from silobench.task import Task
from silobench.types import BelowOne, Count, Knob, Local, Memory, NonNegative, Positive, Server, Vector, at

Correct = Callable[[Vector, Vector], Vector]  # (gradient, where) -> gradient
_GRADIENT_BATCH = 1000


@dataclass(frozen=True)
class Problem:
    """What one party minimises in one round: a task on its own rows."""

    task: Task
    federation: Federation
    party: Party
    seed: int

    def backward(self, rows: Tensor, augmented: bool = False) -> Tensor:
        """The loss on some rows at the network's parameters; its gradient fills ``network.grad``."""
        self.task.network.grad.zero_()
        loss = self.task.loss(*self.federation.batch(rows, augmented))
        loss.backward()
        return loss.detach()

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

    def train(
        self,
        problem: Problem,
        start: Vector,
        server: Server,
        correct: Correct | None,
        drift: Vector | None,
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
            if correct is not None:
                grad = correct(grad, here)
            velocity.mul_(self.momentum).add_(grad)
            here.add_(velocity, alpha=-lr)
            if drift is not None:
                here.add_(drift, alpha=-lr)
            steps += 1
        local = Local(
            start=start,
            end=here.clone(),
            steps=steps,
            reach=reach(steps, self.momentum),
            lr=lr,
            samples=problem.party.samples,
            loss=float(total_loss) / steps,
            gradient=lambda params: problem.gradient(params).add_(params, alpha=self.weight_decay),
        )
        return local, {"momentum": velocity} if self.keep_momentum else {}

    def batches(self, problem: Problem, round: int) -> Iterator[Tensor]:
        """Row numbers of every batch of a round, in shuffled order."""
        rows, size = problem.party.rows, self.batch or problem.party.samples
        if self.steps is None:
            order = stream(problem.seed, "order", round, problem.party.id)
            for _ in range(self.epochs):
                yield from _shuffled(rows, order).split(size)
            return
        # A number of steps: go on through the passes where the last round stopped, without any memory.
        per_pass = -(-len(rows) // size)
        whole: list[Tensor] = []
        for step in range(round * self.steps, (round + 1) * self.steps):
            if not whole or step % per_pass == 0:
                order = stream(problem.seed, "pass", step // per_pass, problem.party.id)
                whole = list(_shuffled(rows, order).split(size))
            yield whole[step % per_pass]


def _shuffled(rows: Tensor, order: np.random.Generator) -> Tensor:
    return rows[torch.from_numpy(order.permutation(len(rows)))]


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
    return Solver(lr, momentum, weight_decay, epochs, steps, None if batch == "full" else batch, keep_momentum)
