"""Verification: networks learn to classify the training rows, and are tested on whether two rows are of one class."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from silobench.data.dataset import Dataset
from silobench.models import Classifier
from silobench.tasks.metrics import ACCURACY
from silobench.tasks.objectives.cross_entropy import CrossEntropy
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, need_task
from silobench.tasks.score import Score
from silobench.tasks.verification import Pairs


@OBJECTIVES.register
def verification() -> Fit:
    """Pairs of rows: are both of the same class? The loss is that of classes; the accuracy on pairs is reported."""

    def fit(dataset: Dataset) -> Objective:
        need_task("verification", dataset, "verification", "pairs of rows to test on")
        return Verification(ACCURACY, (ACCURACY,))

    return fit


@dataclass(frozen=True)
class Verification(CrossEntropy):
    """Classification of training rows, and comparison of the two rows of a test pair."""

    name: ClassVar[str] = "verification"

    def score_of(self, module: nn.Module, x: Tensor, y: Tensor) -> Score:
        """Return the score of pairs ``[n, 2, ...]`` if labels are booleans, else of rows.

        The loss of a pair is 1 - similarity for the same class, else max(0, similarity).
        """
        if y.dtype != torch.bool:
            return super().score_of(module, x, y)
        assert isinstance(module, Classifier)  # see `task`
        first, second = module.features(x.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        similarity = module.similarity(first, second)
        loss = torch.where(y, 1 - similarity, similarity.clamp_min(0))
        return Score(total_loss=float(loss.sum()), pairs=(Pairs(similarity.cpu().numpy(), y.cpu().numpy()),))
