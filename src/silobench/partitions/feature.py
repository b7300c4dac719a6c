"""Feature skew: parties hold the same kinds of rows but see them differently."""

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy import sparse

from silobench.data.dataset import Split
from silobench.data.readers.embedded import octant_pairs
from silobench.errors import PartitionError
from silobench.partitions import iid
from silobench.partitions.partition import Partition, Skew, checked, rows_of
from silobench.spec.ranges import Positive


def noise(
    sigma: Positive,
    as_: Literal["variance", "std"] = "variance",
    test: Literal["clean", "noisy"] = "clean",
) -> Skew:
    """Gau(sigma) (NIID-Bench): an equal split, then Gaussian noise that grows from party to party.

    Party i = 1..N has noise of variance sigma·i/N, the paper's text; `as=std` has standard deviation
    sigma·i/(N-1), i = 0..N-1, the public code. The noise of a row is drawn once per run, and the test set stays
    clean unless `test=noisy`, which tests on one noisy copy for every party.
    """

    def refine(split: Split, partition: Partition, rng: np.random.Generator) -> Partition:
        if sparse.issparse(split.x):
            raise PartitionError("noise would make sparse rows dense: use it on dense features only.")
        if split.x.dtype.kind == "i":
            raise PartitionError("noise on word numbers would name other words: use it on features that are measured.")
        n = len(partition)
        ramp = np.arange(1, n + 1) / n if as_ == "variance" else np.arange(n) / max(n - 1, 1)
        deviations = np.sqrt(sigma * ramp) if as_ == "variance" else sigma * ramp
        before = partition.noise or np.zeros(n)  # independent noises add up in their variances
        deviations = np.hypot(deviations, before)
        return replace(partition, noise=tuple(deviations.tolist()), noisy_test=partition.noisy_test or test == "noisy")

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        return refine(split, iid.cut(split, parties, rng), rng)

    return Skew(cut, refine)


def octants() -> Skew:
    """FCUBE's own skew (NIID-Bench): each of 4 parties holds two octants symmetric about the origin."""

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        if split.x.shape[1:] != (3,) or parties != 4:
            raise PartitionError(
                f"octants cuts points in 3 dimensions among 4 parties, but rows of shape {split.x.shape[1:]} and "
                f"{parties} parties were given: use dataset fcube and parties = 4."
            )
        return checked(Partition(rows_of(octant_pairs(split.x), parties)), "octants")

    return Skew(cut, natural=lambda split: 4)
