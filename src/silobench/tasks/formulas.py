"""Formulas of metrics for classes, from counts or from ranks of rows, as in scikit-learn. Nothing here needs torch."""

import numpy as np
from numpy.typing import NDArray


def balanced_accuracy(hits: NDArray[np.int64], rows: NDArray[np.int64]) -> float:
    """Return the mean accuracy of the classes that have rows.

    >>> balanced_accuracy(np.array([9, 1, 0]), np.array([10, 2, 0]))
    0.7
    """
    present = rows > 0
    return float((hits[present] / rows[present]).mean())


def macro_f1(hits: NDArray[np.int64], rows: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """Return the mean F1 score of the classes that have rows or answers.

    >>> macro_f1(np.array([9, 1, 0]), np.array([10, 2, 0]), np.array([10, 2, 0])).__round__(6)
    0.7
    """
    both = rows + predicted
    present = both > 0
    return float((2 * hits[present] / both[present]).mean())


def auc(ranks: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return the probability that a positive row ranks above a negative one; a tie counts half. None with one class.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    _, codes = np.unique(ranks, return_inverse=True)
    positives, negatives = (np.bincount(codes.reshape(-1)[mask]) for mask in (positive, ~positive))
    if not (len(positives) and len(negatives)):
        return None
    size = max(len(positives), len(negatives))
    positives, negatives = (np.pad(counts, (0, size - len(counts))) for counts in (positives, negatives))
    below = np.cumsum(negatives) - negatives  # negative rows that rank lower
    wins = int((positives * (2 * below + negatives)).sum())  # in halves: exact, because these are integers
    return wins / (2 * int(positives.sum()) * int(negatives.sum()))


def average_precision(ranks: NDArray[np.float64], positive: NDArray[np.bool_]) -> float | None:
    """Return Σ (recall - recall before) · precision over all thresholds, from the highest. None without positive rows.

    >>> round(average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])), 6)
    0.833333
    """
    total = int(positive.sum())
    if not total:
        return None
    order = np.argsort(-ranks, kind="stable")
    sorted_ranks = ranks[order]  # compared and not subtracted, as they may be infinite
    last_of_tie = np.append(sorted_ranks[1:] != sorted_ranks[:-1], True) if len(order) else np.zeros(0, np.bool_)
    hits = np.cumsum(positive[order])[last_of_tie]
    answers = (np.flatnonzero(last_of_tie) + 1).astype(np.float64)
    return float((np.diff(hits, prepend=0) * (hits / answers)).sum() / total)


def f1(hits: NDArray[np.int64], rows: NDArray[np.int64], positive: int) -> float | None:
    """Return the F1 score of the positive class; None if it has neither rows nor answers.

    >>> f1(np.array([7, 2]), np.array([8, 4]), positive=1).__round__(6)
    0.571429
    """
    wrong = int((rows - hits).sum())  # false alarms and misses
    correct = 2 * int(hits[positive])
    return correct / (correct + wrong) if correct + wrong else None


def confusion(y: NDArray[np.int64], answers: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return how many rows of each class (down) got each answer (across).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), classes=2).tolist()
    [[1, 1], [0, 1]]
    """
    return np.bincount(y * classes + answers, minlength=classes * classes).reshape(classes, classes)


def matthews(table: NDArray[np.int64]) -> float | None:
    """Return the correlation of classes and answers of a confusion matrix; None if all rows or all answers are equal.

    >>> matthews(np.array([[2, 0], [0, 2]]))
    1.0
    """
    rows, answers, total = _margins(table)
    spread = (total**2 - float(rows @ rows)) * (total**2 - float(answers @ answers))
    covariance = float(np.trace(table)) * total - float(rows @ answers)
    return covariance / spread**0.5 if spread > 0 else None


def cohen_kappa(table: NDArray[np.int64]) -> float | None:
    """Return by how much a confusion matrix agrees better than chance; None if there is nothing to agree on.

    >>> cohen_kappa(np.array([[1, 1], [0, 2]]))
    0.5
    """
    rows, answers, total = _margins(table)
    chance = float(rows @ answers) / total**2
    return (float(np.trace(table)) / total - chance) / (1 - chance) if chance < 1 else None


def _margins(table: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    rows, answers = table.sum(1).astype(np.float64), table.sum(0).astype(np.float64)
    return rows, answers, float(rows.sum())
