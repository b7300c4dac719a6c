"""Registry of all datasets: `DATASETS` builds a `Dataset` from a spec, and `load` caches it in memory."""

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from silobench.data.agreed import rehearsal
from silobench.data.dataset import Dataset, Features, Labels, Split
from silobench.data.readers import (
    cifar,
    embedded,
    faces,
    films,
    geo,
    image_arrays,
    image_files,
    linked,
    movielens,
    reviews,
    songs,
    speech,
    tables,
    text,
    traffic,
    user_arrays,
    user_linked,
    user_tables,
)
from silobench.data.readers import libsvm as libsvm_text
from silobench.data.store.directory import data_dir, stamp, stamps
from silobench.errors import DataError, SpecError
from silobench.spec import Registry, Spec, parse
from silobench.spec.contract import Contract

__all__ = ["DATASETS", "Dataset", "Features", "Labels", "Split", "load"]

DATASETS: Registry[Dataset] = Registry("dataset", Contract(Dataset, "an sb.Dataset(...)"))

digits = DATASETS.register(embedded.digits)
breast_cancer = DATASETS.register(embedded.breast_cancer)
fcube = DATASETS.register(embedded.fcube)
synthetic = DATASETS.register(embedded.synthetic)
synthetic_faces = DATASETS.register(faces.synthetic_faces)
csv = DATASETS.register(
    added_later=(
        "task", "unit", "sep", "encoding", "decimal", "text", "text_features", "dates", "date_order", "many", "epsilon",
        "thousands",
    )
)(user_tables.csv)  # fmt: skip
parquet = DATASETS.register(user_tables.parquet)
linked_tables = DATASETS.register(user_linked.linked)
silo_files = DATASETS.register(rehearsal.silos)
npz = DATASETS.register(added_later=("task",))(user_arrays.npz)
libsvm = DATASETS.register(added_later=("task",))(libsvm_text.libsvm)

for _factory in (
    image_files.images, image_arrays.mnist, image_arrays.fmnist, image_arrays.mnist_writers, cifar.cifar_10,
    image_arrays.svhn, image_arrays.femnist, faces.identities, image_files.chars74k, image_files.age_faces,
    image_files.flickr_mammal, geo.geo_species,
    tables.adult, tables.rcv1, tables.reuters, tables.covtype, tables.heart_disease,
    movielens.movielens_100k, movielens.movielens_1m, songs.year_prediction, songs.fma,
    linked.games, linked.billboard, linked.credit_default, linked.flights,
    films.films, films.movielens_omdb, films.movielens_imdb,
    reviews.film_reviews, reviews.snippets, reviews.synthetic_reviews, speech.kws,
):  # fmt: skip
    DATASETS.register(_factory)

DATASETS.register(added_later=("vectors", "rows"))(text.imdb)
DATASETS.register(added_later=("vectors", "rows"))(text.amazon_domains)
DATASETS.register(added_later=("amazon", "vectors", "rows"))(text.sentiment)
DATASETS.register(added_later=("all_steps",))(traffic.traffic)

_FOLDERS = ("path", "test", "files")  # arguments that may name a folder of pictures


def load(spec: str) -> Dataset:
    """Return the dataset of a spec. The last four stay in memory; if a file changes, or a picture in a folder that the
    spec names, the dataset is read again.
    """
    if isinstance(spec, str | Path) and Path(spec).suffix in (".csv", ".tsv", ".parquet", ".npz", ".svm", ".libsvm"):
        raise DataError(
            f"{f'{spec} is a file: ' if os.path.isfile(spec) else f'there is no file {spec}: check the path, and '}"
            f"write csv(path={spec}, label=COLUMN), parquet(path={spec}, label=COLUMN), "
            f"npz(path={spec}) or libsvm(path={spec})."
        )
    bound = DATASETS.bind(spec).full
    return _load(str(bound), _stamps(bound), str(data_dir()))


def _stamps(bound: Spec) -> tuple[tuple[str | int, ...], ...]:
    """Return the stamps of all files behind a spec: those that it names, with their paths, and those of its entry."""
    named = [file for name, text in _texts(bound) if text for file in _files(name, text)]
    return (*map(_path_and_stamp, named), *stamps(bound.name))


def _path_and_stamp(file: Path) -> tuple[str | int, ...]:
    """Return the path and the stamp of a file; the path alone of a link that leads nowhere."""
    return (str(file), *stamp(file)) if file.exists() else (str(file),)


def _files(argument: str, text: str) -> Iterator[Path]:
    """Yield the file that an argument names, or the pictures in its folder; the mark of ``decimal=.`` is no folder."""
    path = Path(text)
    if os.path.isfile(path):  # false for a text that is too long for a name, where `Path.is_file` raises an error
        yield path
    elif argument in _FOLDERS and os.path.isdir(path):
        with suppress(DataError):  # there are no pictures in it
            yield from (path / name for name in image_files.list_pictures(path))


def _texts(spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of the arguments of a spec, and of a spec inside a text: 'csv(path=north.csv)'."""
    arguments = [
        (name, part) for name, value in spec.kwargs for part in (value if isinstance(value, tuple) else [value])
    ]
    for name, part in arguments:
        if isinstance(part, str):
            yield name, part
            with suppress(SpecError):
                yield from _texts(parse(part)) if part.endswith(")") else ()


@functools.lru_cache(maxsize=4)
def _load(spec: str, stamps: tuple[tuple[str | int, ...], ...], data_dir: str) -> Dataset:
    return DATASETS.build(spec)
