"""Datasets by name. `DATASETS` builds a `Dataset` from a spec; partitions and models know only that value."""

import functools
from pathlib import Path

from silobench.data.dataset import Dataset, Features, Labels, Split
from silobench.data.readers import cifar, embedded, faces, geo, images, movielens, songs, speech, tables, text, traffic
from silobench.data.readers import image_files as pictures
from silobench.data.readers import user_files as files
from silobench.data.store.store import data_dir, stamp, stamps
from silobench.errors import DataError
from silobench.spec import Registry, Spec

__all__ = ["DATASETS", "Dataset", "Features", "Labels", "Split", "load"]

DATASETS: Registry[Dataset] = Registry("dataset")

digits = DATASETS.register(embedded.digits)
breast_cancer = DATASETS.register(embedded.breast_cancer)
fcube = DATASETS.register(embedded.fcube)
synthetic = DATASETS.register(embedded.synthetic)
synthetic_faces = DATASETS.register(faces.synthetic_faces)
csv = DATASETS.register(files.csv)
npz = DATASETS.register(files.npz)
libsvm = DATASETS.register(files.libsvm)

for _factory in (
    pictures.images, images.mnist, images.fmnist, images.mnist_writers, cifar.cifar_10, images.svhn, images.femnist,
    faces.identities, pictures.chars74k, pictures.age_faces, pictures.flickr_mammal, geo.geo_species,
    tables.adult, tables.rcv1, tables.reuters, tables.covtype, tables.heart_disease,
    movielens.movielens_100k, movielens.movielens_1m, songs.year_prediction, songs.fma, traffic.traffic,
    text.imdb, text.amazon_domains, text.sentiment, speech.kws,
):  # fmt: skip
    DATASETS.register(_factory)


def load(spec: str) -> Dataset:
    """The dataset of a spec; the last few stay in memory, so a grid reads each one once, and a changed file anew."""
    if Path(spec).suffix in (".csv", ".npz", ".svm", ".libsvm"):
        raise DataError(
            f"{spec} is a file: write csv(path={spec}, label=COLUMN), npz(path={spec}) or libsvm(path={spec})."
        )
    bound = DATASETS.bind(spec).full
    return _load(str(bound), _stamps(bound), str(data_dir()))


def _stamps(bound: Spec) -> tuple[tuple[int, ...], ...]:
    """When the files behind a spec were last touched: those it names, or those of the catalogue."""
    named = [Path(value) for _, value in bound.kwargs if isinstance(value, str) and value and Path(value).is_file()]
    return (*(stamp(file) for file in named), *stamps(bound.name))


@functools.lru_cache(maxsize=4)
def _load(spec: str, stamps: tuple[tuple[int, ...], ...], data_dir: str) -> Dataset:
    return DATASETS.build(spec)
