"""How skewed a partition is, in numbers: stored with every run and shown by `silobench partition`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Dataset, Features, Split
from silobench.partitions.partition import Counts, Partition

_BLOCK = 256  # rows: what fits the processor's cache is summed several times as fast


@dataclass(frozen=True)
class Skewness:
    """Every measure of one partition."""

    sizes: list[int]
    counts: list[list[int]]  # party x class
    emd: list[float]  # per party, 0..2 (Zhao et al.)
    emd_weighted: float  # mean over parties, weighted by rows
    jensen_shannon: float  # between the parties' label distributions, in bits, 0..log2(parties)
    gini: float  # of the sizes: 0 equal, towards 1 all at one party
    feature_shift: float  # 0 when all parties see the same features on average

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))  # not asdict, which copies every number of a large table


def measure(partition: Partition, dataset: Dataset) -> Skewness:
    """All measures of a partition of a dataset's training rows."""
    split = dataset.train
    by_class = dataset.task != "regression"  # numbers count as one class: sizes are told, labels are not
    labels = split.y if by_class else np.zeros(len(split), dtype=np.int64)
    counts = count(partition, labels, max(len(dataset.classes), 1))
    return Skewness(
        sizes=counts.sum(1).tolist(),
        counts=counts.tolist(),
        emd=emd(counts).tolist(),
        emd_weighted=emd_weighted(counts),
        jensen_shannon=jensen_shannon(counts),
        gini=gini(counts.sum(1)),
        feature_shift=feature_shift(partition, split, len(dataset.vocabulary)),
    )


def count(partition: Partition, labels: NDArray[np.int64], classes: int) -> Counts:
    """The party x class table."""
    return np.stack([np.bincount(labels[rows], minlength=classes) for rows in partition.rows])


def emd(counts: Counts) -> NDArray[np.float64]:
    """Earth mover's distance of each party's labels from the whole's: Σ |p_k(i) - p(i)|, from 0 to 2.

    >>> emd(np.eye(10, dtype=np.int64) * 50)[0].round(6)  # one class of ten
    np.float64(1.8)
    """
    whole = counts.sum(0) / counts.sum()
    own = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    return np.asarray(np.abs(own - whole).sum(1))


def emd_weighted(counts: Counts) -> float:
    """The mean of the parties' distances, weighted by their rows."""
    return float(np.average(emd(counts), weights=counts.sum(1)))


def jensen_shannon(counts: Counts) -> float:
    """Entropy of the whole less the parties' mean entropy, weighted by rows: 0 when all are alike."""
    weights = counts.sum(1) / counts.sum()
    return float(max(0.0, _entropy(counts.sum(0)) - sum(w * _entropy(c) for w, c in zip(weights, counts, strict=True))))


def _entropy(counts: NDArray[np.int64]) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log2(p)).sum())


def gini(sizes: NDArray[np.int64]) -> float:
    """0 when all parties are equally large.

    >>> gini(np.array([5, 5, 5])), round(gini(np.array([0, 0, 9])), 3)
    (0.0, 0.667)
    """
    ordered = np.sort(sizes)
    rank = np.arange(1, len(ordered) + 1)
    return float(((2 * rank - len(ordered) - 1) * ordered).sum() / (len(ordered) * ordered.sum()))


def feature_shift(partition: Partition, split: Split, vocabulary: int = 0) -> float:
    """How far the parties' feature means and added noise lie apart, in standard deviations of a feature.

    Root mean square over parties (by rows) and features of (mean of party - mean) / std, plus the mean ratio of the
    noise's deviation to the features' own. A random split gives about sqrt(parties / rows). Where rows are word
    numbers, of so large a `vocabulary`, a feature is how often a word occurs in a row.
    """
    sizes = np.array([len(rows) for rows in partition.rows])
    total: Any = 0.0
    square: Any = 0.0
    between: Any = 0.0  # Σ over parties of rows · mean², and no table of means: there may be many parties
    for rows in partition.rows:
        own, own_square = _moments(split.x, rows, vocabulary)
        total, square, between = total + own, square + own_square, between + own**2 / len(rows)
    mean = total / sizes.sum()
    variance = np.maximum(square / sizes.sum() - mean**2, 0)
    varying = np.sqrt(variance) > 1e-6 * np.maximum(np.abs(mean), 1e-30)  # a constant column has no unit to measure in
    if not varying.any():
        return 0.0
    gaps = np.maximum(between / sizes.sum() - mean**2, 0)[varying] / variance[varying]
    noise = float(np.average(partition.noise, weights=sizes)) if partition.noise else 0.0
    return float(np.sqrt(gaps.mean())) + noise / float(np.sqrt(variance[varying]).mean())


def _moments(
    features: Features, rows: NDArray[np.int64], vocabulary: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of the features and of their squares over some rows; block by block, to keep float64 copies small."""
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
    """How often each word occurs in each row; 0 pads and does not count."""
    rows, places = np.nonzero(words)
    ones = np.ones(len(rows))
    return sparse.csr_matrix((ones, (rows, words[rows, places])), shape=(len(words), vocabulary))
