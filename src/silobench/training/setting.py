"""`Setting`: method, data and task of a run, and what follows from them for a party's model."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.federation import Federation
from silobench.method.adversaries import Adversary, none
from silobench.method.algorithms import solo
from silobench.method.method import Method
from silobench.method.solvers import Solver, has_sgd_steps
from silobench.method.solvers.sgd import Sgd
from silobench.method.types import STATISTICS, Context, Layout, Server, Update, Vector
from silobench.models import CustomLoss
from silobench.privacy.canaries import Canaries
from silobench.rng import stream, torch_seed
from silobench.spec.arguments import seed_of
from silobench.spec.registry import need_part, part_name
from silobench.tasks.task import Task, Weights
from silobench.training.party_models import PartyModels, filled
from silobench.training.state import PartyMemory

BUFFERS = STATISTICS  # a part of every message besides those of the algorithm; averaged with its weights


@dataclass(frozen=True)
class Setting(PartyModels):
    """The constants of a run: method, federation, task and seed. An engine sends it to workers once."""

    method: Method
    federation: Federation
    task: Task
    seed: int
    needs_each: bool = False  # whether the exchange needs the message of each party, not only their aggregate
    mixes: bool = False  # whether the exchange gives every party a model of its own, under "exchange" in its memory
    cohort: int | None = None  # parties that are expected in a round; None for all
    adversary: Adversary = field(default_factory=none)  # set by `attacked`
    canaries: Canaries | None = None  # of an audit, at one party
    keeps_messages: bool = False  # whether replies have the messages as they are sent, for a real network

    def __post_init__(self) -> None:
        algorithm = part_name(self.method.algorithm, "algorithm")
        if self.method.algorithm.loss is not None and isinstance(self.task.network.module, CustomLoss):
            raise ConfigError(
                f"{algorithm} has a loss of its own (as moon and fedrs have), and so has this model (as face-cnn): "
                "take an algorithm without, such as fedavg, or a model without, such as cnn."
            )

        if self.method.algorithm.loss is not None and not self.task.objective.is_cross_entropy:
            raise ConfigError(
                f"{algorithm} has a loss of its own for classes (as moon and fedrs have), but the objective is "
                f"{self.task.objective.name}: take an algorithm without, such as fedavg."
            )

        if reason := self.method.solver.refuses_network(self.task.network.module):
            raise ConfigError(reason)

    @cached_property
    def malicious(self) -> frozenset[int]:
        """The parties that do what the adversary wants."""
        return frozenset(self.adversary.parties(len(self.federation.parties), self.seed))

    def attacked(self, adversary: Adversary) -> "Setting":
        """Return the setting with an adversary; its malicious parties train on the labels that it gives them."""
        attacked, labels = replace(self, adversary=adversary), None
        if adversary.labels is not None and attacked.malicious:
            labels = _labels_under(adversary, self.federation, attacked.malicious, self.seed)
        if labels is None and self.federation.labels is None:
            return attacked
        return replace(attacked, federation=replace(self.federation, labels=labels))

    @cached_property
    def shared(self) -> Layout:
        """The layout of a message: that of the model without the personal parameters."""
        layout, personal = self.task.network.layout, self.personal
        if personal is None:
            return layout
        return layout.without([name for name in layout.names if personal[layout.slices[name]].any()])

    def initial_server(self) -> Server:
        """Return the server before the first round."""
        initial, method, parties = self.task.initial, self.method, len(self.federation.parties)
        extras, optimizer = method.algorithm.extras(initial), method.server.init(initial)
        return Server(initial, extras, optimizer, 0, parties, {}, self.task.buffers)

    @cached_property
    def solver(self) -> Solver:
        """The method's solver, without its momentum if the algorithm applies momentum itself."""
        solver = self.method.solver
        return solver.without_momentum() if self.method.algorithm.applies_momentum else solver

    @cached_property
    def starts_from_broadcast(self) -> bool:
        """Whether all parties train from the same parameters, those that were broadcast."""
        return self.personal is None and not self.mixes

    @property
    def needs_only_sum(self) -> bool:
        """Whether the server needs nothing but the sum of the messages."""
        return self.method.needs_only_sum and not self.needs_each

    @property
    def is_affine(self) -> bool:
        """Whether parties only run SGD from the broadcast model, on the cross-entropy with at most a pull."""
        is_plain = self.task.objective.is_cross_entropy and has_sgd_steps(self.method.solver)
        return is_plain and self.method.algorithm.is_affine and self.personal is None

    @property
    def expected(self) -> float:
        """The mean number of parties in a round."""
        return float(len(self.federation.parties) if self.cohort is None else self.cohort)

    @cached_property
    def _weights(self) -> tuple[float, float]:
        """Powers of two between which the weights of all messages lie."""
        if not self.method.algorithm.weighs_rows:
            return 1.0, 1.0
        rows = [max(1, party.samples) for party in self.federation.parties]
        return float(1 << min(rows).bit_length() - 1), float(1 << (max(rows) - 1).bit_length())

    def context(
        self, server: Server, party: int = -1, cohort: tuple[int, ...] = (), replied: tuple[int, ...] = ()
    ) -> Context:
        """Return the context of the transforms of a round, at a party or at the server; `placed` adds the rest."""
        least, most = self._weights
        return Context(
            self.seed, server.round, party, self.shared, server.knobs, cohort, replied, weight_bound=most,
            least_weight=least, parties=len(self.federation.parties), expected=self.expected,
        )  # fmt: skip

    def rows(self, samples: int) -> int:
        """Return how many rows a party with `samples` rows visits in a round, in all of its trainings."""
        rows, effort = self.solver.rows(samples), self.method.algorithm.effort
        return rows if effort is None else round(samples * effort(rows / samples))

    @cached_property
    def adapting(self) -> "Setting | None":
        """The setting in which parties adapt their models before a test: each trains the model in its memory."""
        adaptation, solver = self.method.algorithm.adaptation, self.method.solver
        if adaptation is None:
            return None
        epochs, lr = adaptation.epochs, adaptation.lr
        if lr is None:
            solver = replace(solver, epochs=epochs, steps=None, keep_momentum=False)
        else:
            solver = Sgd(lr, 0.0, solver.weight_decay, epochs, None, None, keep_momentum=False)
        return Setting(Method(solo(), solver), self.federation, self.task, torch_seed(self.seed, "adaptation"))

    def sent(self, server: Server) -> Server:
        """Return the server as it is broadcast: only the shared part of model and statistics."""
        params = server.params if self.personal is None else server.params[~self.personal]
        buffers = server.buffers if self.buffers == "average" else server.buffers[:0]
        sent = server.broadcast(self.method.algorithm.broadcast)
        is_whole = params is server.params and buffers is server.buffers
        return sent if is_whole else replace(sent, params=params, buffers=buffers)

    def without_personal(self, update: Update) -> tuple[Update, frozenset[str]]:
        """Remove personal entries from every part as long as the model; return also the names of these parts."""
        personal = self.personal
        if personal is None:
            return update, frozenset()
        parts = (*update.total.items(), *update.sums.items())
        names = frozenset(name for name, part in parts if part.shape == personal.shape)
        return _map_parts(update, names, lambda part: part[~personal]), names

    def with_personal(self, update: Update, names: frozenset[str]) -> Update:
        """Put zeros back for the personal entries that were removed from the parts of these names."""
        personal = self.personal
        if personal is None:
            return update
        return _map_parts(update, names, lambda part: filled(personal, part))

    def with_buffers(self, update: Update, buffers: Vector, server: Server) -> Update:
        """Return a message with a party's statistics, or with their change if transforms may leave out some of it."""
        part = buffers - server.buffers if self.method.transforms else buffers
        return replace(update, total={**update.total, BUFFERS: part * update.weight})

    def without_buffers(self, update: Update, server: Server, sent: Server) -> tuple[Update, Vector]:
        """Return the combined message without statistics, and the new statistics of the server.

        Parties may send the change of the statistics that they were `sent`.
        """
        if BUFFERS not in update.total:
            return update, server.buffers
        parts = dict(update.total)
        buffers = parts.pop(BUFFERS) / update.weight
        after = sent.buffers + buffers if self.method.transforms else buffers
        return replace(update, total=parts), self._positive_variances(after) if self.method.has_noise else after

    def _positive_variances(self, buffers: Vector) -> Vector:
        """Return statistics of normalisation layers without the negative variances that noise can lead to."""
        layout, after = self.task.network.layout, buffers.clone()
        for name in layout.slices:
            if name.endswith("running_var"):
                at = layout.slices[name]
                after[at.start - layout.trainable : at.stop - layout.trainable].clamp_(min=0.0)
        return after

    @staticmethod
    def memory_of(model: Weights) -> PartyMemory:
        """Return the memory of a party with this model, for the setting `adapting`."""
        params, buffers = model
        return {"algorithm": {"model": params}, **({"network": {"buffers": buffers}} if buffers.numel() else {})}

    def local_model_at(self, server: Server, memory: PartyMemory) -> Weights:
        """Return a party's model, including local changes that it has not sent."""
        algorithm = self.method.algorithm
        params, buffers = self.model_at(server, memory)
        if algorithm.local_model is not None:
            params = algorithm.local_model(server, self.algorithm_memory(memory))
        for place, transform in enumerate(self.method.transforms):
            unsent = transform.unsent(memory.get(f"transform-{place}", {}))
            if unsent is not None:
                params = params + (unsent if self.personal is None else filled(self.personal, unsent))
        return params, buffers

    def moved_at(self, before: Vector, server: Server, memory: PartyMemory) -> Vector:
        """Return what a party learnt alone; `before` is the shared model before the last round."""
        start = before if self.method.algorithm.local_model_before else server.params
        return self.local_model_at(server, memory)[0] - start


def checked_setting(method: Method, federation: Federation, task: Task, seed: int) -> Setting:
    """Return the setting of a run from Python; raise `ConfigError` for a part of another kind, or that does not fit."""
    need_part(method, Method, "the method", "sb.Method(sb.fedavg())")
    need_part(federation, Federation, "the federation", "sb.federate(data, 'iid', parties=10)")
    need_part(task, Task, "the task", "sb.task('mlp', data)")
    _need_same_rows(task, federation.dataset)
    return Setting(method, federation, task, seed_of(seed))


def _need_same_rows(task: Task, dataset: Dataset) -> None:
    """Raise `ConfigError` for a network that was built for rows of another form than the dataset has."""
    rows = task.rows
    if rows is None:  # the task was put together by hand
        return
    form = (dataset.shape, len(dataset.classes), len(dataset.vocabulary))
    if (rows.shape, len(rows.classes), rows.vocabulary) != form:
        raise ConfigError(
            f"the task is for rows of shape {rows.shape} and {len(rows.classes)} classes, but {dataset.name} has "
            f"rows of shape {dataset.shape} and {len(dataset.classes)} classes: build both from one dataset, as in "
            "sb.task('mlp', data) and sb.federate(data, 'iid')."
        )


def _labels_under(adversary: Adversary, federation: Federation, parties: Iterable[int], seed: int) -> NDArray[np.int64]:
    """Return the labels of all training rows, with those of malicious parties changed; shared rows keep theirs."""
    dataset = federation.dataset
    if dataset.task != "classification":
        raise ConfigError(
            f"{part_name(adversary, 'adversary')} changes labels, but {dataset.name} has no classes (its task is "
            f"{dataset.task}): choose a dataset with classes, or an adversary that changes messages, as sign-flip does."
        )
    assert adversary.labels is not None
    labels = dataset.train.y.copy()
    for party in sorted(parties):
        rows = np.setdiff1d(federation.parties[party].rows.numpy(), federation.partition.shared)
        rng = stream(seed, "adversary labels", party=party)
        labels[rows] = adversary.labels(labels[rows], len(dataset.classes), rng)
    return labels


def _map_parts(update: Update, names: frozenset[str], change: Callable[[Vector], Vector]) -> Update:
    def changed(parts: Mapping[str, Vector]) -> dict[str, Vector]:
        return {name: change(part) if name in names else part for name, part in parts.items()}

    return replace(update, total=changed(update.total), sums=changed(update.sums))
