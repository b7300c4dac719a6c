"""Reviews to token sequences: the tokeniser, the vocabulary, and readers that refuse what they do not know."""

import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.data.dataset import Dataset
from silobench.data.readers.text import Review, read_amazon, read_imdb_archive, read_imdb_json, sequences, tokens
from silobench.errors import DataError

STARTS = [  # how the four blocks of the npm form begin
    "Once again Mr. Costner has dragged out a movie",
    "Story of a man who has unnatural feelings for a pig",
    "I went and saw this movie last night after being coaxed",
    "Bromwell High is a cartoon comedy",
]
FOLDERS = ["test/neg", "train/neg", "test/pos", "train/pos"]


def refusal(call: Callable[[], Any], *told: object) -> None:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    assert [part for part in map(str, told) if part not in message] == []


def decoded(dataset: Dataset, row: np.ndarray) -> list[str]:
    return [dataset.vocabulary[code] for code in row if code]


def dataset_of(train: list[str], test: list[str], **knobs: Any) -> Dataset:
    """The first text of each side is negative, all others are positive."""
    sides = ((False, train), (True, test))
    reviews = [Review(text, row > 0, "here", side) for side, texts in sides for row, text in enumerate(texts)]
    return sequences("tiny", reviews, level="source", licence="none", **knobs)


# --- tokens ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("?! -- ' _ <br />", []),
        ("Good<br />bad<BR>worse<br/>end", ["good", "bad", "worse", "end"]),
        ("It’s rock'n'roll, don't", ["it's", "rock'n'roll", "don't"]),
        ("'quoted' dogs' ''", ["quoted", "dogs"]),
        ("snake_case x<y 3.5", ["snake", "case", "x", "y", "3", "5"]),
        ("CAFÉ naïve", ["café", "naïve"]),
        ("Guzm\ufffdn s\x1aance", ["guzm", "n", "s", "ance"]),
        ("brr <brave>", ["brr", "brave"]),
    ],
)
def test_tokens_are_words_in_lower_case(text: str, words: list[str]) -> None:
    assert tokens(text) == words


# --- sequences ---------------------------------------------------------------------------------------


def test_rows_are_padded_cut_and_unknown_words_marked() -> None:
    data = dataset_of(["a b", "a b a c"], ["c z a", "a a a a"], length=3)
    assert data.vocabulary == ("<pad>", "<unk>", "a", "b", "c")
    assert data.train.x.dtype == np.int32
    assert data.train.x.tolist() == [[2, 3, 0], [2, 3, 2]]
    assert data.test.x.tolist() == [[4, 1, 2], [2, 2, 2]]
    assert data.train.y.tolist() == [0, 1]
    assert data.train.y.dtype == np.int64
    assert data.classes == ("negative", "positive")
    assert data.test.groups["source"].tolist() == ["here", "here"]
    assert "pooled training reviews" in data.notes[0]
    assert data.notes[1] == "2 of 4 reviews truncated to their first 3 tokens"


def test_the_vocabulary_is_the_most_frequent_words_with_ties_by_the_word() -> None:
    data = dataset_of(["delta beta alpha beta", "gamma gamma beta"], ["x", "y"], vocabulary=5)
    assert data.vocabulary == ("<pad>", "<unk>", "beta", "gamma", "alpha")


def test_test_reviews_do_not_move_the_vocabulary() -> None:
    train = ["one two two", "three three three"]
    few, many = dataset_of(train, ["x", "y"]), dataset_of(train, ["one one one one", "four four five"])
    assert few.vocabulary == many.vocabulary
    assert (few.train.x == many.train.x).all()


def test_words_beyond_the_length_still_count_for_the_vocabulary() -> None:
    assert dataset_of(["a b", "b b"], ["b", "b"], length=1).vocabulary == ("<pad>", "<unk>", "b", "a")


def test_a_review_without_a_token_is_one_unknown_token() -> None:
    data = dataset_of(["", "word"], ["...", "word"], length=4)
    assert data.train.x[0].tolist() == [1, 0, 0, 0]
    assert data.test.x[0].tolist() == [1, 0, 0, 0]


def test_test_reviews_that_repeat_a_training_review_are_told() -> None:
    assert dataset_of(["a", "b"], ["b", "c"]).notes[2] == "1 of 2 test reviews repeat the text of a training review"
    assert len(dataset_of(["a", "b"], ["c", "d"]).notes) == 2


def test_reviews_without_a_side_are_held_out_by_label_and_source() -> None:
    free = [Review(f"word{i}", i % 2 == 0, ("books", "dvd")[i % 4 > 1], None) for i in range(400)]
    fixed = [Review("fixed for training", True, "imdb", False), Review("fixed for testing", False, "imdb", True)]
    data = sequences("mixed", [*fixed, *free], level="site", licence="none", test_share=0.25)
    sources = data.test.groups["site"]
    kinds = [int(((sources == s) & (data.test.y == y)).sum()) for s in ("books", "dvd") for y in (0, 1)]
    assert kinds == [25, 25, 25, 25]
    assert (sources == "imdb").sum() == (data.train.groups["site"] == "imdb").sum() == 1
    assert "testing" not in data.vocabulary
    again = sequences("mixed", [*fixed, *free], level="site", licence="none", test_share=0.25)
    assert again.checksum == data.checksum


@pytest.mark.parametrize(
    "knobs", [{"vocabulary": 2}, {"length": 0}, {"test_share": 0.0}, {"test_share": 1.5}, {"test_share": float("nan")}]
)
def test_impossible_knobs_are_refused(knobs: dict[str, Any]) -> None:
    refusal(lambda: dataset_of(["a"], ["b"], **knobs), "tiny", *knobs.values())


def test_no_review_or_none_on_one_side_is_refused() -> None:
    refusal(lambda: sequences("none", [], level="site", licence="none"), "none", "0 reviews")
    refusal(lambda: dataset_of(["a"], []), "tiny", "0 test rows")
    refusal(lambda: dataset_of([], ["a"]), "tiny", "0 training rows")
    refusal(
        lambda: sequences("one", [Review("a", True, "s", None)], level="site", licence="none"),
        "leaves no training or no test rows",
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=8), st.integers(3, 12), st.integers(1, 12))
def test_decoding_gives_back_the_tokens_known(texts: list[str], vocabulary: int, length: int) -> None:
    data = dataset_of(texts, texts, vocabulary=vocabulary, length=length)
    assert len(data.vocabulary) <= vocabulary
    assert len(set(data.vocabulary)) == len(data.vocabulary)
    known = set(data.vocabulary)
    for text, row in zip(texts, data.train.x, strict=True):
        wanted = [word if word in known else "<unk>" for word in tokens(text)[:length]]
        assert decoded(data, row) == (wanted or ["<unk>"])
        assert not row[max(len(wanted), 1) :].any()


# --- IMDB, as JSON -----------------------------------------------------------------------------------


def imdb_rows(each: int) -> list[dict[str, Any]]:
    """Blocks in the order of npm's file: the names of a folder sorted as text."""
    names = sorted(f"{number}_7.txt" for number in range(each))
    return [
        {"t": f"{start if name == '0_7.txt' else ''} {folder} {name}".strip(), "s": int(folder.endswith("pos"))}
        for start, folder in zip(STARTS, FOLDERS, strict=True)
        for name in names
    ]


def written(path: Path, rows: object) -> Path:
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def test_imdb_json_goes_by_side_label_and_number(tmp_path: Path) -> None:
    reviews = read_imdb_json(written(tmp_path / "reviews.json", imdb_rows(12_500)))
    assert len(reviews) == 50_000
    assert [review.text for review in reviews[1:3]] == ["train/neg 1_7.txt", "train/neg 2_7.txt"]
    for block, folder in enumerate(["train/neg", "train/pos", "test/neg", "test/pos"]):
        rows = reviews[12_500 * block : 12_500 * (block + 1)]
        assert [review.text.split(" ")[-2:] for review in rows] == [[folder, f"{i}_7.txt"] for i in range(12_500)]
        assert {review[1:] for review in rows} == {(folder.endswith("pos"), "imdb", folder.startswith("test"))}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows[:-1], "a list of 47 entries"),
        (lambda rows: {"reviews": rows}, "a JSON dict"),
        (lambda rows: [*rows[:5], {"t": "no label"}, *rows[6:]], "at index 5"),
        (lambda rows: [*rows[:5], {"t": 7, "s": 0}, *rows[6:]], "at index 5"),
        (lambda rows: [*rows[:5], "text", *rows[6:]], "at index 5"),
        (lambda rows: [*rows[:5], {"t": "a", "s": 2}, *rows[6:]], "at index 5"),
        (lambda rows: [*rows[:5], {"t": "a", "s": 1}, *rows[6:]], "the label 1 at index 5"),
        (lambda rows: [*rows[12:24], *rows[:12], *rows[24:]], "a review at index 0 that does not start with"),
        (lambda rows: [*rows[:24], *rows[36:], *rows[24:36]], "a review at index 24 that does not start with"),
    ],
)
def test_imdb_json_of_another_shape_is_refused(tmp_path: Path, change: Callable[[Any], Any], told: str) -> None:
    path = written(tmp_path / "reviews.json", change(imdb_rows(12)))
    refusal(lambda: read_imdb_json(path, each=12), path, told, "48 reviews", "fetch")


def test_imdb_json_that_is_no_json_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    refusal(lambda: read_imdb_json(path), path, "no file")
    refusal(lambda: read_imdb_json(tmp_path), tmp_path, "is a folder, not a file")
    for content in (b"", b'[{"t": "torn', b"\xff\xfe\xff", b"[" * 100_000):
        path.write_bytes(content)
        refusal(lambda: read_imdb_json(path), path, "JSON", "fetch")


# --- IMDB, as an archive -----------------------------------------------------------------------------


def archive(path: Path, members: list[tuple[str, bytes]], *extra: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for info in extra:
            file.addfile(info, io.BytesIO(bytes(info.size)))
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def imdb_members(each: int) -> list[tuple[str, bytes]]:
    """The same reviews as `imdb_rows`, as files."""
    names = [(folder, name) for folder in FOLDERS for name in sorted(f"{number}_7.txt" for number in range(each))]
    texts = [row["t"] for row in imdb_rows(each)]
    return [(f"aclImdb/{folder}/{name}", text.encode()) for (folder, name), text in zip(names, texts, strict=True)]


def test_imdb_archive_does_not_depend_on_its_order_and_equals_the_json(tmp_path: Path) -> None:
    members = imdb_members(12)
    other = [
        ("aclImdb/README", b"read me"),
        ("aclImdb/train/unsup/0_0.txt", b"no label"),
        ("aclImdb/train/urls_pos.txt", b"http://"),
        ("aclImdb/train/pos/._0_9.txt", b"a Mac was here"),
        ("elsewhere/train/pos/0_9.txt", b"another folder"),
    ]
    folder = tarfile.TarInfo("aclImdb/train/pos")
    folder.type = tarfile.DIRTYPE
    mixed = [*members, *other]
    random.Random(0).shuffle(mixed)
    reviews = read_imdb_archive(archive(tmp_path / "a.tar.gz", mixed, folder), each=12)
    assert reviews == read_imdb_archive(archive(tmp_path / "b.tar.gz", members), each=12)
    assert reviews == read_imdb_json(written(tmp_path / "reviews.json", imdb_rows(12)), each=12)


def test_imdb_archive_keeps_text_with_odd_bytes(tmp_path: Path) -> None:
    members = [(name, b"caf\xc3\xa9 \xff") for name, _ in imdb_members(1)]
    assert {r.text for r in read_imdb_archive(archive(tmp_path / "a.tar.gz", members), each=1)} == {"café \ufffd"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_imdb_archive_with_a_link_is_refused(tmp_path: Path, kind: bytes) -> None:
    link = tarfile.TarInfo("aclImdb/train/pos/0_7.txt")
    link.type, link.linkname = kind, "/etc/passwd"
    linked = archive(tmp_path / "links.tar.gz", imdb_members(2), link)
    refusal(lambda: read_imdb_archive(linked, each=2), linked, link.name, "link or a device")


def test_imdb_archive_with_a_huge_review_is_refused_and_other_members_may_be_large(tmp_path: Path) -> None:
    huge, skipped = tarfile.TarInfo("aclImdb/test/neg/9_1.txt"), tarfile.TarInfo("aclImdb/imdb.vocab")
    huge.size = skipped.size = 1_000_001
    path = archive(tmp_path / "huge.tar.gz", imdb_members(1), huge)
    refusal(lambda: read_imdb_archive(path, each=1), path, huge.name, "more than 1,000,000 bytes")
    assert len(read_imdb_archive(archive(tmp_path / "a.tar.gz", imdb_members(1), skipped), each=1)) == 4


def test_imdb_archive_that_is_torn_or_none_is_refused(tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.tar.gz", [(name, os.urandom(3000)) for name, _ in imdb_members(9)])
    torn = tmp_path / "torn.tar.gz"
    for size in (0, 7, 400, 20_000, 60_000):
        torn.write_bytes(whole.read_bytes()[:size])
        refusal(lambda: read_imdb_archive(torn, each=9), torn, "fetch")
    torn.write_bytes(b"<html>not found</html>" * 100)
    refusal(lambda: read_imdb_archive(torn), torn, "not an archive")
    refusal(lambda: read_imdb_archive(whole), whole, "9 reviews in aclImdb/train/neg", "12500 are needed")


# --- Amazon ------------------------------------------------------------------------------------------


def amazon_review(title: str, text: str) -> str:
    return (
        f"<review>\n<product_name>\nA & B\n</product_name>\n<rating>\n5.0\n</rating>\n<title>\n{title}\n</title>\n"
        f"<review_text>\n{text}\n</review_text>\n</review>\n"
    )


def amazon_files(folder: Path, contents: dict[str, bytes]) -> dict[str, Path]:
    files = {}
    for number, (key, content) in enumerate(contents.items()):
        files[key] = folder / f"{number}.review"
        files[key].write_bytes(content)
    return files


def test_amazon_reviews_are_title_and_text_of_every_domain(tmp_path: Path) -> None:
    two = amazon_review("Great", "I &quot;love&quot; it & you.\n\nReally") + amazon_review("", "Fine")
    contents = {
        "kitchen_&_housewares/positive.review": two.encode(),
        "kitchen_&_housewares/negative.review": (amazon_review("Bad", "") * 2).encode(),
        "books/negative.review": f"<data>\n{amazon_review('Bad', 'R&#38;D') * 2}</data>\n".encode(),
        "books/positive.review": amazon_review("Caf\u00e9", "s\x1aance").encode("latin-1") * 2,
    }
    reviews = read_amazon(amazon_files(tmp_path, contents), each=2)
    assert reviews == read_amazon(amazon_files(tmp_path, dict(reversed(contents.items()))), each=2)
    assert [review[1:] for review in reviews] == [
        (positive, source, None) for source in ("books", "kitchen") for positive in (False, False, True, True)
    ]
    assert [reviews[row].text for row in (0, 2, 4, 6, 7)] == [
        "Bad R&D",
        "Caf\ufffd s\x1aance",
        "Bad ",
        'Great I "love" it & you.\n\nReally',
        " Fine",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "0 reviews"),
        (amazon_review("a", "b").encode(), "1 reviews"),
        ((amazon_review("a", "b") * 2).encode()[: -len("</review>\n")], "damaged at review 2"),
        ((amazon_review("a", "b") * 2).encode()[:-40], "damaged at review 2"),
        ((amazon_review("a", "b") * 2).replace("<title>", "", 1).encode(), "damaged at review 1"),
    ],
)
def test_a_torn_amazon_file_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    whole = (amazon_review("a", "b") * 2).encode()
    files = amazon_files(tmp_path, {"dvd/negative.review": whole, "dvd/positive.review": content})
    refusal(lambda: read_amazon(files, each=2), files["dvd/positive.review"], told, "fetch")


def test_amazon_files_by_another_name_or_not_there_are_refused(tmp_path: Path) -> None:
    files = amazon_files(tmp_path, {"books/unlabeled.review": b""})
    refusal(lambda: read_amazon(files), "books/unlabeled.review", "positive.review")
    files = amazon_files(tmp_path, {"books/positive.review": b""})
    refusal(lambda: read_amazon(files), "not books/negative.review")
    absent = {f"books/{label}.review": tmp_path / "absent" for label in ("positive", "negative")}
    refusal(lambda: read_amazon(absent), tmp_path / "absent", "no file")


def test_a_text_that_occurs_twice_stays_on_one_side() -> None:
    """Where we cut ourselves: a published split is kept as it is, and a note says what it repeats."""
    reviews = [Review(f"text {n // 3}", n % 2 == 0, "a", None) for n in range(300)]
    data = sequences("r", reviews, level="source", licence="none", test_share=0.2)
    sides = [{tuple(row) for row in split.x.tolist()} for split in (data.train, data.test)]
    assert not sides[0] & sides[1]
    assert len(data.train) + len(data.test) == 300
    assert len(sides[0]) == 80
    assert not [note for note in data.notes if "repeat" in note]
    published = [Review("same", True, "a", False), Review("other", False, "a", False), Review("same", True, "a", True)]
    assert "1 of 1 test reviews repeat" in sequences("r", published, level="source", licence="none").notes[-1]


# --- the real files, where they are ------------------------------------------------------------------


def real(name: str) -> Path:
    path = Path(os.environ.get("SILOBENCH_TEST_DATA", "/nonexistent")) / name
    if not path.exists():
        pytest.skip(f"SILOBENCH_TEST_DATA has no {name}")
    return path


def test_the_real_amazon_reviews() -> None:
    folder = real("amazon_mdsd_4domains")
    reviews = read_amazon({f"{path.parent.name}/{path.name}": path for path in folder.glob("*/*.review")})
    assert len(reviews) == 8000
    assert {review.source for review in reviews} == {"books", "dvd", "electronics", "kitchen"}
    data = sequences("amazon", reviews, level="domain", licence="none")
    assert (data.train.x.shape, data.test.x.shape, len(data.vocabulary)) == ((6396, 200), (1604, 200), 10_000)
    assert not [note for note in data.notes if "repeat" in note]


def test_the_real_imdb_reviews() -> None:
    data = sequences("imdb", read_imdb_json(real("imdb/reviews.json")), level="site", licence="none")
    assert (data.train.x.shape, data.test.x.shape, len(data.vocabulary)) == ((25_000, 200), (25_000, 200), 10_000)
    assert decoded(data, data.train.x[0])[:5] == ["story", "of", "a", "man", "who"]
