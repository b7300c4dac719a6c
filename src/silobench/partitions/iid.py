"""No skew: a random equal split."""

import numpy as np

from silobench.data.dataset import Split
from silobench.partitions.partition import Partition, Skew, checked


def iid() -> Skew:
    """A random permutation, cut into equal parts: the homogeneous setting every skew is compared with."""
    return Skew(cut)


def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
    rows = np.array_split(rng.permutation(len(split)), parties)
    return checked(Partition(tuple(rows)), f"iid over {parties} parties of {len(split)} rows")
