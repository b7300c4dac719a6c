"""No skew: a random equal split."""

import numpy as np

from silobench.data.dataset import Split
from silobench.partitions.skew import PARTITIONS, Partition, Skew, sorted_rows


@PARTITIONS.register
def iid() -> Skew:
    """A random equal split: the homogeneous setting that every skew is compared with."""
    return Skew(split_evenly)


def split_evenly(split: Split, parties: int, rng: np.random.Generator) -> Partition:
    rows = np.array_split(rng.permutation(len(split)), parties)
    return sorted_rows(Partition(tuple(rows)), f"iid over {parties} parties of {len(split)} rows")
