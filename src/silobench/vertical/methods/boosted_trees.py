"""Gradient-boosted trees over columns, and scikit-learn's on the joined table as their reference.

The method is that of SecureBoost (Cheng and others: SecureBoost: A Lossless Federated Learning Framework, IEEE
Intelligent Systems, 2021). The label holder sends the derivatives of the loss to all parties. Every party adds them up
by bins of its columns. The label holder chooses the best split of all parties, and its owner answers which rows go
left. So the label holder learns histograms and sides of rows, but no value of a column and no threshold; the others
learn which rows share a node.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import torch
from annotated_types import Ge, Le
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.method.types import Memory, Server
from silobench.privacy.encryption.scheme import package
from silobench.spec.ranges import Count, NonNegative, Positive
from silobench.tasks.objectives.regression import Regression
from silobench.training.state import State
from silobench.vertical.federation import VerticalFederation
from silobench.vertical.leaks import CutView
from silobench.vertical.methods.method import VERTICAL_ALGORITHMS, Trained, VerticalMethod, VerticalProblem
from silobench.vertical.trees.boosting import Boosting
from silobench.vertical.trees.cipher import HistogramCipher
from silobench.vertical.trees.ensemble import TreeModule, class_outputs
from silobench.vertical.trees.losses import TreeLoss, loss_of
from silobench.vertical.trees.paillier import PaillierHistograms
from silobench.vertical.trees.splits import TreeSettings
from silobench.vertical.trees.traffic import TreeTraffic

_OWNER = "trees"  # of a memory in `State.extra`
_LOSSES = ("binary", "cross-entropy")  # objectives with the log loss
Leaves: TypeAlias = Annotated[int, Ge(2)]
Bins: TypeAlias = Annotated[int, Ge(2), Le(255)]  # a bin number is a byte


@dataclass(frozen=True)
class _TreeMethod(VerticalMethod):
    """What both methods check."""

    settings: TreeSettings

    def has_cut(self, problem: VerticalProblem) -> bool:
        return False

    def check(self, problem: VerticalProblem) -> None:
        objective, dataset = problem.objective, problem.federation.dataset
        is_squared = isinstance(objective, Regression) and objective.kind == "squared" and dataset.target_size == 1
        if not is_squared and objective.name not in _LOSSES:
            raise ConfigError(
                f"boosted trees cannot train for the objective {objective.name} of {dataset.name}: use cross-entropy, "
                "binary, or regression of one number with loss=squared."
            )
        for key, chain in (("transforms", problem.transforms), ("broadcast", problem.broadcast)):
            if chain:
                raise ConfigError(
                    f"{key} are for activations and their gradients, and trees have none: leave {key} out."
                )
        if not any(len(columns) for columns in problem.federation.deal.columns):
            raise ConfigError("boosted trees need a column, but no party has one: deal columns to parties.")


@dataclass(frozen=True)
class BoostedTrees(_TreeMethod):
    """Boosted trees over columns; see `boosted_trees`."""

    encryption: str = "none"

    def check(self, problem: VerticalProblem) -> None:
        super().check(problem)
        if self.encryption != "none":
            package("gmpy2")

    def notes(self, problem: VerticalProblem) -> tuple[str, ...]:
        if self.encryption != "none" or not problem.federation.others:
            return ()
        labels = (
            "their signs show the labels" if problem.objective.has_classes else "they show the labels up to a constant"
        )
        return (f"gradients go to other parties in the clear, and {labels}: encryption=paillier hides them",)

    def facts(self, problem: VerticalProblem) -> dict[str, Any]:
        return {"trees_per_round": _loss(problem).outputs}

    def trainer(self, problem: VerticalProblem) -> "TreeTrainer":
        return TreeTrainer(problem, self.settings, self.encryption)


def _loss(problem: VerticalProblem) -> TreeLoss:
    return loss_of(len(problem.federation.dataset.classes) if problem.objective.has_classes else None)


def _affine(problem: VerticalProblem) -> tuple[float, float]:
    """Return the mean and scale by which an objective standardises its target."""
    objective = problem.objective
    return (objective.mean, objective.scale) if isinstance(objective, Regression) else (0.0, 1.0)


@dataclass
class TreeTrainer:
    """The training of boosted trees. A round continues from its state; what it keeps saves time only."""

    problem: VerticalProblem
    settings: TreeSettings
    encryption: str = "none"

    def __post_init__(self) -> None:
        self._after: Mapping[str, Tensor] | None = None  # the memory of the state that the trees are in
        self._memo: dict[bytes, tuple[int, Any]] = {}

    @property
    def size(self) -> int:
        """The most thresholds and leaf values that all trees can have."""
        return _most_numbers(self.problem, self.settings)

    @cached_property
    def boosting(self) -> Boosting:
        federation = self.problem.federation
        rows, deal = federation.rows, federation.deal
        x, y = federation.x[rows, : federation.features].numpy(), federation.y[rows].numpy()
        presence, loss = deal.train[:, rows.numpy()], _loss(self.problem)
        return Boosting(x, y, deal.columns, presence, loss, deal.label, self.settings, self._cipher())

    def _cipher(self) -> HistogramCipher | None:
        federation = self.problem.federation
        if self.encryption == "none" or not federation.others:
            return None
        widest = max(len(federation.deal.columns[party]) for party in federation.others)
        return PaillierHistograms(len(federation.rows) * max(1, widest))

    def initial(self) -> State:
        return _without_parameters(self.problem)

    def module(self, state: State) -> TreeModule:
        self._restore(state)
        return self._module()

    def _module(self) -> TreeModule:
        federation, has_classes = self.problem.federation, self.problem.objective.has_classes
        module = self.boosting.trees.module(federation.features, *_affine(self.problem), has_classes)
        module.memo = self._memo
        return module

    def _restore(self, state: State) -> None:
        memory = state.extra.get(_OWNER)
        if memory is not self._after:
            if memory is None:
                del self.boosting
            else:
                self.boosting.restore(memory)
            self._after = memory

    def round(self, state: State, knobs: Mapping[str, float]) -> Trained:
        self._restore(state)
        boosting, problem = self.boosting, self.problem
        since, before, visits = time.perf_counter(), boosting.cipher_seconds, boosting.visits
        boosting.round()
        spent = time.perf_counter() - since
        cipher = {phase: seconds - before[phase] for phase, seconds in boosting.cipher_seconds.items()}
        visits = [later - earlier for later, earlier in zip(boosting.visits, visits, strict=True)]
        exchanges = [*(boosting.setup if state.server.round == 0 else ()), *boosting.exchanges]
        traffic = TreeTraffic(
            exchanges, problem.federation.label, len(visits), problem.link, problem.clock, problem.seed
        )
        seconds = traffic.work(spent, cipher, visits)
        self._after = boosting.state()
        loss = _mean_loss(problem, self._module().outputs(torch.from_numpy(boosting.holder.margins)))
        return _trained(problem, loss, traffic, seconds, {_OWNER: self._after})

    def view(self, state: State, rows: Tensor) -> CutView | None:
        return None


def _most_numbers(problem: VerticalProblem, settings: TreeSettings) -> int:
    return problem.rounds * _loss(problem).outputs * (2 * settings.leaves - 1)


def _without_parameters(problem: VerticalProblem) -> State:
    """Return the state before the first round; trees have no vector of parameters."""
    return State(Server(torch.zeros(0), {}, {}, 0, len(problem.federation.deal), {}, torch.zeros(0)))


def _mean_loss(problem: VerticalProblem, outputs: Tensor) -> float:
    """Return the loss of the training rows."""
    return float(problem.objective.loss(outputs, problem.federation.y[problem.federation.rows]))


def _trained(
    problem: VerticalProblem,
    loss: float,
    traffic: TreeTraffic,
    seconds: Mapping[str, float],
    extra: Mapping[str, Memory],
) -> Trained:
    trees, rows, (up, down) = _loss(problem).outputs, len(problem.federation.rows), traffic.dense
    empty = torch.zeros(0)
    return Trained(
        empty, empty.clone(), {}, loss, trees, rows * trees, traffic.phases, (up, down), traffic.clock,
        traffic.timeline, seconds, extra=extra, slowest=traffic.slowest, computing=traffic.computing,
    )  # fmt: skip


@dataclass(frozen=True)
class JoinedTrees(_TreeMethod):
    """Boosted trees of scikit-learn on the joined table; see `joined_trees`."""

    def check(self, problem: VerticalProblem) -> None:
        super().check(problem)
        federation, classes = problem.federation, len(problem.federation.dataset.classes)
        if problem.objective.has_classes and len(federation.y[federation.rows].unique()) < classes:
            raise ConfigError(
                f"the training rows do not have all {classes} classes of {federation.dataset.name}, which joined-trees "
                "needs: take more rows, or another seed."
            )

    def trainer(self, problem: VerticalProblem) -> "JoinedTrainer":
        return JoinedTrainer(problem, self.settings)


@dataclass
class JoinedTrainer:
    """The training of scikit-learn's trees. All are grown in the first round, and grown again to resume.

    A round adds one stage of the finished model. So the first round has the time of all.
    """

    problem: VerticalProblem
    settings: TreeSettings

    def __post_init__(self) -> None:
        self._seconds = 0.0  # of training, for the next record
        self._done = 0  # stages that the training rows have passed
        self._stages: Iterator[Tensor] = iter(())  # those to come

    @property
    def size(self) -> int:
        """The most thresholds and leaf values that all trees can have."""
        return _most_numbers(self.problem, self.settings)

    @cached_property
    def estimator(self) -> Any:
        from sklearn import ensemble  # takes a second, and few runs need it

        settings, kind = self.settings, "Classifier" if self.problem.objective.has_classes else "Regressor"
        estimator = getattr(ensemble, f"HistGradientBoosting{kind}")(
            learning_rate=settings.lr, max_iter=self.problem.rounds, max_leaf_nodes=settings.leaves,
            max_depth=settings.depth, min_samples_leaf=settings.min_leaf, l2_regularization=settings.l2,
            max_bins=settings.bins, early_stopping=False, random_state=0,
        )  # fmt: skip
        federation = self.problem.federation
        x, y = _with_gaps(federation, federation.x[federation.rows]), federation.y[federation.rows].numpy()
        since = time.perf_counter()
        estimator.fit(x, y)
        self._seconds = time.perf_counter() - since
        return estimator

    def initial(self) -> State:
        return _without_parameters(self.problem)

    def round(self, state: State, knobs: Mapping[str, float]) -> Trained:
        problem, federation = self.problem, self.problem.federation
        module = JoinedModule(self.estimator, federation, state.server.round + 1, *_affine(problem))
        traffic = TreeTraffic((), 0, len(federation.deal), problem.link, problem.clock, problem.seed)
        visits = [len(federation.rows)] * len(federation.deal)
        seconds = traffic.work(self._seconds, {}, visits)
        self._seconds = 0.0
        return _trained(problem, _mean_loss(problem, self._training_outputs(module)), traffic, seconds, {})

    def _training_outputs(self, module: "JoinedModule") -> Tensor:
        """Return the outputs for training rows; those of one round after another take the time of one tree each."""
        if not 0 < self._done < module.rounds:
            self._done, self._stages = 0, module.stages(self.problem.federation.x[self.problem.federation.rows])
        outputs = next(islice(self._stages, module.rounds - self._done - 1, None))
        self._done = module.rounds
        return outputs

    def module(self, state: State) -> nn.Module:
        return JoinedModule(self.estimator, self.problem.federation, max(1, state.server.round), *_affine(self.problem))

    def view(self, state: State, rows: Tensor) -> CutView | None:
        return None


def _with_gaps(federation: VerticalFederation, x: Tensor) -> NDArray[np.float32]:
    """Return the features of a joint input, with NaN for columns of a party that does not have the row."""
    table: NDArray[np.float32] = x[:, : federation.features].numpy().copy()
    for columns, flags in zip(federation.deal.columns, x[:, federation.features :].T, strict=True):
        table[np.ix_((flags <= 0).numpy(), columns)] = np.nan
    return table


class JoinedModule(nn.Module):
    """The first rounds of a model of scikit-learn, as a function of the joint input."""

    def __init__(self, estimator: Any, federation: VerticalFederation, rounds: int, mean: float, scale: float) -> None:
        super().__init__()
        self.estimator, self.federation, self.rounds = estimator, federation, rounds
        self.mean, self.scale = mean, scale

    def forward(self, x: Tensor) -> Tensor:
        return next(islice(self.stages(x), self.rounds - 1, None))

    def stages(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the outputs after each round."""
        table = _with_gaps(self.federation, x)
        if not hasattr(self.estimator, "classes_"):
            for answers in self.estimator.staged_predict(table):
                yield torch.from_numpy((answers - self.mean) / self.scale).float()[:, None]
            return
        for answers in self.estimator.staged_decision_function(table):
            yield class_outputs(torch.from_numpy(answers.copy()).reshape(len(table), -1))


def _settings(
    leaves: int, lr: float, bins: int, min_leaf: int, l2: float, depth: int | Literal["none"]
) -> TreeSettings:
    return TreeSettings(leaves, lr, bins, min_leaf, l2, None if depth == "none" else depth)


@VERTICAL_ALGORITHMS.register
def boosted_trees(
    leaves: Leaves = 31,
    lr: Positive = 0.1,
    bins: Bins = 255,
    min_leaf: Count = 20,
    l2: NonNegative = 0.0,
    depth: Count | Literal["none"] = "none",
    encryption: Literal["none", "paillier"] = "none",
) -> VerticalMethod:
    """Gradient-boosted trees over columns: parties send histograms, and the label holder chooses splits.

    A round is one tree, or one per class with three or more classes. Trees are those of scikit-learn's
    HistGradientBoosting on the joined table. Columns of a row that a party does not have are missing values: they go
    left or right in a split as training shows. The model and the solver of the experiment are not used.

    A tree has at most `leaves` leaves with at least `min_leaf` rows each, and at most `depth` levels. A column has at
    most `bins` bins. `l2` shrinks leaf values. Gradients go to the other parties in the clear, from which these can
    find labels, or with `encryption` under Paillier's scheme; row counts of bins and sides of rows stay in the clear.
    """
    return BoostedTrees(_settings(leaves, lr, bins, min_leaf, l2, depth), encryption)


@VERTICAL_ALGORITHMS.register
def joined_trees(
    leaves: Leaves = 31,
    lr: Positive = 0.1,
    bins: Bins = 255,
    min_leaf: Count = 20,
    l2: NonNegative = 0.0,
    depth: Count | Literal["none"] = "none",
) -> VerticalMethod:
    """Gradient-boosted trees of scikit-learn (HistGradientBoosting) on the joined table: a reference for trees.

    Arguments are those of boosted-trees. A round is one tree, or one per class. Early stopping is off.
    """
    return JoinedTrees(_settings(leaves, lr, bins, min_leaf, l2, depth))
