"""Cutting a dataset into parties: one file per kind of skew. Pure functions of (rows, parties, generator)."""

from functools import reduce

from silobench.data.dataset import Dataset
from silobench.errors import PartitionError
from silobench.partitions import feature as _feature
from silobench.partitions import iid as _iid
from silobench.partitions import label as _label
from silobench.partitions import mixed as _mixed
from silobench.partitions import natural as _natural
from silobench.partitions import quantity as _quantity
from silobench.partitions import sharing as _sharing
from silobench.partitions.measures import Skewness, measure
from silobench.partitions.partition import Partition, Skew
from silobench.partitions.sharing import Sharing, sharing
from silobench.rng import stream
from silobench.spec import Bound, Registry, parse_terms

__all__ = ["PARTITIONS", "Partition", "Sharing", "Skew", "Skewness", "measure", "partition", "sharing"]

PARTITIONS: Registry[Skew] = Registry("partition")

iid = PARTITIONS.register(_iid.iid)
label_count = PARTITIONS.register(_label.label_count)
label_dirichlet = PARTITIONS.register(_label.label_dirichlet)
label_pair = PARTITIONS.register(_label.label_pair)
label_percent = PARTITIONS.register(_label.label_percent)
shards = PARTITIONS.register(_label.shards)
target_emd = PARTITIONS.register(_label.target_emd)
like = PARTITIONS.register(_label.like)
quantity_dirichlet = PARTITIONS.register(_quantity.quantity_dirichlet)
quantity_power_law = PARTITIONS.register(_quantity.quantity_power_law)
noise = PARTITIONS.register(_feature.noise)
octants = PARTITIONS.register(_feature.octants)
by_group = PARTITIONS.register(_natural.by_group, later=("min_size",))
share = PARTITIONS.register(_sharing.share)

DEFAULT_PARTIES = 10


def bind_sum(text: str) -> list[Bound[Skew]]:
    """The skews of ``a + b``, in order."""
    return [PARTITIONS.bind(term) for term in parse_terms(text, "+")]


def partition(dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0) -> Partition:
    """Cut the training rows among parties by a spec, such as ``"label-dirichlet(beta=0.5) + noise(sigma=0.1)"``.

    Without `parties` the data decide (one party a group, four for octants), else there are ten.

    >>> from silobench.data import digits
    >>> [len(rows) for rows in partition(digits(), "iid", parties=3).rows]
    [480, 479, 479]
    """
    terms = bind_sum(spec)
    skew = reduce(_mixed.add, [term.build() for term in terms])
    n = parties if parties is not None else skew.natural(dataset.train) if skew.natural else DEFAULT_PARTIES
    if not 1 <= n <= len(dataset.train):
        raise PartitionError(
            f"{n} parties cannot share {len(dataset.train)} training rows: take 1 to {len(dataset.train)}."
        )
    return skew.cut(dataset.train, n, stream(seed, "partition"))
