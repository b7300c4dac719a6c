"""`Task`: a network and what is asked of it. Training is the solver's, data are the federation's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.models import MODELS, Network, Sizes
from silobench.types import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # the parameters and buffers of a network


@dataclass(frozen=True)
class Score:
    """How a network does on some rows: what it gets right, and its loss added up."""

    hits: int = 0
    total_loss: float = 0.0
    rows: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(self.hits + other.hits, self.total_loss + other.total_loss, self.rows + other.rows)

    @property
    def accuracy(self) -> float:
        return self.hits / self.rows

    @property
    def loss(self) -> float:
        return self.total_loss / self.rows


@dataclass(frozen=True)
class Task:
    """Classification by a network; every run of the same seed begins at `initial`, with the same `buffers`."""

    network: Network
    initial: Vector
    buffers: Vector

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy at the network's present parameters."""
        return F.cross_entropy(self.network.module(x), y)

    def evaluate(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> Score:
        return sum(self.scores(params, buffers, batches), Score())

    @torch.no_grad()
    def scores(self, params: Vector, buffers: Vector, batches: Iterable[tuple[Tensor, Tensor]]) -> list[Score]:
        """Batch by batch."""
        self.network.params.copy_(params)
        self.network.buffers.copy_(buffers)
        self.network.module.eval()
        found = []
        for x, y in batches:
            logits = self.network.module(x)
            hits = int((logits.argmax(1) == y).sum())
            found.append(Score(hits, float(F.cross_entropy(logits, y, reduction="sum")), len(y)))
        self.network.module.train()
        return found


def task(model: str, dataset: Dataset, seed: int = 0) -> Task:
    """A model spec, such as ``"mlp(32, 16, 8)"``, made ready for a dataset."""
    if dataset.task != "classification":
        raise ConfigError(
            f"{dataset.name} asks for numbers (its task is {dataset.task}), and the models here choose among classes: "
            "take a dataset of task classification of `silobench data list`."
        )
    sizes = Sizes(dataset.shape, len(dataset.classes), len(dataset.vocabulary))
    try:
        network = Network(MODELS.build(model).build(sizes, seed))
    except (RuntimeError, MemoryError) as error:  # torch's way to say that there is no memory for it
        raise ConfigError(f"the model {model} cannot be built for rows of shape {dataset.shape}: {error}.") from error
    return Task(network, network.params.clone(), network.buffers.clone())
