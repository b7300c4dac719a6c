"""Datasets by name. `DATASETS` builds a `Dataset` from a spec; partitions and models know only that value."""

import functools
from pathlib import Path

from silobench.data import embedded as _embedded
from silobench.data import files as _files
from silobench.data import speech as _speech
from silobench.data import text as _text
from silobench.data.dataset import Dataset, Features, Labels, Split
from silobench.errors import DataError
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
kws = DATASETS.register(_speech.kws)
imdb = DATASETS.register(_text.imdb)
amazon_domains = DATASETS.register(_text.amazon_domains)
sentiment = DATASETS.register(_text.sentiment)


def load(text: str) -> Dataset:
    """The dataset of a spec; the last few stay in memory, so a grid reads each one once, and a changed file anew."""
    if Path(text).suffix in (".csv", ".npz", ".svm", ".libsvm"):
        raise DataError(
            f"{text} is a file: write csv(path={text}, label=COLUMN), npz(path={text}) or libsvm(path={text})."
        )
    spec = DATASETS.bind(text).full
    files = [Path(value) for _, value in spec.kwargs if isinstance(value, str) and value and Path(value).is_file()]
    return _load(str(spec), tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files))


@functools.lru_cache(maxsize=4)
def _load(text: str, stamps: tuple[tuple[int, int], ...]) -> Dataset:
    return DATASETS.build(text)
