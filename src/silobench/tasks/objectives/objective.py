"""`Objective`: the loss that a network is trained with, its score on a test, and the metrics of that score."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError
from silobench.spec import Registry
from silobench.tasks.metric_functions import ExtraMetric
from silobench.tasks.metrics import Metric
from silobench.tasks.score import Score

Values: TypeAlias = dict[str, float | None]  # by name of the metric; None where a metric is undefined


@dataclass(frozen=True)
class Objective(ABC):
    """The objective of a task on one dataset.

    `metrics` are all that a run reports, and `main` is the one that it is judged by. `reason` is how the objective was
    detected; it is empty if the user chose it. `extra` are metrics that are computed once, on the final test.
    """

    main: Metric
    metrics: tuple[Metric, ...]
    reason: str = ""
    extra: tuple[ExtraMetric, ...] = ()

    name: ClassVar[str]
    has_classes: ClassVar[bool] = True
    """Whether a row belongs to a class, so that there is an accuracy."""
    has_probabilities: ClassVar[bool] = True
    """Whether the softmax of the outputs of a network for classes is the probability of each class."""
    is_cross_entropy: ClassVar[bool] = False
    """Whether networks are trained with the mean cross-entropy. Every engine can compute that, so `loss` is not called
    by all of them."""

    @property
    def counts_hits(self) -> bool:
        """Whether correct rows by class and the loss are all that the score needs, so that any engine can count it."""
        return False

    @property
    def travel_metric(self) -> Metric:
        """The metric by which models are compared on the rows of single parties: defined on any rows."""
        return self.main

    def outputs(self, dataset: Dataset) -> int:
        """Return how many outputs a network needs: one per class, or one for each number of a target."""
        return len(dataset.classes) if self.has_classes else dataset.target_size

    @abstractmethod
    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a batch."""

    @abstractmethod
    def score(self, outputs: Tensor, y: Tensor) -> Score:
        """Return the score of a network's outputs."""

    def score_of(self, module: nn.Module, x: Tensor, y: Tensor) -> Score:
        """Return the score of a network on some rows."""
        return self.score(module(x).cpu(), y.cpu())

    def scores(self, outputs: Tensor) -> NDArray[np.float64]:
        """Return a network's outputs as scores: probabilities ``[n, classes]``, or predicted numbers."""
        return outputs.double().softmax(1).numpy() if self.has_classes else self.predictions(outputs)

    def metric_inputs(self, outputs: Tensor, y: Tensor) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return labels and scores as a `MetricFunction` gets them; of two classes, number 1 is the positive one.

        The numbers of targets that have several are in one line, as if each were a row.
        """
        if self.has_classes:
            return y.numpy(), self.scores(outputs)
        return y.double().numpy().reshape(-1), self.scores(outputs).reshape(-1)

    @abstractmethod
    def values(self, score: Score) -> Values:
        """Return the values of all metrics for the score of a whole test."""

    def predictions(self, outputs: Tensor) -> NDArray[Any]:
        """Return the answer to each row: the number of a class, or a number in the units of the target."""
        return outputs.argmax(1).numpy() if self.has_classes else outputs.squeeze(1).double().numpy()

    def probabilities(self, outputs: Tensor) -> NDArray[np.float64] | None:
        """Return the probability of each class for each row; None if outputs have no such meaning."""
        return outputs.double().softmax(1).numpy() if self.has_classes and self.has_probabilities else None

    def constants(self, dataset: Dataset) -> Values:
        """Return the values of metrics for the best constant answer on the test rows, as far as they are known."""
        return {}

    def constant_answer(self, dataset: Dataset) -> str:
        """Return the constant answer with the best main metric, as text; empty if any answer is as good, or unknown."""
        return ""

    def target(self, dataset: Dataset) -> dict[str, Any]:
        """Return facts about a numeric target for run.json; empty if there are classes."""
        return {}

    def as_json(self, spec: str, dataset: Dataset) -> dict[str, Any]:
        """Return the facts that are written to run.json."""
        constants, target, answer = self.constants(dataset), self.target(dataset), self.constant_answer(dataset)
        outputs, usual = self.outputs(dataset), len(dataset.classes) if self.has_classes else 1
        return {
            "name": self.name,
            "spec": spec if spec != "auto" else self.name,
            "reason": self.reason,
            "main": self.main.name,
            "metrics": [{**metric.as_json(), "constant": constants.get(metric.name)} for metric in self.metrics],
            **({"extra": [each.metric.as_json() for each in self.extra]} if self.extra else {}),
            **({"constant_answer": answer} if answer else {}),
            **({"target": target} if target else {}),
            **({"outputs": outputs} if outputs != usual else {}),
        }


Fit: TypeAlias = Callable[[Dataset], Objective]  # raises `ConfigError` if the dataset does not suit the objective

OBJECTIVES: Registry[Fit] = Registry("objective")


def main_first(metrics: Sequence[Metric], main: str) -> tuple[Metric, tuple[Metric, ...]]:
    """Return the metric called `main`, and all metrics with it first."""
    (first,) = (metric for metric in metrics if metric.name == main)
    return first, (first, *(metric for metric in metrics if metric.name != main))


def need_task(name: str, dataset: Dataset, task: str, needed: str) -> None:
    """Raise `ConfigError` if a dataset is not for a task; `needed` is what the objective needs."""
    if dataset.task == task:
        return
    remedies: Mapping[str, str] = {
        "regression": 'write objective = "regression", or make the numbers classes with task=classification, as in '
        "csv(path=..., label=..., task=classification)",
        "classification": 'write objective = "cross-entropy", or make the labels numbers with task=regression, as in '
        "csv(path=..., label=..., task=regression)",
        "verification": 'write objective = "verification"',
    }
    raise ConfigError(
        f"the objective {name} needs {needed}, but the task of {dataset.name} is {dataset.task}: "
        f"{remedies[dataset.task]}."
    )
