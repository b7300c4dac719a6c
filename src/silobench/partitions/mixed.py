"""Mixed skew: ``a + b`` is a skew, and the second acts inside the first's parties."""

import numpy as np

from silobench.data.dataset import Split
from silobench.errors import PartitionError
from silobench.partitions.partition import Partition, Skew


def add(first: Skew, second: Skew) -> Skew:
    """A mixed skew: the second acts inside the first's parties."""
    if first.after is not None:
        raise PartitionError("share stands last, and once: put the other skews before it.")
    if second.after is not None:
        return second.after(first)
    refine = second.refine
    if refine is None:
        raise PartitionError(
            "only noise, quantity skews and share can stand after a +, because they act inside the parties of the "
            "first term: put the label or group skew first."
        )
    if first.natural and second.moves_rows:
        raise PartitionError(
            "a quantity skew after by-group or octants would move rows between real silos: leave one of them out."
        )

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        return refine(split, first.cut(split, parties, rng), rng)

    return Skew(cut, natural=first.natural)
