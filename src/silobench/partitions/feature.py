"""Feature skew: the features of parties are distributed differently."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from silobench.data.dataset import Split
from silobench.data.readers.embedded import octant_pairs
from silobench.errors import PartitionError
from silobench.partitions.homogeneous import split_evenly
from silobench.partitions.skew import PARTITIONS, Partition, Skew, rows_of, sorted_rows
from silobench.spec.ranges import Positive


@PARTITIONS.register
def noise(
    sigma: Positive,
    as_: Literal["variance", "std"] = "variance",
    test: Literal["clean", "noisy"] = "clean",
) -> Skew:
    """Gau(sigma) (NIID-Bench): an equal split, then Gaussian noise that grows from party to party.

    The noise of party i = 1..N has variance sigma·i/N, as in the paper's text. With `as=std` it has standard deviation
    sigma·i/(N-1), i = 0..N-1, as in the public code. The noise of a row is drawn once per run. The test set stays
    clean unless `test=noisy`, which tests on one noisy copy per party.
    """

    def refine(split: Split, partition: Partition, rng: np.random.Generator) -> Partition:
        if sparse.issparse(split.x):
            raise PartitionError("noise would make sparse rows dense: use it on dense features only.")
        if split.x.dtype.kind == "i":
            raise PartitionError("noise would turn word numbers into other words: use it on numeric features only.")
        n = len(partition)
        ramp = np.arange(1, n + 1) / n if as_ == "variance" else np.arange(n) / max(n - 1, 1)
        deviations = np.sqrt(sigma * ramp) if as_ == "variance" else sigma * ramp
        earlier = partition.noise or np.zeros(n)  # the variances of independent noises add up
        deviations = np.hypot(deviations, earlier)
        return replace(partition, noise=tuple(deviations.tolist()), noisy_test=partition.noisy_test or test == "noisy")

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        return refine(split, split_evenly(split, parties, rng), rng)

    return Skew(cut, refine)


@PARTITIONS.register
def octants() -> Skew:
    """The skew of FCUBE (NIID-Bench): each of 4 parties holds two octants that are symmetric about the origin."""

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        if split.x.shape[1:] != (3,) or parties != 4:
            raise PartitionError(
                f"octants divides points in 3 dimensions among 4 parties, but rows have shape {split.x.shape[1:]} and "
                f"there are {parties} parties: use dataset fcube and parties = 4."
            )
        return sorted_rows(Partition(rows_of(octant_pairs(split.x), parties), owners=_octant_owners), "octants")

    return Skew(cut, natural=lambda split: 4)


def _octant_owners(test: Split) -> NDArray[np.int64]:
    return octant_pairs(test.x)
