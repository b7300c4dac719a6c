"""`Solver`: moves a network's flat parameters over a party's batches. It knows no algorithm."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.errors import SpecError
from silobench.federation import Party
from silobench.method.checks import tensors
from silobench.method.schedules import SCHEDULES, first_value
from silobench.method.solvers.problem import Problem, Slopes
from silobench.method.types import Direction, Knob, Local, Memory, Pull, Server, Step, Vector, at
from silobench.privacy.mechanism import Mechanism
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, Origin, described, hooked
from silobench.vectors import moved

Correct = Callable[[Vector, Vector], Vector]  # (gradient, params) -> gradient
_EPOCHS = 10  # the default of most solvers


@dataclass(frozen=True)
class Solver(ABC):
    """Local training by minibatches, on flat vectors. A kind of solver is a subclass with `initial` and `step`.

    The network may be on another device: `step` calculates there, and everything else gets vectors on the CPU.
    """

    lr: Knob
    momentum: float  # of SGD; 0 for another kind
    weight_decay: float  # times the parameters, it is part of the gradient
    epochs: int
    steps: int | None
    batch: int | None  # None for all rows at once
    keep_momentum: bool  # each party keeps the state of the solver between rounds, whatever its kind
    left: float = 0.0  # momentum that the algorithm applies instead of the solver

    kind: ClassVar[str]
    """Name of the kind: an engine with its own steps refuses a kind that it does not know."""
    is_linear: ClassVar[bool] = False
    """Whether the displacement is a weighted sum of the gradients, with weights that depend only on their order."""
    hides_gradient: ClassVar[bool] = False
    """Whether no message may depend on `Local.gradient`, the exact gradient over all rows of a party."""

    @abstractmethod
    def initial(self, params: Vector) -> dict[str, Vector]:
        """Return the state before the first step, on the device of `params`; a scalar is on the CPU."""

    @abstractmethod
    def step(self, params: Vector, grad: Vector, state: dict[str, Vector], lr: float) -> None:
        """Move `params` by one step and update `state`, both in place; `grad` may be overwritten."""

    def reach(self, steps: int) -> float:
        """Return the sum of the weights of the gradients in the displacement; `steps` unless the solver is linear."""
        return float(steps)

    def release(self, party: int, samples: int) -> tuple[Mechanism, int] | None:
        """Return the noisy release that a step is, and the steps of a round; None for a solver that protects nobody."""
        return None

    def calibrated(self, rounds: int, samples: Sequence[int]) -> "Solver":
        """Return the solver for this number of rounds, over parties with these numbers of rows."""
        return self

    def refuses(self, method: Any) -> str | None:
        """Return why the solver cannot be combined with the other parts of a method, or None."""
        return None

    def refuses_network(self, module: nn.Module) -> str | None:
        """Return why the solver cannot train a network, or None."""
        return None

    def without_momentum(self) -> "Solver":
        """Return a solver whose steps have no momentum, because the algorithm applies it."""
        return self

    def train(
        self,
        problem: Problem,
        start: Vector,
        server: Server,
        correct: Correct | None,
        pull: Pull,
        memory: Memory,
        frozen: Tensor | None = None,
    ) -> tuple[Local, Memory]:
        """Train from `start`; return the finished training and the memory of the solver (its state).

        Entries that are true in `frozen` stay as they are.
        """
        network, lr, steps = problem.task.network, at(self.lr, server), 0
        params = network.params
        params.copy_(start)
        origin = params.clone() if frozen is not None else params
        state, pull = self._state(params, memory), moved(pull, params.device)
        total_loss = torch.zeros((), device=params.device)
        for loss in self.gradients(problem, server.round):
            total_loss += loss
            grad = network.grad
            if self.weight_decay:
                grad.add_(params, alpha=self.weight_decay)
            if pull.strength:
                grad.add_(params if pull.anchor is None else params - pull.anchor, alpha=pull.strength)
            if pull.linear is not None:
                grad.add_(pull.linear)
            if correct is not None:
                grad = correct(grad, params)
            self.step(params, grad, state, lr)
            if pull.drift is not None:
                params.add_(pull.drift, alpha=-lr)
            if frozen is not None:
                torch.where(frozen, origin, params, out=params)
            steps += 1
        end = params.to("cpu", copy=True)
        local = self.local(problem, start, end, steps, lr, float(total_loss) / steps)
        return local, {name: value.cpu() for name, value in state.items()} if self.keep_momentum else {}

    def gradients(self, problem: Problem, round: int) -> Iterator[Tensor]:
        """Write the gradient of each step of a round to ``network.grad``, and yield its loss."""
        for rows in self.batches(problem, round):
            yield problem.backward(rows, augmented=True)

    def follow(
        self, problem: Problem, start: Vector, server: Server, direction: Direction, scratch: Memory, memory: Memory
    ) -> tuple[Local, Memory]:
        """Train as `train` does, with steps along a direction; `start` may be several models, [models, d]."""
        device, lr, steps = problem.task.network.params.device, at(self.lr, server), 0
        params, slopes = start.to(device, copy=True), Slopes(problem, self.weight_decay)
        models, scratch = params.view(-1, params.shape[-1]), moved(scratch, device)
        states = [self._state(model, _of_model(memory, place)) for place, model in enumerate(models)]
        batches: dict[int, tuple[Tensor, ...]] = {}

        def batch(draw: int) -> Tensor:
            if draw not in batches:
                name = f"{problem.training} draw {draw}" if draw else problem.training
                batches[draw] = self.batches(replace(problem, training=name), server.round)
            return batches[draw][steps]

        for _ in range(self.count(problem.party.samples)):
            slopes.begin(batch)
            grads, scratch = direction(Step(params, slopes, scratch, lr))
            for model, grad, state in zip(models, grads.view_as(models), states, strict=True):
                self.step(model, grad, state, lr)
            steps += 1
        local = self.local(problem, start, params.cpu(), steps, lr, slopes.loss / steps)
        kept = {f"{place}-{name}": value.cpu() for place, each in enumerate(states) for name, value in each.items()}
        scratch = {name: value.cpu() for name, value in scratch.items()}
        return replace(local, scratch=scratch), kept if self.keep_momentum else {}

    def _state(self, params: Vector, memory: Memory) -> dict[str, Vector]:
        """Return the state at the start of a round: a copy of the memory, or the initial one."""
        if not memory:
            return self.initial(params)
        return {name: value.to(params.device if value.dim() else "cpu", copy=True) for name, value in memory.items()}

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
            self.reach(steps),
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
        """The learning rate of the first round, as it would be without a warm-up."""
        return first_value(self.lr)

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
        return self.visits(problem.party, problem.seed, round, problem.purpose)

    def visits(
        self, party: Party, seed: int, round: int, purpose: Callable[[str], str] = str
    ) -> tuple[Tensor, list[int]]:
        """Return the row numbers of a party in the order of visits in a round, and the sizes of its batches.

        `purpose` makes the name of a random stream from "order" or "pass".
        """
        rows, size = party.rows.numpy(), self.batch or party.samples
        whole, rest = divmod(len(rows), size)
        sizes = [size] * whole + [rest] * (rest > 0)  # of one pass
        if self.steps is None:
            order = stream(seed, purpose("order"), round, party.id)
            return _tensor([order.permutation(rows) for _ in range(self.epochs)]), sizes * self.epochs
        # A number of steps: continue in the pass where the last round stopped, which follows from the round alone.
        first, skipped = divmod(round * self.steps, len(sizes))
        passes = range(first, first - (-(skipped + self.steps) // len(sizes)))
        visited = _tensor([_in_pass(party, seed, purpose("pass"), number) for number in passes])
        sizes = sizes * len(passes)
        begin, chosen = sum(sizes[:skipped]), sizes[skipped : skipped + self.steps]
        return visited[begin : begin + sum(chosen)], chosen


def _of_model(memory: Memory, place: int) -> Memory:
    """Return the state of the model at a place, from the memory of several."""
    begin = f"{place}-"
    return {name.removeprefix(begin): value for name, value in memory.items() if name.startswith(begin)}


def _in_pass(party: Party, seed: int, purpose: str, number: int) -> NDArray[np.int64]:
    """Return the rows of a party in the order of a pass. It is cached, because a round may be a single step of it."""
    key = (seed, purpose, number)
    if key not in party.order_of_pass:
        party.order_of_pass.clear()
        party.order_of_pass[key] = stream(seed, purpose, number, party.id).permutation(party.rows.numpy())
    return party.order_of_pass[key]


def _tensor(parts: list[NDArray[np.int64]]) -> Tensor:
    return torch.from_numpy(parts[0] if len(parts) == 1 else np.concatenate(parts))


def _tried(solver: Solver, origin: Origin) -> None:
    """Take a step of a plugin's solver, so that its errors come before the first round."""
    params = torch.zeros(3)
    initial = hooked(solver.initial, "initial", origin, Form("params", _is_state))
    step = hooked(solver.step, "step", origin, Form("params, grad, state, lr", _is_in_place))
    with torch.no_grad():
        step(params, torch.ones(3), initial(params), 0.1)


def _is_state(value: Any, arguments: Sequence[Any]) -> str | None:
    return tensors(value, "the state of the solver")


def _is_in_place(value: Any, arguments: Sequence[Any]) -> str | None:
    return None if value is None else f"{described(value)}, but None is expected: change params and state in place"


SOLVERS: Registry[Solver] = Registry("solver", Contract(Solver, "an sb.Solver", trial=_tried), SCHEDULES)


def check_passes(kind: str, epochs: int, steps: int | None, default: int = _EPOCHS) -> None:
    """Refuse both a number of epochs and a number of steps; a full spec states the default of epochs beside steps."""
    if steps is not None and epochs != default:
        raise SpecError(f"{kind}: steps={steps} and epochs={epochs} were both given: give one of them.")


def keep_argument(kind: str) -> str | None:
    """Return the argument of a kind of solver that keeps its state between rounds; None if it has none."""
    arguments = inspect.signature(SOLVERS.factories[kind]).parameters if kind in SOLVERS.factories else ()
    return next((name for name in arguments if name.startswith("keep_")), None)
