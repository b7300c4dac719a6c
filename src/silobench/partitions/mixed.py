"""Mixed skew: in ``a + b`` the second skew changes the partition that the first one makes."""

import numpy as np

from silobench.data.dataset import Split
from silobench.errors import PartitionError
from silobench.partitions.skew import Partition, Skew


def add(first: Skew, second: Skew) -> Skew:
    """Return the skew ``first + second``: the second changes the partition of the first."""
    if first.deal is not None or second.deal is not None:
        raise PartitionError(
            "columns cannot be part of a sum, because it divides columns and the other terms divide rows: use it as "
            "the only term."
        )
    if first.after is not None:
        raise PartitionError("share must be the last term of a sum, and only once: put the other skews before it.")
    if second.after is not None:
        return second.after(first)
    refine = second.refine
    if refine is None:
        raise PartitionError(
            "only noise, quantity skews and share can follow a +, because they change the partition of the first "
            "term: put the label or group skew first."
        )
    if first.natural and second.moves_rows:
        raise PartitionError(
            "a quantity skew after by-group or octants would move rows between real silos: use only one of them."
        )

    def cut(split: Split, parties: int, rng: np.random.Generator) -> Partition:
        return refine(split, first.cut(split, parties, rng), rng)

    return Skew(cut, natural=first.natural)
