"""`Task`: a network and what is asked of it. Training is the solver's, data are the federation's."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.models import MODELS, Network, Sizes
from silobench.types import Vector

Weights: TypeAlias = tuple[Vector, Vector]  # the parameters and buffers of a network
Counts: TypeAlias = NDArray[np.int64]  # by class


def _no_rows() -> Counts:
    return np.zeros(1, np.int64)  # which can be added to counts of any number of classes


@dataclass(frozen=True)
class Score:
    """How a network does on some rows: what it gets right by class, its loss added up, and the rows of each class."""

    hits: Counts = field(default_factory=_no_rows)
    total_loss: float = 0.0
    rows: Counts = field(default_factory=_no_rows)

    def __add__(self, other: "Score") -> "Score":
        return Score(self.hits + other.hits, self.total_loss + other.total_loss, self.rows + other.rows)

    @property
    def accuracy(self) -> float:
        return float(self.hits.sum() / self.rows.sum())

    @property
    def loss(self) -> float:
        return float(self.total_loss / self.rows.sum())

    @property
    def by_class(self) -> tuple[float | None, ...]:
        """The accuracy on the rows of each class; None where there are none."""
        return tuple(
            hits / rows if rows else None for hits, rows in zip(self.hits.tolist(), self.rows.tolist(), strict=True)
        )


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
            hits, rows = (_by_class(some, logits.shape[1]) for some in (y[logits.argmax(1) == y], y))
            found.append(Score(hits, float(F.cross_entropy(logits, y, reduction="sum")), rows))
        self.network.module.train()
        return found


def _by_class(labels: Tensor, classes: int) -> Counts:
    return torch.bincount(labels, minlength=classes).numpy()


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
