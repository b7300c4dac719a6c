"""`Task`: a network and what is asked of it. Training is the solver's, data are the federation's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.models import MODELS, Classifier, Network, OwnLoss, Sizes
from silobench.tasks.score import Counts, Score
from silobench.tasks.verification import Pairs
from silobench.vectors import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # the parameters and buffers of a network


@dataclass(frozen=True)
class Task:
    """Classification or verification by a network.

    Every run of the same seed begins at `initial`, with the same `buffers`.
    """

    network: Network
    initial: Vector
    buffers: Vector

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy at the network's present parameters, or what the network has instead."""
        module = self.network.module
        return module.loss(x, y) if isinstance(module, OwnLoss) else F.cross_entropy(module(x), y)

    def evaluate(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> Score:
        return sum(self.scores(params, buffers, batches), Score()).judged()

    @torch.no_grad()
    def scores(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> list[Score]:
        """Batch by batch. Labels of pairs are booleans."""
        self.network.params.copy_(params)
        self.network.buffers.copy_(buffers)
        self.network.module.eval()
        found = [self._of_pairs(x, y) if y.dtype == torch.bool else self._of_rows(x, y) for x, y in batches]
        self.network.module.train()
        return found

    def _of_rows(self, x: Tensor, y: Tensor) -> Score:
        logits = self.network.module(x)
        hits, rows = (_by_class(some, logits.shape[1]) for some in (y[logits.argmax(1) == y], y))
        return Score(hits, float(F.cross_entropy(logits, y, reduction="sum")), rows)

    def _of_pairs(self, x: Tensor, same: Tensor) -> Score:
        """Of pairs ``[n, 2, ...]``; the loss of one is 1 - similarity where it is the same, else what is above 0."""
        module = self.network.module
        assert isinstance(module, Classifier)  # see `task`
        first, second = module.features(x.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        similarity = module.similarity(first, second)
        loss = torch.where(same, 1 - similarity, similarity.clamp_min(0))
        return Score(total_loss=float(loss.sum()), pairs=(Pairs(similarity.numpy(), same.numpy()),))


def _by_class(labels: Tensor, classes: int) -> Counts:
    return torch.bincount(labels, minlength=classes).numpy()


def task(model: str, dataset: Dataset, seed: int = 0) -> Task:
    """A model spec, such as ``"mlp(32, 16, 8)"``, made ready for a dataset."""
    if dataset.task == "regression":
        raise ConfigError(
            f"{dataset.name} asks for numbers (its task is {dataset.task}), and the models here choose among classes: "
            "take a dataset of task classification or verification of `silobench data list`."
        )
    sizes = Sizes(dataset.shape, len(dataset.classes), len(dataset.vocabulary))
    try:
        network = Network(MODELS.build(model).build(sizes, seed))
    except (RuntimeError, MemoryError) as error:  # torch's way to say that there is no memory for it
        raise ConfigError(f"the model {model} cannot be built for rows of shape {dataset.shape}: {error}.") from error
    if dataset.task == "verification" and not isinstance(network.module, Classifier):
        raise ConfigError(
            f"the model {model} does not tell what its last layer reads, by which two pictures of {dataset.name} are "
            "compared: make it a silobench.models.Classifier, or take face-cnn."
        )
    return Task(network, network.params.clone(), network.buffers.clone())
