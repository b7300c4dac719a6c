"""Split learning: each party trains a bottom network, and the label holder a top network over their activations.

For every batch, parties without labels send the activations of their bottom networks and get the gradients of the loss
back. Without transforms and defences, the result is that of the same network trained in one place, bit for bit: the
same operations are done in the same order, only by different owners.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from silobench.errors import ConfigError
from silobench.loop.timeline import Timeline
from silobench.method.solvers import SOLVERS, Solver
from silobench.method.types import Phase, Server, Vector, at
from silobench.models import Network
from silobench.rng import torch_seed
from silobench.spec.registry import part_name
from silobench.training.state import State
from silobench.vertical.crossing import Batch, Carried, Crossing, present_rows, spread
from silobench.vertical.defences import Defence
from silobench.vertical.encrypted import SCHEMES, EncryptedCrossing, Encryption
from silobench.vertical.leaks import CutView
from silobench.vertical.methods.method import VERTICAL_METHODS, Trained, VerticalMethod, VerticalProblem
from silobench.vertical.networks import SplitNetwork
from silobench.vertical.networks.cuts import Sum

_BOTTOM, _TOP = "bottom", "top"  # owners of a solver's memory at a party
_UP, _DOWN = "activations", "gradients"  # phases of messages


@dataclass(frozen=True)
class Split(VerticalMethod):
    """Split learning; see `split`."""

    defence: Defence = field(default_factory=Defence)
    solvers: tuple[str, ...] = ()
    encryption: Encryption = "none"

    def check(self, problem: VerticalProblem) -> None:
        classes = len(problem.federation.dataset.classes)
        if reason := self.defence.refuses(classes):
            raise ConfigError(reason)
        self.solvers_of(problem)
        if self.encryption != "none":
            _need_sum(problem)
        for key, chain in (("transforms", problem.transforms), ("broadcast", problem.broadcast)):
            for transform in chain:
                _need_memoryless(key, transform)

    def solvers_of(self, problem: VerticalProblem) -> tuple[Solver, ...]:
        """Return the solver of each party; that of the label holder also moves the top network."""
        parties = len(problem.federation.deal)
        if not self.solvers:
            return (problem.solver,) * parties
        if len(self.solvers) != parties:
            raise ConfigError(
                f"split has {len(self.solvers)} solvers for {parties} parties: give one for each party, in the order "
                f"{', '.join(problem.federation.names)}."
            )
        return tuple(_checked(SOLVERS.build(text)) for text in self.solvers)

    def notes(self, problem: VerticalProblem) -> tuple[str, ...]:
        if self.encryption == "none" or len(problem.federation.others) != 1:
            return ()
        other = problem.federation.names[problem.federation.others[0]]
        return (
            f"{self.encryption} hides activations in their sum over the parties without labels, but {other} is the "
            "only one: the label holder sees what it sends, and encryption only costs time",
        )

    def trainer(self, problem: VerticalProblem) -> "SplitTrainer":
        crossing = Crossing(problem.transforms, problem.broadcast, self.defence)
        if self.encryption != "none" and problem.federation.others:
            crossing = EncryptedCrossing((), problem.broadcast, self.defence, SCHEMES[self.encryption])
        return SplitTrainer(problem, problem.network(), self.solvers_of(problem), crossing)


def _need_sum(problem: VerticalProblem) -> None:
    """Refuse choices under which activations cannot be added up under encryption."""
    if problem.transforms:
        raise ConfigError(
            "encryption adds up activations as they are, so transforms cannot come before it: leave one of them out."
        )
    if not isinstance(problem.network().head.cut, Sum):
        raise ConfigError(
            "encryption lets the label holder see only the sum of activations, which needs a model with cut=sum: write "
            'model = "mlp(cut=sum)", or use linear.'
        )
    if problem.federation.deal.absent == "embedding":
        raise ConfigError(
            "encryption adds up the activations of the same rows, but with absent=embedding parties send only the rows "
            "that they have: use absent=zeros or absent=drop."
        )


def _checked(solver: Solver) -> Solver:
    """Refuse a solver that does more than steps along the gradient of a batch."""
    if type(solver).gradients is not Solver.gradients or type(solver).release is not Solver.release:
        raise ConfigError(
            f"{part_name(solver, 'solver')} needs the gradients of single rows of a whole network, which no party has "
            "here: use sgd or adam."
        )
    return solver


def _need_memoryless(key: str, transform: Any) -> None:
    """Refuse a transform that needs the same entries in every message, or a sum over parties."""
    name = part_name(transform, "transform")
    if transform.keeps_rest or transform.settle is not None:
        raise ConfigError(
            f"{key} has {name}, which sends later what it leaves out now, but every batch has other rows: write "
            f"feedback=false in it, or leave it out."
        )
    if (
        transform.needs_decoding
        or transform.hides
        or transform.equal_weights
        or transform.adapt is not None
        or transform.reveal is not None
    ):
        raise ConfigError(
            f"{key} has {name}, which is for sums of parties' updates, but activations and gradients of single rows "
            "cross the cut: use quantize, top_k, rand_k, sign, low_rank or clip."
        )


@dataclass
class _Traffic:
    """Messages of a round, added up over batches."""

    problem: VerticalProblem
    timeline: Timeline
    clock: float = 0.0
    dense: dict[str, int] = field(default_factory=lambda: {_UP: 0, _DOWN: 0})
    sizes: dict[str, dict[int, int]] = field(default_factory=lambda: {_UP: {}, _DOWN: {}})
    messages: dict[str, int] = field(default_factory=lambda: {_UP: 0, _DOWN: 0})
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "encode": 0.0, _UP: 0.0, _DOWN: 0.0})
    reports: dict[str, list[float]] = field(default_factory=dict)

    def work(self, seconds: Sequence[float], rows: int, share: float) -> None:
        """Add work that parties do side by side: measured, or `share` of what the clock says for these rows."""
        clock, seed = self.problem.clock, self.problem.seed
        if clock.speed is not None:
            seconds = [share * clock.computing(rows, party, seed) for party in range(len(seconds))]
            self.clock += max(seconds)
        self.timeline.at_parties("train", seconds)
        self.seconds["train"] += sum(seconds)

    def add(self, phase: str, carried: Carried) -> None:
        """Add the messages of a batch in one direction, which cross side by side."""
        link, seed, parties = self.problem.link, self.problem.seed, len(carried.sizes)
        if not parties:
            return
        self.timeline.at_parties("encode", list(carried.encode.values()))
        self.timeline.at_parties("encrypt", list(carried.encrypt.values()))
        crossing = [link.transfer(size, party, seed, parties) for party, size in carried.sizes.items()]
        self.timeline.messages(crossing)
        self.timeline.at_parties("aggregate", [carried.decode])
        self.clock += max(crossing)
        self.dense[phase] += carried.dense
        for party, size in carried.sizes.items():
            self.sizes[phase][party] = self.sizes[phase].get(party, 0) + size
            self.messages[phase] += size > 0
        spent = sum(carried.encode.values()) + sum(carried.encrypt.values()) + carried.decode
        self.seconds["encode"] += spent
        self.seconds[phase] += spent
        for name, value in carried.reports.items():
            self.reports.setdefault(name, []).append(value)

    @property
    def phases(self) -> tuple[Phase, ...]:
        up = Phase(_UP, up=self.sizes[_UP], messages=self.messages[_UP], seconds=self.seconds[_UP])
        return up, Phase(_DOWN, down=self.sizes[_DOWN], messages=self.messages[_DOWN], seconds=self.seconds[_DOWN])


@dataclass
class SplitTrainer:
    """The training of a split network. Its networks are scratch: every round starts from the state that it is given."""

    problem: VerticalProblem
    network: SplitNetwork
    solvers: tuple[Solver, ...]
    crossing: Crossing

    def __post_init__(self) -> None:
        self.bottoms = [Network(bottom) for bottom in self.network.bottoms]
        self.head = Network(self.network.head)
        self._initial = self._gathered()

    @property
    def parts(self) -> list[tuple[str, int, Network]]:
        """The flat networks with their owners: a bottom of each party, and the head of the label holder."""
        bottoms = [(_BOTTOM, party, network) for party, network in enumerate(self.bottoms)]
        return [*bottoms, (_TOP, self.problem.federation.label, self.head)]

    @property
    def size(self) -> int:
        return len(self._initial[0])

    def initial(self) -> State:
        params, buffers = (vector.clone() for vector in self._initial)
        return State(Server(params, {}, {}, 0, len(self.bottoms), {}, buffers))

    def module(self, state: State) -> SplitNetwork:
        self._spread(state.server)
        return self.network

    def round(self, state: State, knobs: Mapping[str, float]) -> Trained:
        problem, server = self.problem, Server(torch.zeros(0), {}, {}, state.server.round, len(self.bottoms), knobs)
        self._spread(state.server)
        states = [self._solver_state(state, owner, party, network) for owner, party, network in self.parts]
        rates = [at(solver.lr, server) for solver in self.solvers]
        traffic = _Traffic(problem, Timeline(len(self.bottoms), has_server=False))
        rows, sizes = problem.solver.visits(problem.federation.visitor, problem.seed, server.round)
        total_loss = torch.zeros(())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(torch_seed(problem.seed, "split", server.round))
            self.network.train()
            for step, batch in enumerate(rows.split(sizes)):
                total_loss += self._backward(batch, Batch(problem.seed, server.round, step), traffic)
                self._step(states, rates, traffic)
        memory: dict[int, dict[str, Any]] = {}
        for (owner, party, _), after in zip(self.parts, states, strict=True):
            memory.setdefault(party, {})[owner] = after
        params, buffers = self._gathered()
        return Trained(
            params, buffers, memory, float(total_loss) / len(sizes), len(sizes), len(rows), traffic.phases,
            (traffic.dense[_UP], traffic.dense[_DOWN]), traffic.clock, traffic.timeline,
            {"train": traffic.seconds["train"], "encode": traffic.seconds["encode"]},
            {name: float(np.mean(values)) for name, values in traffic.reports.items()},
        )  # fmt: skip

    def view(self, state: State, rows: Tensor) -> CutView | None:
        if not self.problem.federation.others:
            return None
        self._spread(state.server)
        self.network.eval()
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
        x, y = federation.x[rows], federation.y[rows]
        _, leaves = self._forward(x, batch)
        self.problem.objective.loss(self.network.head(leaves, self.network.flags(x)), y).backward()
        down = self._down(leaves, x, y, batch)

        def named(tensors: Mapping[int, Tensor]) -> dict[str, Tensor]:
            return {federation.names[party]: tensors[party].detach() for party in federation.others}

        gradients = {p: count * spread(each, self._sent_rows(x, p), count) for p, each in down.arrived.items()}
        seen = self.crossing.seen({party: leaves[party] for party in federation.others})
        inputs = {party: self.network.part(x, party) for party in federation.others}
        return CutView(named(inputs), named(seen), named(gradients), y, len(federation.dataset.classes))

    # --- one batch ------------------------------------------------------------------------------------

    def _backward(self, rows: Tensor, batch: Batch, traffic: _Traffic) -> Tensor:
        """Write the gradients of a batch to all networks, and return its loss."""
        federation = self.problem.federation
        for _, _, network in self.parts:
            network.grad.zero_()
        x, y = federation.x.index_select(0, rows), federation.y[rows]
        activations, leaves = self._forward(x, batch, traffic)
        since = time.perf_counter()
        loss = self.problem.objective.loss(self.network.head(leaves, self.network.flags(x)), y)
        loss.backward()
        traffic.work([time.perf_counter() - since], len(rows), 0.0)
        down = self._down(leaves, x, y, batch)
        traffic.add(_DOWN, down)
        spent = []
        for party, own in enumerate(activations):
            since = time.perf_counter()
            grad = leaves[party].grad if party == federation.label else down.arrived[party]
            self._party_backward(party, x, own, grad)
            spent.append(time.perf_counter() - since)
        traffic.work(spent, len(rows), 0.5)
        return loss.detach()

    def _forward(self, x: Tensor, batch: Batch, traffic: _Traffic | None = None) -> tuple[list[Tensor], list[Tensor]]:
        """Return the activations of each party, and those that arrive at the label holder as leaves of a new graph."""
        federation, activations, spent = self.problem.federation, list[Tensor](), list[float]()
        for party, bottom in enumerate(self.network.bottoms):
            since = time.perf_counter()
            activations.append(bottom(self.network.part(x, party)))
            spent.append(time.perf_counter() - since)
        sent = {party: self._taken(activations[party].detach(), x, party) for party in federation.others}
        carried = self.crossing.up(sent, batch)
        if traffic is not None:
            traffic.work(spent, len(x), 0.5)
            traffic.add(_UP, carried)
        arrived = {p: spread(each, self._sent_rows(x, p), len(x)) for p, each in carried.arrived.items()}
        leaves = [arrived.get(party, own.detach()).clone().requires_grad_() for party, own in enumerate(activations)]
        return activations, leaves

    def _down(self, leaves: Sequence[Tensor], x: Tensor, y: Tensor, batch: Batch) -> Carried:
        gradients, labels = dict[int, Tensor](), dict[int, Tensor]()
        for party in self.problem.federation.others:
            grad = leaves[party].grad
            assert grad is not None
            gradients[party], labels[party] = self._taken(grad, x, party), self._taken(y, x, party)
        return self.crossing.down(gradients, labels, batch)

    def _party_backward(self, party: int, x: Tensor, activations: Tensor, grad: Tensor | None) -> None:
        assert grad is not None
        penalty, is_other = self.crossing.defence.penalty, party != self.problem.federation.label
        grad = spread(grad, self._sent_rows(x, party), len(x)) if is_other else grad
        if penalty is None or not is_other:
            torch.autograd.backward([activations], [grad])
        else:
            torch.autograd.backward([activations, penalty(self.network.part(x, party), activations)], [grad, None])

    def _sent_rows(self, x: Tensor, party: int) -> Tensor | None:
        """Return the rows of a batch that a party sends; None for all. Absent rows have a learnt embedding instead."""
        return present_rows(self.network.flags(x), party) if self.network.head.absence else None

    def _taken(self, tensor: Tensor, x: Tensor, party: int) -> Tensor:
        rows = self._sent_rows(x, party)
        return tensor if rows is None else tensor.index_select(0, rows)

    def _step(self, states: Sequence[dict[str, Vector]], rates: Sequence[float], traffic: _Traffic) -> None:
        spent = [0.0] * len(self.bottoms)
        for (_, party, network), state in zip(self.parts, states, strict=True):
            since, solver = time.perf_counter(), self.solvers[party]
            if solver.weight_decay:
                network.grad.add_(network.params, alpha=solver.weight_decay)
            solver.step(network.params, network.grad, state, rates[party])
            spent[party] += time.perf_counter() - since
        traffic.work(spent, 0, 0.0)

    # --- states ---------------------------------------------------------------------------------------

    def _gathered(self) -> tuple[Vector, Vector]:
        """Return the parameters and the buffers of all networks, one after the other."""
        networks = [network for _, _, network in self.parts]
        return torch.cat([each.params for each in networks]), torch.cat([each.buffers for each in networks])

    def _spread(self, server: Server) -> None:
        """Write a model to all networks."""
        begin = [0, 0]
        for _, _, network in self.parts:
            for place, (source, target) in enumerate(
                ((server.params, network.params), (server.buffers, network.buffers))
            ):
                target.copy_(source[begin[place] : begin[place] + len(target)])
                begin[place] += len(target)

    def _solver_state(self, state: State, owner: str, party: int, network: Network) -> dict[str, Vector]:
        memory = state.memory.get(party, {}).get(owner)
        if not memory:
            return self.solvers[party].initial(network.params)
        return {name: value.clone() for name, value in memory.items()}


@VERTICAL_METHODS.register(specs=("defence",))
def split(
    defence: Defence | None = None, solvers: tuple[str, ...] = (), encryption: Encryption = "none"
) -> VerticalMethod:
    """Split learning: every party trains a bottom network on its columns, and the label holder the top network.

    `defence` changes what crosses the cut, as in ``split(defence=marvell(power=4))``. `solvers` has a solver for each
    party as text in quotation marks, as in ``split(solvers=['adam(lr=0.001)', 'sgd(lr=0.1)'])``; otherwise all have the
    solver of the experiment, which also says how rows are visited. Solvers keep their state between rounds.

    With `encryption`, activations are added up under encryption, and the label holder sees only the sum over the other
    parties: by ckks, by paillier with 31 numbers per ciphertext, or by paillier-unpacked with one. The model needs
    cut=sum. Activations are rounded to multiples of 2^-20. Gradients go back in the clear.
    """
    return Split(defence or Defence(), solvers, encryption)
