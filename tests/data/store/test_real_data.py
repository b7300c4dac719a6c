"""The catalogue against the real files: every dataset that is in the data directory; the others are skipped.

silobench data fetch mnist cifar-10 fmnist covtype adult movielens-100k imdb && pytest tests/test_real_data.py
"""

import os

import numpy as np
import pytest

from silobench.data import load
from silobench.data.store.catalog import Entry, catalog
from silobench.data.store.directory import available, locate
from silobench.data.word_vectors import word_vectors

HERE = {name: entry for name, entry in catalog().items() if (entry.forms or entry.needs) and entry.task != "vectors"}


def real(name: str) -> Entry:
    if "SILOBENCH_DATA" not in os.environ or not available(HERE[name]):
        pytest.skip(f"SILOBENCH_DATA names no data directory with {name}")
    return HERE[name]


@pytest.mark.parametrize("name", HERE)
def test_the_catalogue_tells_the_truth(name: str) -> None:
    entry, dataset = real(name), load(name)
    assert dataset.task == entry.task
    assert entry.train in (None, len(dataset.train))
    assert entry.test in (None, len(dataset.test))
    assert tuple(dataset.train.groups) == entry.groups
    if name != "kws":  # a subset may lack words
        assert entry.classes in (None, len(dataset.classes))


@pytest.mark.parametrize(
    ("name", "train", "test"), [("mnist", 5421, 892), ("fmnist", 6000, 1000), ("cifar-10", 5000, 1000)]
)
def test_images_have_their_classes(name: str, train: int, test: int) -> None:
    real(name)
    dataset = load(name)
    assert dataset.train.x.dtype == np.uint8
    assert int(np.bincount(dataset.train.y).min()) == train
    assert int(np.bincount(dataset.test.y).min()) == test
    assert len(dataset.classes) == 10


def test_covtype_is_whole() -> None:
    real("covtype")
    binary, seven = load("covtype"), load("covtype(classes=seven)")
    assert len(binary.train) + len(binary.test) == 581_012
    assert binary.shape == (54,)
    counts = np.bincount(seven.train.y) + np.bincount(seven.test.y)
    assert counts.tolist() == [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
    assert int(binary.train.y.sum() + binary.test.y.sum()) == 283_301


def test_both_forms_of_adult_are_the_same() -> None:
    real("adult")
    dataset = load("adult")
    assert dataset.shape == (123,)
    assert int(dataset.train.x.sum()) == 451_592  # non-zeros of a9a
    forms = [form for form in ("a9a", "uci") if locate(HERE["adult"], form) is not None]
    assert {load(f"adult(form={form})").checksum for form in forms} == {dataset.checksum}


def test_reviews_are_balanced() -> None:
    real("imdb")
    dataset = load("imdb")
    assert np.bincount(dataset.train.y).tolist() == np.bincount(dataset.test.y).tolist() == [12_500, 12_500]
    assert dataset.shape == (200,)


def test_movielens_has_its_users_and_films() -> None:
    real("movielens-100k")
    dataset = load("movielens-100k")
    users, films = (np.concatenate([dataset.train.x[:, i], dataset.test.x[:, i]]) for i in (0, 1))
    assert (len(users), len(np.unique(users)), len(np.unique(films))) == (100_000, 943, 1_682)


def test_writers_are_disjoint() -> None:
    real("mnist-writers")
    dataset = load("mnist-writers")
    train, test = (np.unique(split.groups["writer"], return_counts=True) for split in (dataset.train, dataset.test))
    assert (len(train[0]), int(train[1].min()), int(train[1].max()), len(test[0])) == (539, 19, 131, 297)
    assert not set(train[0].tolist()) & set(test[0].tolist())


def test_word_vectors_are_those_of_glove() -> None:
    if "SILOBENCH_DATA" not in os.environ or not available(catalog()["glove-50d"]):
        pytest.skip("SILOBENCH_DATA names no data directory with glove-50d")
    vectors = word_vectors("glove-50d", ["the", "<pad>", "<unk>"])
    assert vectors.shape == (3, 50)
    assert vectors[0, :4].tolist() == pytest.approx([0.418, 0.24968, -0.41242, 0.1217])
    assert np.array_equal(vectors[1], vectors[2])


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("film-reviews", {"imdb": 25_000, "rotten-tomatoes": 8_530}),
        ("snippets", {"amazon": 3_708 - 98, "films": 10_605 - 37, "nyt": 5_190 - 244, "tweets": 4_200 - 4}),
    ],
)
def test_sources_have_their_published_counts(name: str, counts: dict[str, int]) -> None:
    real(name)
    dataset = load(name)
    sources = np.concatenate([dataset.train.groups["source"], dataset.test.groups["source"]])
    assert dict(zip(*(part.tolist() for part in np.unique(sources, return_counts=True)), strict=True)) == counts


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        ("games(rows=aligned)", 1_282), ("flights(rows=aligned)", 271_594), ("movielens-omdb(rows=aligned)", 92_396),
        ("movielens-imdb(rows=aligned)", 92_557),
    ],
)  # fmt: skip
def test_aligned_rows(spec: str, rows: int) -> None:
    real(spec.partition("(")[0])
    dataset = load(spec)
    assert len(dataset.train) + len(dataset.test) == rows
