"""`Task`: a network with its objective. Solvers train it, and federations hold the data."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.federation import as_input
from silobench.models import MODELS, Classifier, CustomLoss, Model, Network, Sizes, as_model
from silobench.models.devices import deterministic, is_deterministic, prepare_process, type_of
from silobench.models.estimators import LinearEstimator
from silobench.models.modules import Trial, averageable
from silobench.spec.arguments import seed_of
from silobench.spec.registry import need_part
from silobench.tasks.objectives import OBJECTIVES, Objective, plain
from silobench.tasks.objectives.regression import Regression
from silobench.tasks.row_format import RowFormat
from silobench.tasks.score import Score
from silobench.vectors import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # parameters and buffers of a network
_TRIAL_ROWS = 4
_LOSS_ROWS = 100  # on which two losses are compared


@dataclass(frozen=True)
class Task:
    """A network to train for an objective.

    `initial` and `buffers` are the parameters and statistics at which every run of a seed starts.
    """

    network: Network
    initial: Vector
    buffers: Vector
    objective: Objective = field(default_factory=plain)
    rows: RowFormat | None = None  # None if the task was put together without a dataset
    notes: tuple[str, ...] = ()  # about the network, to show before the first round
    weight_decay: float | None = None  # of an estimator: the solver's factor that equals its penalty
    is_deterministic: bool = True  # whether two runs on a GPU must have the same bits

    @property
    def device(self) -> str:
        """The type of the device that the network is on."""
        return str(self.network.params.device.type)

    def to(self, device: str) -> "Task":
        """Return the task with its network on a device. The model at which runs start stays on the CPU.

        On "cuda-nondeterministic" operations may have no deterministic form, so two runs may differ.
        """
        if device != "cpu":
            prepare_process()
        return replace(self, network=self.network.to(type_of(device)), is_deterministic=is_deterministic(device))

    def settled(self) -> "AbstractContextManager[None]":
        """Return a block in which PyTorch computes as the device of the task demands: see `deterministic`."""
        return deterministic(self.device, self.is_deterministic)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss at the network's current parameters: the objective's, or the network's own."""
        return self.loss_of(self.network.module, x, y)

    def loss_of(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a module: the objective's, or the module's own."""
        return module.loss(x, y) if isinstance(module, CustomLoss) else self.objective.loss(module(x), y)

    def evaluate(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> Score:
        """Return the score of a model on all batches together."""
        return sum(self.scores(params, buffers, batches), Score()).judged()

    @torch.no_grad()
    def scores(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> list[Score]:
        """Return the score of a model on each batch."""
        self.network.params.copy_(params)
        self.network.buffers.copy_(buffers)
        self.network.module.eval()
        scores = [self.objective.score_of(self.network.module, x, y) for x, y in batches]
        self.network.module.train()
        return scores


def task(model: Any, dataset: Dataset, seed: int = 0, objective: str = "auto") -> Task:
    """Build the network of a model for a dataset and an objective.

    `model` is a spec, such as ``"mlp(32, 16, 8)"``, a torch.nn.Module, a class or a function that returns one, or a
    linear estimator of scikit-learn: see docs/models.md.
    """
    need_part(dataset, Dataset, "the dataset of a task", "sb.task('mlp', sb.load('digits'))")
    seed = seed_of(seed)
    source = MODELS.build(model) if isinstance(model, str) else as_model(model)
    name = source.name or str(model)
    fitted = _objective_of(source, dataset, objective)
    sizes = Sizes(dataset.shape, fitted.outputs(dataset), len(dataset.vocabulary), dataset.vocabulary)
    try:
        module = source.build(sizes, seed)
        is_custom = not type(module).__module__.startswith("silobench.")
        notes = averageable(module, name) if is_custom else getattr(module, "notes", ())
        network = Network(module)
    except (RuntimeError, MemoryError, TypeError) as error:  # torch raises one of them if memory is not enough
        if isinstance(error, TypeError) and "Overflow" not in str(error):
            raise
        raise ConfigError(f"the model {name} {_build_failure(error, dataset.shape)}") from error
    _check_loss(name, network.module, dataset, fitted)
    decay = None
    if isinstance(source, LinearEstimator):
        source.start(network.module, dataset.classes, *_target_units(fitted))
        decay = source.weight_decay(len(dataset.train) - len(dataset.validation), len(dataset.classes))
    built = Task(network, network.params.clone(), network.buffers.clone(), fitted, RowFormat.of(dataset), notes, decay)
    if not is_custom:
        return built
    trial = _trial(name, built, dataset, sizes.outputs)
    return replace(built, notes=(*notes, *trial.notes(built.loss_of)))


def _build_failure(error: Exception, shape: tuple[int, ...]) -> str:
    text = str(error)
    if isinstance(error, MemoryError) or "allocate" in text or "Overflow" in text:
        return "cannot be built, because it needs more memory than this machine has: choose a smaller one."
    return f"cannot be built for rows of shape {shape}: {text.splitlines()[0].rstrip('.') if text else 'no reason'}."


def _objective_of(model: Model, dataset: Dataset, objective: str) -> Objective:
    """Return the objective for a dataset: an estimator has its own loss, and is for classes or for numbers."""
    if not isinstance(model, LinearEstimator):
        return OBJECTIVES.build(objective)(dataset)
    task = "regression" if model.kind == "numbers" else "classification"
    if dataset.task != task:
        raise ConfigError(
            f"{model.name} predicts {model.kind}, but the task of {dataset.name} is {dataset.task}: use an estimator "
            "that suits it."
        )
    by_estimator = OBJECTIVES.build(model.objective)(dataset)
    if objective == "auto":
        return by_estimator
    chosen = OBJECTIVES.build(objective)(dataset)
    if not _have_same_loss(by_estimator, chosen, dataset):
        name = by_estimator.name if model.objective == "auto" else model.objective
        raise ConfigError(
            f"{model.name} has its own loss, that of the objective {name}, but the objective {objective} has another "
            "one: leave out the objective."
        )
    return chosen


def _have_same_loss(first: Objective, second: Objective, dataset: Dataset) -> bool:
    """Whether two objectives have the same loss on some training rows, for outputs of any sign and size."""
    y = torch.from_numpy(np.array(dataset.train.y[:_LOSS_ROWS]))
    counts = {objective.outputs(dataset) for objective in (first, second)}
    if len(counts) > 1:
        return False
    outputs = torch.linspace(-3, 3, len(y) * max(counts)).reshape(len(y), -1)
    return torch.allclose(first.loss(outputs, y), second.loss(outputs, y))


def _target_units(objective: Objective) -> tuple[float, float]:
    """Return the mean and the scale by which a numeric target is standardised; 0 and 1 for any other."""
    return (objective.mean, objective.scale) if isinstance(objective, Regression) else (0.0, 1.0)


def _check_loss(name: str, module: nn.Module, dataset: Dataset, objective: Objective) -> None:
    if dataset.task == "verification" and not isinstance(module, Classifier):
        raise ConfigError(
            f"the model {name} has no separate `features`, by which two images of {dataset.name} are compared: "
            "make it a silobench.models.Classifier, or use face-cnn."
        )
    if isinstance(module, CustomLoss) and not objective.is_cross_entropy:
        raise ConfigError(
            f"the model {name} has its own loss for classes, but the objective of {dataset.name} is {objective.name}: "
            "use a model without its own loss, such as cnn or mlp."
        )


def _trial(name: str, task: Task, dataset: Dataset, outputs: int) -> Trial:
    """Return the trial of a user's network on a few training rows."""
    x = dataset.train.x[:_TRIAL_ROWS]
    rows = as_input(x if sparse.issparse(x) else torch.from_numpy(np.array(x)))
    y, objective = torch.from_numpy(np.array(dataset.train.y[:_TRIAL_ROWS])), task.objective
    has_softmax = objective.has_classes and objective.has_probabilities
    return Trial(name, task.network.module, rows, y, outputs, objective.name, has_softmax)
