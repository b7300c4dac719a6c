"""Datasets by name. `DATASETS` builds a `Dataset` from a spec; partitions and models know only that value."""

import functools

from silobench.data import embedded as _embedded
from silobench.data import files as _files
from silobench.data.dataset import Dataset, Features, Labels, Split
from silobench.spec import Registry

__all__ = ["DATASETS", "Dataset", "Features", "Labels", "Split", "load"]

DATASETS: Registry[Dataset] = Registry("dataset")

digits = DATASETS.register(_embedded.digits)
breast_cancer = DATASETS.register(_embedded.breast_cancer)
fcube = DATASETS.register(_embedded.fcube)
synthetic = DATASETS.register(_embedded.synthetic)
csv = DATASETS.register(_files.csv)
npz = DATASETS.register(_files.npz)
libsvm = DATASETS.register(_files.libsvm)


@functools.lru_cache(maxsize=4)
def load(text: str) -> Dataset:
    """The dataset of a spec; the last few stay in memory, so a grid reads each one once."""
    return DATASETS.build(text)
