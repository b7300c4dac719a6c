"""`Task`: a network with its loss and its scores. Solvers train it, and federations hold the data."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.models import MODELS, Classifier, CustomLoss, Network, Sizes
from silobench.tasks.score import Counts, Score
from silobench.tasks.verification import Pairs
from silobench.vectors import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # parameters and buffers of a network


@dataclass(frozen=True)
class Task:
    """Classification or verification by a network.

    `initial` and `buffers` are the parameters and statistics at which every run of a seed starts.
    """

    network: Network
    initial: Vector
    buffers: Vector

    @property
    def device(self) -> str:
        """The type of the device that the network is on."""
        return str(self.network.params.device.type)

    def to(self, device: str) -> "Task":
        """Return the task with its network on a device. The model at which runs start stays on the CPU."""
        return replace(self, network=self.network.to(device))

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean cross-entropy at the network's current parameters, or the loss that the network defines."""
        module = self.network.module
        return module.loss(x, y) if isinstance(module, CustomLoss) else F.cross_entropy(module(x), y)

    def evaluate(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> Score:
        """Return the score of a model on all batches together."""
        return sum(self.scores(params, buffers, batches), Score()).judged()

    @torch.no_grad()
    def scores(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> list[Score]:
        """Return the score of a model on each batch. Boolean labels mean that rows are pairs for verification."""
        self.network.params.copy_(params)
        self.network.buffers.copy_(buffers)
        self.network.module.eval()
        scores = [self._score_pairs(x, y) if y.dtype == torch.bool else self._score_rows(x, y) for x, y in batches]
        self.network.module.train()
        return scores

    def _score_rows(self, x: Tensor, y: Tensor) -> Score:
        logits = self.network.module(x)
        hits, rows = (_by_class(labels, logits.shape[1]) for labels in (y[logits.argmax(1) == y], y))
        return Score(hits, float(F.cross_entropy(logits, y, reduction="sum")), rows)

    def _score_pairs(self, x: Tensor, same: Tensor) -> Score:
        """Score pairs ``[n, 2, ...]``. The loss is 1 - similarity for the same person, else max(0, similarity)."""
        module = self.network.module
        assert isinstance(module, Classifier)  # see `task`
        first, second = module.features(x.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        similarity = module.similarity(first, second)
        loss = torch.where(same, 1 - similarity, similarity.clamp_min(0))
        return Score(total_loss=float(loss.sum()), pairs=(Pairs(similarity.cpu().numpy(), same.cpu().numpy()),))


def _by_class(labels: Tensor, classes: int) -> Counts:
    return torch.bincount(labels, minlength=classes).cpu().numpy()


def task(model: str, dataset: Dataset, seed: int = 0) -> Task:
    """Build the network of a model spec, such as ``"mlp(32, 16, 8)"``, for a dataset."""
    if dataset.task == "regression":
        raise ConfigError(
            f"the task of {dataset.name} is {dataset.task}, but models predict classes: "
            "take a dataset of task classification or verification from `silobench data list`."
        )
    sizes = Sizes(dataset.shape, len(dataset.classes), len(dataset.vocabulary))
    try:
        network = Network(MODELS.build(model).build(sizes, seed))
    except (RuntimeError, MemoryError) as error:  # torch raises either if memory is not enough
        raise ConfigError(f"the model {model} cannot be built for rows of shape {dataset.shape}: {error}.") from error
    if dataset.task == "verification" and not isinstance(network.module, Classifier):
        raise ConfigError(
            f"the model {model} has no separate `features`, by which two images of {dataset.name} are compared: "
            "make it a silobench.models.Classifier, or use face-cnn."
        )
    return Task(network, network.params.clone(), network.buffers.clone())
