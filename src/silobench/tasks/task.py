"""`Task`: a network with its objective. Solvers train it, and federations hold the data."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.models import MODELS, Classifier, CustomLoss, Network, Sizes
from silobench.tasks.objectives import OBJECTIVES, Objective, plain
from silobench.tasks.score import Score
from silobench.vectors import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # parameters and buffers of a network


@dataclass(frozen=True)
class Task:
    """A network to train for an objective.

    `initial` and `buffers` are the parameters and statistics at which every run of a seed starts.
    """

    network: Network
    initial: Vector
    buffers: Vector
    objective: Objective = field(default_factory=plain)

    @property
    def device(self) -> str:
        """The type of the device that the network is on."""
        return str(self.network.params.device.type)

    def to(self, device: str) -> "Task":
        """Return the task with its network on a device. The model at which runs start stays on the CPU."""
        return replace(self, network=self.network.to(device))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss at the network's current parameters: the objective's, or the network's own."""
        module = self.network.module
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


def task(model: str, dataset: Dataset, seed: int = 0, objective: str = "auto") -> Task:
    """Build the network of a model spec, such as ``"mlp(32, 16, 8)"``, for a dataset and an objective."""
    fitted = OBJECTIVES.build(objective)(dataset)
    sizes = Sizes(dataset.shape, fitted.outputs(dataset), len(dataset.vocabulary))
    try:
        network = Network(MODELS.build(model).build(sizes, seed))
    except (RuntimeError, MemoryError) as error:  # torch raises either if memory is not enough
        raise ConfigError(f"the model {model} cannot be built for rows of shape {dataset.shape}: {error}.") from error
    if dataset.task == "verification" and not isinstance(network.module, Classifier):
        raise ConfigError(
            f"the model {model} has no separate `features`, by which two images of {dataset.name} are compared: "
            "make it a silobench.models.Classifier, or use face-cnn."
        )
    if isinstance(network.module, CustomLoss) and not fitted.is_cross_entropy:
        raise ConfigError(
            f"the model {model} has its own loss for classes, but the objective of {dataset.name} is {fitted.name}: "
            "use a model without its own loss, such as cnn or mlp."
        )
    return Task(network, network.params.clone(), network.buffers.clone(), fitted)
