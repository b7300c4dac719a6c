"""Losses of boosted trees: the constant that training starts from, and derivatives by the margin."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.vertical.trees.binning import Floats


@dataclass(frozen=True)
class TreeLoss(ABC):
    """A loss of labels y and margins [rows, outputs]; there is one tree per output and round."""

    outputs: int = 1
    has_unit_curvature: bool = False  # whether all second derivatives are 1

    @abstractmethod
    def baseline(self, y: NDArray[Any]) -> Floats:
        """Return the best constant margins, [outputs]."""

    @abstractmethod
    def derivatives(self, y: NDArray[Any], margins: Floats) -> tuple[Floats, Floats]:
        """Return the first and second derivatives, [rows, outputs] each."""


@dataclass(frozen=True)
class SquaredError(TreeLoss):
    """Half the squared error of a number."""

    has_unit_curvature: bool = True

    def baseline(self, y: NDArray[Any]) -> Floats:
        return np.array([np.average(y.astype(np.float64))])

    def derivatives(self, y: NDArray[Any], margins: Floats) -> tuple[Floats, Floats]:
        return margins - y.astype(np.float64)[:, None], np.ones_like(margins)


@dataclass(frozen=True)
class LogLoss(TreeLoss):
    """The log loss of two classes; the margin is the log odds of the second."""

    def baseline(self, y: NDArray[Any]) -> Floats:
        smallest = 10 * np.finfo(np.float64).eps
        mean = np.clip(np.average(y.astype(np.float64)), smallest, 1 - smallest)
        return np.array([np.log(mean / (1 - mean))])

    def derivatives(self, y: NDArray[Any], margins: Floats) -> tuple[Floats, Floats]:
        positive = y.astype(np.float64)[:, None]
        odds = np.exp(-np.maximum(margins, -37.0))  # below -37 the probability is exp(margin) in float64
        tail = margins <= -37.0
        first = ((1 - positive) - positive * odds) / (1 + odds)
        second = odds / (1 + odds) ** 2
        if tail.any():
            small = np.exp(margins)
            return np.where(tail, small - positive, first), np.where(tail, small, second)
        return first, second


@dataclass(frozen=True)
class Multinomial(TreeLoss):
    """The log loss of three or more classes; a class has one margin."""

    def baseline(self, y: NDArray[Any]) -> Floats:
        shares = np.bincount(y, minlength=self.outputs) / len(y)
        smallest = np.finfo(np.float64).eps
        logs = np.log(np.clip(shares, smallest, 1 - smallest))
        return np.asarray(logs - logs.mean())

    def derivatives(self, y: NDArray[Any], margins: Floats) -> tuple[Floats, Floats]:
        odds = np.exp(margins - margins.max(axis=1, keepdims=True))
        shares = odds / odds.sum(axis=1, keepdims=True)
        labels = y[:, None] == np.arange(self.outputs)
        return shares - labels, shares * (1 - shares)


def loss_of(classes: int | None) -> TreeLoss:
    """Return the loss for a number of classes, or for a numeric target if it is None."""
    if classes is None:
        return SquaredError()
    return LogLoss() if classes == 2 else Multinomial(outputs=classes)
