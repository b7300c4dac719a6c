"""Regression: predict a number, or several numbers per row."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.spec.ranges import Positive
from silobench.tasks.metrics import Metric
from silobench.tasks.objectives.objective import OBJECTIVES, Fit, Objective, Values, main_first, need_task
from silobench.tasks.score import Score

Loss = Literal["squared", "absolute", "huber"]


@OBJECTIVES.register
def regression(loss: Loss = "squared", delta: Positive = 1.0, main: Literal["mae", "mse", "rmse", "r2"] = "mae") -> Fit:
    """A numeric target: MAE, RMSE, MSE and R2 are reported in its own units.

    The network has one output, or one for each number of a target that has several; metrics are then over all numbers,
    and each row counts the same. Targets are standardised by the mean and the deviation of the training rows of all
    parties together, as the columns of a table are; parties would share these two numbers before the first round. The
    loss in training and in records is that of standardised targets: the squared error, the absolute error, or Huber's
    loss, which is half the squared error up to `delta` deviations and grows linearly beyond. R2 is undefined (null in a
    record) if all targets of a test are equal.
    """

    def fit(dataset: Dataset) -> Objective:
        need_task("regression", dataset, "regression", "numbers as labels")
        y = np.delete(dataset.train.y, dataset.validation, axis=0).astype(np.float64)
        deviation = float(y.std())
        metrics = _metrics(dataset.unit, deviation)
        scale = deviation if deviation > 1e-12 * abs(y.mean()) else 1.0  # a constant target
        return Regression(*main_first(metrics, main), mean=float(y.mean()), scale=scale, kind=loss, delta=delta)

    return fit


def _metrics(unit: str, deviation: float) -> tuple[Metric, ...]:
    """Return the metrics of a target; a thousandth of its deviation is the last digit that is shown."""
    digits = min(6, max(0, 3 - math.floor(math.log10(deviation)))) if deviation > 0 else 2
    return (
        Metric("mae", "MAE", False, unit, 1.0, digits),
        Metric("rmse", "RMSE", False, unit, 1.0, digits),
        Metric("mse", "MSE", False, f"{unit}²" if unit else "", 1.0, digits),
        Metric("r2", "R2", True, "", 1.0, 3),
    )


@dataclass(frozen=True)
class Regression(Objective):
    """The prediction of a number by a network's one output, or of k numbers by k outputs, which are standardised."""

    name: ClassVar[str] = "regression"
    has_classes: ClassVar[bool] = False

    mean: float = 0.0
    scale: float = 1.0
    kind: Loss = "squared"
    delta: float = 1.0

    @property
    def travel_metric(self) -> Metric:
        if self.main.name != "r2":
            return self.main
        return next(metric for metric in self.metrics if metric.name == "rmse")  # R2 needs targets that differ

    def loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self._loss(outputs.squeeze(1), self._standardised(y).float(), "mean")

    def _standardised(self, y: Tensor) -> Tensor:
        return (y.double() - self.mean) / self.scale

    def _loss(self, outputs: Tensor, targets: Tensor, reduction: str) -> Tensor:
        if self.kind == "huber":
            return F.huber_loss(outputs, targets, reduction=reduction, delta=self.delta)
        return (F.mse_loss if self.kind == "squared" else F.l1_loss)(outputs, targets, reduction=reduction)

    def score(self, outputs: Tensor, y: Tensor) -> Score:
        answers, targets = outputs.squeeze(1).double(), self._standardised(y)
        error, shifted = answers * self.scale + self.mean - y.double(), y.double() - self.mean
        totals = torch.stack([part.sum() for part in (error.abs(), error.square(), shifted, shifted.square())])
        numbers = outputs.shape[1]  # of a row: sums over rows are of its mean
        return Score(
            np.zeros(1, np.int64),
            float(self._loss(answers, targets, "sum")) / numbers,
            np.array([len(y)]),
            sums={"errors": totals.numpy() / numbers},
        )

    def predictions(self, outputs: Tensor) -> NDArray[Any]:
        return (outputs.squeeze(1).double() * self.scale + self.mean).numpy()

    def values(self, score: Score) -> Values:
        absolute, squared, shifted, shifted_squares = score.sums["errors"].tolist()
        mse, spread = squared / score.count, shifted_squares - shifted**2 / score.count
        is_constant = spread <= 1e-12 * shifted_squares  # what is left of the sums is a rounding error
        return {
            "mae": absolute / score.count,
            "mse": mse,
            "rmse": math.sqrt(mse),
            "r2": None if is_constant else 1 - squared / spread,
        }

    def constants(self, dataset: Dataset) -> Values:
        y = dataset.test.y.astype(np.float64)
        mse = float(y.var())
        return {
            "mae": float(np.abs(y - np.median(y)).mean()),
            "mse": mse,
            "rmse": math.sqrt(mse),
            "r2": 0.0 if y.min() < y.max() else None,
        }

    def constant_answer(self, dataset: Dataset) -> str:
        y = dataset.test.y.astype(np.float64)
        number = f"{float(np.median(y) if self.main.name == 'mae' else y.mean()):.4g}"
        return f"{number} {dataset.unit}".rstrip()

    def target(self, dataset: Dataset) -> dict[str, Any]:
        return {
            "name": dataset.target,
            "mean": self.mean,
            "std": self.scale,
            "bins": list(dataset.bins.edges),
        }
