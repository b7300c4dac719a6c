"""Ways to divide a dataset among parties, one file per kind of skew.

Each is a pure function of (rows, parties, generator). A new one is a function decorated with `PARTITIONS.register`, in
the file of its kind, and a line here.
"""

from functools import reduce

from silobench.data.dataset import Dataset
from silobench.errors import ConfigError, PartitionError
from silobench.partitions.columns import columns as columns
from silobench.partitions.data_sharing import Sharing as Sharing
from silobench.partitions.data_sharing import share as share
from silobench.partitions.data_sharing import sharing as sharing
from silobench.partitions.feature import noise as noise
from silobench.partitions.feature import octants as octants
from silobench.partitions.homogeneous import iid as iid
from silobench.partitions.label import label_count as label_count
from silobench.partitions.label import label_dirichlet as label_dirichlet
from silobench.partitions.label import label_pair as label_pair
from silobench.partitions.label import label_percent as label_percent
from silobench.partitions.label import like as like
from silobench.partitions.label import shards as shards
from silobench.partitions.label import target_emd as target_emd
from silobench.partitions.measures import Skewness as Skewness
from silobench.partitions.measures import measure as measure
from silobench.partitions.mixed import add
from silobench.partitions.natural import by_group as by_group
from silobench.partitions.quantity import quantity_dirichlet as quantity_dirichlet
from silobench.partitions.quantity import quantity_power_law as quantity_power_law
from silobench.partitions.skew import PARTITIONS as PARTITIONS
from silobench.partitions.skew import Absent as Absent
from silobench.partitions.skew import Deal as Deal
from silobench.partitions.skew import Partition as Partition
from silobench.partitions.skew import Skew as Skew
from silobench.rng import stream
from silobench.spec import Bound, parse_terms
from silobench.spec.arguments import parties_of, seed_of
from silobench.spec.contract import described
from silobench.spec.registry import need_part

DEFAULT_PARTIES = 10


def deal_columns(dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0) -> Deal:
    """Deal the columns of a dataset to parties by a spec, such as ``"columns(by=block, overlap=0.6)"``.

    >>> from silobench.data import digits
    >>> [len(features) for features in deal_columns(digits(), "columns(by=block)", parties=3).columns]
    [22, 21, 21]
    """
    deal = _skew(spec).deal
    if deal is None:
        raise PartitionError(f"{spec} divides rows among parties, but columns are to be divided: use columns(...).")
    return deal(dataset, parties, stream(seed, "partition"))


def deals_columns(spec: str) -> bool:
    """Whether a spec divides columns among parties, not rows."""
    return _skew(spec).deal is not None


def _skew(spec: str) -> Skew:
    return reduce(add, [term.build() for term in bind_sum(spec)])


def bind_sum(text: str) -> list[Bound[Skew]]:
    """Bind the skews of ``a + b``, in order."""
    if not isinstance(text, str):
        raise ConfigError(f"the partition is {described(text)}, but the text of a spec is needed: write 'iid'.")
    return [PARTITIONS.bind(term) for term in parse_terms(text, "+")]


def partition(dataset: Dataset, spec: str, parties: int | None = None, seed: int = 0) -> Partition:
    """Divide the training rows among parties by a spec, such as ``"label-dirichlet(beta=0.5) + noise(sigma=0.1)"``.

    Without `parties` the data determine their number (one party per group, four for octants), else it is ten.

    >>> from silobench.data import digits
    >>> [len(rows) for rows in partition(digits(), "iid", parties=3).rows]
    [480, 479, 479]
    """
    need_part(dataset, Dataset, "the dataset of a partition", "sb.partition(sb.load('digits'), 'iid')")
    skew, parties, seed = _skew(spec), parties_of(parties), seed_of(seed)
    n = parties if parties is not None else skew.natural(dataset.train) if skew.natural else DEFAULT_PARTIES
    if not 1 <= n <= len(dataset.train):
        rows, most = len(dataset.train), f"1 to {len(dataset.train)} parties" if len(dataset.train) > 1 else "1 party"
        raise PartitionError(f"{n} parties cannot share {rows} training rows: take {most}.")
    return skew.cut(dataset.train, n, stream(seed, "partition"))
