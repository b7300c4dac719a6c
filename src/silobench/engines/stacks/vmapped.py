"""Train many parties as one batched computation of any network: `torch.func.vmap` over their parameters.

The parties are the leading axis of every array, as in `stack`: those with most steps come first, and a batch that is
shorter than the longest one of its step is padded with rows of weight 0. So each row must count by itself: a network
that mixes rows (BatchNorm) or draws random numbers (dropout) is refused by `trial_failure`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from silobench.engines.stacks.members import Member, Schedule
from silobench.engines.stacks.replies import train_together
from silobench.method.solvers import Solver
from silobench.method.types import Local, Memory, Pull, Vector, at
from silobench.models import Network
from silobench.models.plain import plain_layers
from silobench.tasks.task import Task
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply

_ROUNDING = 1e-3  # of a gradient, relative: far above rounding, and far below what another row changes


def train_vmapped(local_round: LocalRound, memory: Mapping[int, PartyMemory]) -> list[Reply]:
    """Train the parties in `memory` by vmap; return their replies, as one reply if only their sum is needed."""
    return train_together(local_round, memory, _walk)


@dataclass(frozen=True)
class _Trained:
    """Parties after their last step, on the CPU, with the mean loss and the number of steps of each."""

    ends: Vector  # [parties, d]
    velocities: Vector
    losses: list[float]
    steps: list[int]
    lr: float

    def local(self, place: int, member: Member, solver: Solver) -> tuple[Local, Memory]:
        end, velocity = self.ends[place].clone(), self.velocities[place].clone()
        local = solver.local(member.problem, member.start, end, self.steps[place], self.lr, self.losses[place])
        return local, {"momentum": velocity} if solver.keep_momentum else {}

    def sum_of_deltas(self, members: Sequence[Member], weights: Sequence[float]) -> Vector:
        starts = torch.stack([member.start for member in members])
        return torch.tensor(weights, dtype=starts.dtype) @ (self.ends - starts)


def _walk(local_round: LocalRound, members: Sequence[Member]) -> _Trained:
    """Take every step of every party."""
    setting, server, schedule = local_round.setting, local_round.server, Schedule.of(local_round, members)
    network, solver, lr = setting.task.network, setting.solver, at(setting.solver.lr, server)
    device, width = network.params.device, schedule.rows.shape[2]
    params = torch.stack([member.start for member in members]).to(device)
    velocity = _rows([member.velocity for member in members], params)
    velocity = torch.zeros_like(params) if velocity is None else velocity
    pulls, losses = _Pulls.of([member.pull for member in members], params), torch.zeros(len(members), device=device)
    for rows, weights, count in zip(schedule.rows, schedule.weights.to(device), schedule.active, strict=True):
        batch = setting.federation.batch(rows[:count].flatten())
        x, y = (each.to(device).unflatten(0, (count, width)) for each in batch)
        grad, loss = gradients(setting.task, params[:count], x, y, weights[:count, 0])
        losses[:count] += loss
        grad.add_(params[:count], alpha=solver.weight_decay)
        pulls.add_to(grad, params[:count])
        velocity[:count].mul_(solver.momentum).add_(grad)
        params[:count].add_(velocity[:count], alpha=-lr)
        if pulls.drift is not None:
            params[:count].add_(pulls.drift[:count], alpha=-lr)
    means = [loss / steps for loss, steps in zip(losses.cpu().tolist(), schedule.steps, strict=True)]
    return _Trained(params.cpu(), velocity.cpu(), means, schedule.steps, lr)


def gradients(task: Task, params: Vector, x: Tensor, y: Tensor, weights: Tensor) -> tuple[Vector, Tensor]:
    """Return the gradient [parties, d] and the loss [parties] of each party, at its parameters [parties, d].

    `x` and `y` are the rows of the parties, [parties, rows, ...], and `weights` what each counts in the party's loss.
    """
    layout, module, objective = task.network.layout, task.network.module, task.objective
    sizes = [shape.numel() for shape in layout.shapes]

    def row_loss(output: Tensor, label: Tensor) -> Tensor:
        return objective.loss(output.unsqueeze(0), label.unsqueeze(0))

    def loss(flat: Vector, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        parts = zip(layout.names, layout.shapes, flat.split(sizes), strict=True)  # its gradient is one concatenation
        outputs = functional_call(module, {name: part.view(shape) for name, shape, part in parts}, (x,))
        return (vmap(row_loss)(outputs, y) * weight).sum()

    with plain_layers():
        return vmap(grad_and_value(loss), randomness="error")(params, x, y, weights)


@dataclass(frozen=True)
class _Pulls:
    """The pulls of the parties, [parties, d] each; None where no party has that part."""

    strength: Tensor | None  # [parties, 1]
    anchor: Vector | None
    linear: Vector | None
    drift: Vector | None

    @classmethod
    def of(cls, pulls: Sequence[Pull], params: Vector) -> "_Pulls":
        strength = torch.tensor([[pull.strength] for pull in pulls], dtype=params.dtype).to(params.device)
        parts = (_rows([getattr(pull, name) for pull in pulls], params) for name in ("anchor", "linear", "drift"))
        return cls(strength if any(pull.strength for pull in pulls) else None, *parts)

    def add_to(self, grad: Vector, params: Vector) -> None:
        """Add the pulls of the first parties to their gradients."""
        count = len(grad)
        if self.strength is not None:
            away = params if self.anchor is None else params - self.anchor[:count]
            grad.addcmul_(away, self.strength[:count].expand_as(away))
        if self.linear is not None:
            grad.add_(self.linear[:count])


def _rows(vectors: Sequence[Vector | None], params: Vector) -> Vector | None:
    """Return vectors (None for zeros) as [parties, d] on the device of `params`; None if all are None."""
    if all(vector is None for vector in vectors):
        return None
    zeros = torch.zeros(params.shape[1], dtype=params.dtype)
    return torch.stack([zeros if vector is None else vector for vector in vectors]).to(params.device)


# --- what a network allows, from a trial --------------------------------------------------------------


@dataclass(frozen=True)
class _Trial:
    failure: str | None
    row_bytes: int


_trials: "WeakKeyDictionary[Network, _Trial]" = WeakKeyDictionary()


def trial_failure(setting: Setting) -> str | None:
    """Return why the network cannot be trained for many parties at once, or None if it can.

    Two parties take one step each, the second with a row of padding. Their gradients must be those of PyTorch.
    """
    return _trial(setting).failure


def bytes_of_row(setting: Setting) -> int:
    """Return how many bytes of a row's values PyTorch stores for the backward pass of the network."""
    return _trial(setting).row_bytes


def _trial(setting: Setting) -> _Trial:
    network = setting.task.network
    if network not in _trials:
        with setting.task.settled():
            _trials[network] = _tried(setting)
    return _trials[network]


def _tried(setting: Setting) -> _Trial:
    """Compare the gradients of two parties, and count the bytes that a row needs."""
    task, device = setting.task, setting.task.network.params.device
    x, y = (each.to(device) for each in setting.federation.batch(torch.tensor([0, 1])))
    starts = torch.stack([task.initial, task.initial / 2]).to(device)
    weights = torch.tensor([[0.5, 0.5], [0.0, 1.0]], dtype=starts.dtype).to(device)
    try:
        ours, _ = gradients(task, starts, torch.stack([x, x]), torch.stack([y, y]), weights)
        row_bytes = [0]
        theirs = torch.stack([_gradient(task, starts[0], x, y, row_bytes), _gradient(task, starts[1], x[1:], y[1:])])
    except Exception as error:  # whatever a network raises
        return _Trial(_reason(error), 0)
    if not bool((ours - theirs).norm() <= _ROUNDING * theirs.norm()):
        return _Trial("its answer to a row depends on the other rows of the batch", 0)
    return _Trial(None, row_bytes[0] // len(x))


def _gradient(task: Task, params: Vector, x: Tensor, y: Tensor, stored: list[int] | None = None) -> Vector:
    """Return the gradient of one party by PyTorch; add the bytes of what it stores to `stored`."""
    network = task.network
    network.params.copy_(params)
    network.grad.zero_()

    def counted(tensor: Tensor) -> Tensor:
        if stored is not None:
            stored[0] += tensor.nbytes
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(counted, _same):
        task.loss(x, y).backward()
    return network.grad.clone()


def _same(value: Any) -> Any:
    return value


def _reason(error: Exception) -> str:
    if "random operation" in str(error):
        return "it draws random numbers in each step, as dropout does"
    line = (str(error).strip().splitlines() or ["no reason"])[0].rstrip(".")
    return f"torch.func.vmap fails on it with {type(error).__name__}: {line}"
