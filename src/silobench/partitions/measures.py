"""Measures of how skewed a partition is: stored with every run and shown by `silobench partition`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.bins import row_values
from silobench.data.dataset import Dataset, Features, Split
from silobench.partitions.skew import Counts, Partition

_BLOCK = 256  # rows: a block that fits the processor's cache is summed several times as fast


@dataclass(frozen=True)
class Skewness:
    """Every measure of one partition."""

    sizes: list[int]
    counts: list[list[int]]  # party x class, or x quantile bin of a numeric target
    emd: list[float]  # per party, 0..2 (Zhao et al.)
    emd_weighted: float  # mean over parties, weighted by rows
    jensen_shannon: float  # between the parties' label distributions, in bits, 0..log2(parties)
    gini: float  # of the sizes: 0 if they are equal, near 1 if one party holds almost all rows
    feature_shift: float  # 0 if the mean features of all parties are equal
    wasserstein: float | None = None  # of a numeric target, in its standard deviations; None if there are classes

    @property
    def total_variation(self) -> float:
        """The mean distance of the parties' labels from all labels, 0..1: half of the l1 distance `emd_weighted`."""
        return self.emd_weighted / 2

    def as_json(self) -> dict[str, Any]:
        """Return the measures as they are written to run.json."""
        # Not asdict, which copies every number of a large table.
        fields = {name: value for name, value in vars(self).items() if name != "wasserstein" or value is not None}
        return {**fields, "total_variation": self.total_variation}


def measure(partition: Partition, dataset: Dataset) -> Skewness:
    """Compute all measures of a partition of a dataset's training rows."""
    split = dataset.train
    counts = count(partition, dataset.codes, len(dataset.label_names))
    return Skewness(
        sizes=counts.sum(1).tolist(),
        counts=counts.tolist(),
        emd=emd(counts).tolist(),
        emd_weighted=emd_weighted(counts),
        jensen_shannon=jensen_shannon(counts),
        gini=gini(counts.sum(1)),
        feature_shift=feature_shift(partition, split, len(dataset.vocabulary)),
        wasserstein=wasserstein(partition, split.y) if dataset.task == "regression" else None,
    )


def count(partition: Partition, labels: NDArray[np.int64], classes: int) -> Counts:
    """Return how many rows of each class each party holds, [parties, classes]."""
    return np.stack([np.bincount(labels[rows], minlength=classes) for rows in partition.rows])


def emd(counts: Counts) -> NDArray[np.float64]:
    """Return the earth mover's distance of each party's labels from all labels: Σ |p_k(i) - p(i)|, from 0 to 2.

    >>> emd(np.eye(10, dtype=np.int64) * 50)[0].round(6)  # one class of ten
    np.float64(1.8)
    """
    whole = counts.sum(0) / counts.sum()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    return np.asarray(np.abs(shares - whole).sum(1))


def emd_weighted(counts: Counts) -> float:
    """Return the mean of the parties' distances, weighted by their rows."""
    return float(np.average(emd(counts), weights=counts.sum(1)))


def jensen_shannon(counts: Counts) -> float:
    """Return the entropy of all labels minus the parties' mean entropy, weighted by rows: 0 without label skew."""
    weights = counts.sum(1) / counts.sum()
    return float(max(0.0, _entropy(counts.sum(0)) - sum(w * _entropy(c) for w, c in zip(weights, counts, strict=True))))


def _entropy(counts: NDArray[np.int64]) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


def gini(sizes: NDArray[Any]) -> float:
    """Return the Gini coefficient of the parties' sizes: 0 if all are equally large.

    >>> gini(np.array([5, 5, 5])), round(gini(np.array([0, 0, 9])), 3)
    (0.0, 0.667)
    """
    ordered = np.sort(sizes)
    rank = np.arange(1, len(ordered) + 1)
    return float(((2 * rank - len(ordered) - 1) * ordered).sum() / (len(ordered) * ordered.sum()))


def wasserstein(partition: Partition, targets: NDArray[Any]) -> float:
    """Return the mean Wasserstein distance of the parties' targets from all targets, weighted by rows.

    It is the mean distance by which targets must move to turn one distribution into the other, in standard deviations
    of all targets: 0 if the parties' distributions are equal. A target of several numbers counts by their mean.

    >>> halves = Partition((np.array([0, 1]), np.array([2, 3])))
    >>> wasserstein(halves, np.array([-1.0, -1.0, 1.0, 1.0]))
    1.0
    """
    values = [np.sort(row_values(targets[rows])) for rows in partition.rows]
    whole = np.sort(np.concatenate(values))
    mean, deviation = whole.mean(), float(whole.std())
    if deviation <= 1e-12 * abs(mean):
        return 0.0
    whole -= mean  # smaller numbers have smaller rounding errors
    sums = np.concatenate([[0.0], np.cumsum(whole)])
    distances = [_distance_from(whole, sums, part - mean) for part in values]
    return float(np.average(distances, weights=[len(part) for part in values]) / deviation)


def _distance_from(whole: NDArray[np.float64], sums: NDArray[np.float64], part: NDArray[np.float64]) -> float:
    """Return ∫ |F - P| of the distribution functions F of all values and P of some of them, both sorted.

    Between two values of the part, P is constant and F crosses it at most once, so the integral of F at these values
    and at the crossings is enough. `sums` are the sums of the first 0, 1, 2, ... of all values.
    """

    def integral(x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ∫ F up to x."""
        below = np.searchsorted(whole, x, side="right")
        return np.asarray((below * x - sums[below]) / len(whole))

    count = len(part)
    level = np.arange(count + 1) / count  # of P between the values
    begin, end = np.append(whole[0], part), np.append(part, whole[-1])
    first_at_level = np.maximum(-(-np.arange(count + 1) * len(whole) // count) - 1, 0)
    crossing = np.clip(whole[first_at_level], begin, end)
    at_begin, at_crossing, at_end = map(integral, (begin, crossing, end))
    below = level * (crossing - begin) - (at_crossing - at_begin)
    above = at_end - at_crossing - level * (end - crossing)
    return float((below + above).sum())


def feature_shift(partition: Partition, split: Split, vocabulary: int = 0) -> float:
    """Return how far the parties' mean features and noise differ, in standard deviations of a feature.

    This is the root mean square of (mean of party - mean) / std over features and parties (weighted by rows), plus the
    mean ratio of the noise's deviation to that of the features. A random split gives about sqrt(parties / rows). With a
    `vocabulary` rows are word numbers, and a feature is how often a word occurs in a row.
    """
    sizes = np.array([len(rows) for rows in partition.rows])
    total: Any = 0.0
    square: Any = 0.0
    between: Any = 0.0  # Σ over parties of rows · mean²; a table of means would be large with many parties
    for rows in partition.rows:
        party_total, party_square = _moments(split.x, rows, vocabulary)
        total, square = total + party_total, square + party_square
        between = between + party_total**2 / len(rows)
    mean = total / sizes.sum()
    variance = np.maximum(square / sizes.sum() - mean**2, 0)
    varying = np.sqrt(variance) > 1e-6 * np.maximum(np.abs(mean), 1e-30)  # a constant feature has no deviation
    if not varying.any():
        return 0.0
    gaps = np.maximum(between / sizes.sum() - mean**2, 0)[varying] / variance[varying]
    noise = float(np.average(partition.noise, weights=sizes)) if partition.noise else 0.0
    return float(np.sqrt(gaps.mean())) + noise / float(np.sqrt(variance[varying]).mean())


def _moments(
    features: Features, rows: NDArray[np.int64], vocabulary: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum the features and their squares over some rows, block by block so that float64 copies stay small."""
    total: Any = 0.0
    square: Any = 0.0
    for begin in range(0, len(rows), _BLOCK):
        block = rows[begin : begin + _BLOCK]
        x = features[block]
        x = _bags(x, vocabulary) if vocabulary else x if sparse.issparse(x) else x.reshape(len(block), -1)
        x = x.astype(np.float64)
        total = total + np.asarray(x.sum(0)).reshape(-1)
        square = square + np.asarray((x.multiply(x) if sparse.issparse(x) else np.multiply(x, x, out=x)).sum(0)).ravel()
    unit = 255.0 if features.dtype == np.uint8 else 1.0
    return np.asarray(total / unit), np.asarray(square / unit**2)


def _bags(words: NDArray[np.int32], vocabulary: int) -> "sparse.csr_matrix":
    """Count how often each word occurs in each row; 0 is padding and does not count."""
    rows, places = np.nonzero(words)
    ones = np.ones(len(rows))
    return sparse.csr_matrix((ones, (rows, words[rows, places])), shape=(len(words), vocabulary))
