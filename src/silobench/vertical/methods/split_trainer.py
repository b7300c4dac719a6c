"""`SplitTrainer`: the rounds of split learning, batch by batch."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from silobench.loop.timeline import Timeline
from silobench.method.solvers import Solver
from silobench.method.types import Server, Vector, at
from silobench.models import Network
from silobench.models.devices import seed_torch
from silobench.rng import torch_seed
from silobench.training.state import State
from silobench.vertical.crossing import Batch, Carried, Crossing, sent_rows, spread, taken
from silobench.vertical.leaks import CutView
from silobench.vertical.methods.method import Trained, VerticalProblem
from silobench.vertical.networks import SplitNetwork
from silobench.vertical.served import ServedNetwork
from silobench.vertical.traffic import DOWN, UP, Traffic

_BOTTOM, _TOP = "bottom", "top"  # owners of a solver's memory at a party
_SolverState: TypeAlias = dict[str, Vector]


@dataclass(frozen=True)
class _Part:
    """A part of the model: the bottom network of a party, or the head of the label holder."""

    owner: str
    party: int
    params: Vector  # a slice of those of the whole model
    grad: Vector


@dataclass
class _Forward:
    """A batch at the cut: the activations of each party, and what arrives of them, as leaves of a new graph."""

    x: Tensor
    sent: dict[int, Tensor | None]  # the rows that a party sends; None for all
    activations: list[Tensor]
    leaves: list[Tensor]


@dataclass
class SplitTrainer:
    """The training of a split network. Its network is scratch: every round starts from the state that it is given."""

    problem: VerticalProblem
    network: SplitNetwork
    solvers: tuple[Solver, ...]  # by party
    crossing: Crossing

    def __post_init__(self) -> None:
        self.whole = Network(self.network)
        self._initial = self.whole.params.clone(), self.whole.buffers.clone()

    @cached_property
    def parts(self) -> list[_Part]:
        """The bottom of each party, and then the head: their parameters follow one another in the whole model."""
        owners = [(_BOTTOM, party, bottom) for party, bottom in enumerate(self.network.bottoms)]
        parts, begin = [], 0
        for owner, party, module in [*owners, (_TOP, self.problem.federation.label, self.network.head)]:
            end = begin + sum(each.numel() for each in module.parameters() if each.requires_grad)
            parts.append(_Part(owner, party, self.whole.params[begin:end], self.whole.grad[begin:end]))
            begin = end
        return parts

    @property
    def size(self) -> int:
        return len(self.whole.params)

    def initial(self) -> State:
        params, buffers = (vector.clone() for vector in self._initial)
        return State(Server(params, {}, {}, 0, len(self.network.bottoms), {}, buffers))

    def module(self, state: State) -> nn.Module:
        network, problem = self._at(state), self.problem
        if not (problem.transforms or self.crossing.defence.activations) or not problem.federation.others:
            return network
        crossing = Crossing(problem.transforms, defence=self.crossing.defence)
        return ServedNetwork(network, crossing, problem.federation.label, problem.seed, state.server.round)

    def _at(self, state: State) -> SplitNetwork:
        """Return the network with the parameters of a state."""
        self.whole.params.copy_(state.server.params)
        self.whole.buffers.copy_(state.server.buffers)
        return self.network

    def round(self, state: State, knobs: Mapping[str, float]) -> Trained:
        problem, federation, round = self.problem, self.problem.federation, state.server.round
        self._at(state).train()
        states = [self._solver_state(state, part) for part in self.parts]
        server = Server(torch.zeros(0), {}, {}, round, len(federation.names), knobs)
        rates = [at(solver.lr, server) for solver in self.solvers]
        timeline = Timeline(len(federation.names), has_server=False)
        traffic = Traffic(problem.link, problem.party_clock, problem.seed, timeline)
        if round == 0:
            traffic.add_keys(federation.others, self.crossing.key_size)
        rows, sizes = problem.solver.visits(federation.visitor, problem.seed, round)
        total_loss = torch.zeros(())
        with torch.random.fork_rng(devices=[]):
            seed_torch(torch_seed(problem.seed, "split", round))
            for step, batch in enumerate(rows.split(sizes)):
                total_loss += self._backward(batch, Batch(problem.seed, round, step), traffic)
                self._step(states, rates, traffic)
        loss = float(total_loss) / len(sizes)
        return self._trained(states, traffic, loss, len(sizes), len(rows))

    def _trained(self, states: Sequence[_SolverState], traffic: Traffic, loss: float, steps: int, rows: int) -> Trained:
        memory: dict[int, dict[str, Any]] = {}
        for part, after in zip(self.parts, states, strict=True):
            memory.setdefault(part.party, {})[part.owner] = after
        return Trained(
            self.whole.params.clone(),
            self.whole.buffers.clone(),
            memory,
            loss,
            steps,
            rows,
            traffic.phases,
            (traffic.dense[UP], traffic.dense[DOWN]),
            traffic.clock,
            traffic.timeline,
            {"train": traffic.train, "encode": sum(traffic.encode.values())},
            traffic.mean_reports,
            slowest=traffic.slowest,
            computing=traffic.computing,
        )

    def _solver_state(self, state: State, part: _Part) -> _SolverState:
        memory = state.memory.get(part.party, {}).get(part.owner)
        if not memory:
            return self.solvers[part.party].initial(part.params)
        return {name: value.clone() for name, value in memory.items()}

    def view(self, state: State, rows: Tensor) -> CutView | None:
        if not self.problem.federation.others:
            return None
        self._at(state).eval()
        # Defences and transforms depend on the batch, so rows cross in random order and in batches, as in training.
        start = Batch(self.problem.seed, state.server.round, -1)
        order = torch.from_numpy(start.stream("view", 0).permutation(len(rows)))
        batches = rows[order].split(self.problem.solver.batch or len(rows))
        views = [self._view(part, replace(start, step=-1 - place)) for place, part in enumerate(batches)]
        self.network.train()
        return CutView.joined(views)

    def _view(self, rows: Tensor, batch: Batch) -> CutView:
        """Return what crosses for one batch; gradients are those of each row's loss, not of the mean over the batch."""
        federation, count = self.problem.federation, len(rows)
        parties, y = {federation.names[party]: party for party in federation.others}, federation.y[rows]
        cut = self._forward(federation.x[rows], batch)
        self._loss(cut, y).backward()
        arrived = self._down(cut, y, batch).arrived
        seen = self.crossing.seen({party: cut.leaves[party] for party in federation.others})
        return CutView(
            {name: self.network.part(cut.x, party) for name, party in parties.items()},
            {name: seen[party].detach() for name, party in parties.items()},
            {name: count * spread(arrived[party], cut.sent[party], count) for name, party in parties.items()},
            y,
            len(federation.dataset.classes),
        )

    # --- one batch ------------------------------------------------------------------------------------

    def _backward(self, rows: Tensor, batch: Batch, traffic: Traffic) -> Tensor:
        """Write the gradients of a batch to the whole model, and return its loss."""
        federation = self.problem.federation
        self.whole.grad.zero_()
        x, y = federation.x.index_select(0, rows), federation.y.index_select(0, rows)
        cut = self._forward(x, batch, traffic)
        since = time.perf_counter()
        loss = self._loss(cut, y)
        loss.backward()
        traffic.work([time.perf_counter() - since])
        down = self._down(cut, y, batch)
        traffic.add(DOWN, down)
        spent = []
        for party in range(len(cut.activations)):
            since = time.perf_counter()
            self._party_backward(cut, party, down)
            spent.append(time.perf_counter() - since)
        traffic.work(spent, len(rows) / 2)
        return loss.detach()

    def _forward(self, x: Tensor, batch: Batch, traffic: Traffic | None = None) -> _Forward:
        """Let parties compute their activations and send them."""
        network, activations, spent = self.network, list[Tensor](), list[float]()
        for party, bottom in enumerate(network.bottoms):
            since = time.perf_counter()
            activations.append(bottom(network.part(x, party)))
            spent.append(time.perf_counter() - since)
        sent = {party: sent_rows(network, x, party) for party in self.problem.federation.others}
        carried = self.crossing.up({p: taken(activations[p].detach(), rows) for p, rows in sent.items()}, batch)
        if traffic is not None:
            traffic.work(spent, len(x) / 2)
            traffic.add(UP, carried)
        leaves = [each.detach() for each in activations]
        for party, tensor in carried.arrived.items():
            leaves[party] = spread(tensor, sent[party], len(x)).detach()
        return _Forward(x, sent, activations, [leaf.requires_grad_() for leaf in leaves])

    def _loss(self, cut: _Forward, y: Tensor) -> Tensor:
        """Return the loss that the label holder computes."""
        return self.problem.objective.loss(self.network.head(cut.leaves, self.network.flags(cut.x)), y)

    def _down(self, cut: _Forward, y: Tensor, batch: Batch) -> Carried:
        """Send parties the gradients of their activations."""
        gradients, labels = dict[int, Tensor](), dict[int, Tensor]()
        for party, rows in cut.sent.items():
            gradients[party], labels[party] = taken(_gradient(cut.leaves[party]), rows), taken(y, rows)
        return self.crossing.down(gradients, labels, batch)

    def _party_backward(self, cut: _Forward, party: int, down: Carried) -> None:
        """Write the gradients of a party's bottom network."""
        activations, penalty = cut.activations[party], self.crossing.defence.penalty
        if party not in cut.sent:
            activations.backward(_gradient(cut.leaves[party]))
            return
        gradient = spread(down.arrived[party], cut.sent[party], len(cut.x))
        if penalty is None:
            activations.backward(gradient)
        else:
            added = penalty(self.network.part(cut.x, party), activations)
            torch.autograd.backward([activations, added], [gradient, None])

    def _step(self, states: Sequence[_SolverState], rates: Sequence[float], traffic: Traffic) -> None:
        """Move each part along its gradient."""
        spent = [0.0] * len(self.network.bottoms)
        for part, state in zip(self.parts, states, strict=True):
            since, solver = time.perf_counter(), self.solvers[part.party]
            if solver.weight_decay:
                part.grad.add_(part.params, alpha=solver.weight_decay)
            solver.step(part.params, part.grad, state, rates[part.party])
            spent[part.party] += time.perf_counter() - since
        traffic.work(spent)


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad
