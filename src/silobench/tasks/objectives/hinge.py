"""Classification by the hinge loss: a linear network becomes a support vector machine."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.spec.ranges import NonNegative
from silobench.tasks.metrics import ACCURACY, BALANCED_ACCURACY, MACRO_F1
from silobench.tasks.objectives.cross_entropy import CrossEntropy
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, main_first, need_task
from silobench.tasks.score import Score


@OBJECTIVES.register
def hinge(
    margin: NonNegative = 1.0,
    squared: bool = False,
    main: Literal["accuracy", "balanced-accuracy", "macro-f1"] = "accuracy",
) -> Fit:
    """Classification by the hinge loss, one class against all others, as in scikit-learn's SGDClassifier.

    With t = 1 for the class of a row and t = -1 for every other class, the loss of a row is the sum over the classes of
    max(0, margin - t · output), or of its square. A margin of 0 is the perceptron's loss. Outputs are not
    probabilities.
    """

    def fit(dataset: Dataset) -> Objective:
        need_task("hinge", dataset, "classification", "classes")
        metrics = main_first((ACCURACY, BALANCED_ACCURACY, MACRO_F1), main)
        return Hinge(*metrics, margin=margin, squared=squared)

    return fit


@dataclass(frozen=True)
class Hinge(CrossEntropy):
    """Classification of rows by the largest output, trained with the hinge loss."""

    name: ClassVar[str] = "hinge"
    is_cross_entropy: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = False

    margin: float = 1.0
    squared: bool = False

    @property
    def counts_hits(self) -> bool:
        return False

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self._losses(outputs, y).mean()

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        return replace(super().score(outputs, y), total_loss=float(self._losses(outputs, y).sum()))

    def _losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each row."""
        sides = 2 * F.one_hot(y, outputs.shape[1]).to(outputs.dtype) - 1
        missing = (self.margin - sides * outputs).clamp(min=0)
        return (missing.square() if self.squared else missing).sum(1)
