"""Word vectors: read from a text file of the published format, cached, and looked up with the mean for other words."""

import bz2
import hashlib
from pathlib import Path

import numpy as np
import pytest

from offline import use
from silobench.data.store.catalog import Entry, File
from silobench.data.word_vectors import coverage, load_vectors, word_vectors
from silobench.errors import DataError

TEXT = "the 1 2 3\nof -1 0.5 0\n, 0 0 3\nn't 4 1.5 -2\n"
MEAN = [1.0, 1.0, 1.0]


def store(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, managed: bool = True) -> Path:
    """Store `text` as the packed file of a catalogue entry of word vectors, the only one in the catalogue."""
    content = bz2.compress(text.encode())
    file = File(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    entry = Entry(
        name="tiny-3d", summary="s", task="vectors", licence="l", citation="c", files={"tiny.txt.bz2": file},
        forms={"packed": ("tiny.txt.bz2",)},
    )  # fmt: skip
    use(monkeypatch, entry)
    monkeypatch.setenv("SILOBENCH_DATA", str(folder))
    root = folder / "tiny-3d" / "1" if managed else folder / "tiny-3d"
    root.mkdir(parents=True, exist_ok=True)
    (root / "tiny.txt.bz2").write_bytes(content)
    return root


@pytest.mark.parametrize("managed", [True, False])
def test_words_get_their_vectors_and_others_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, managed: bool
) -> None:
    root = store(tmp_path, TEXT, monkeypatch, managed)
    words = ["<pad>", "<unk>", "n't", "the", "nosuch", "of", ","]
    rows = [MEAN, MEAN, [4, 1.5, -2], [1, 2, 3], MEAN, [-1, 0.5, 0], [0, 0, 3]]
    for _ in range(2):  # from the file, then from the cache if there is one
        vectors = word_vectors("tiny-3d", words)
        assert vectors.dtype == np.float32
        assert vectors.tolist() == rows
        vectors[:] = 0  # a caller owns what it gets
    assert coverage("tiny-3d", words) == (4, 5)
    assert "the" in load_vectors("tiny-3d")
    assert "nosuch" not in load_vectors("tiny-3d")
    assert (root / ".cache").exists() == managed


def test_a_damaged_cache_is_read_again_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = store(tmp_path, TEXT, monkeypatch)
    load_vectors("tiny-3d")
    (array,) = (root / ".cache").glob("*/vectors.npy")
    content = bytearray(array.read_bytes())
    content[-1] ^= 64  # a bit of the last number
    array.write_bytes(content)
    assert load_vectors("tiny-3d").rows(["n't"]).tolist() == [[4, 1.5, -2]]
    assert load_vectors("tiny-3d").index == {"the": 0, "of": 1, ",": 2, "n't": 3}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("the 1 2\nof 1\n", "1 numbers in line 2"),
        ("the 1 2\nof 1 x\n", "'x' after the word 'of' in line 2"),
        ("the 1 2\nof 1 nan\n", "'nan' after the word 'of' in line 2"),
        ("the 1 2\n\nthe 3 4\n", "the word 'the' again in line 3"),
        ("the\nof\n", "0 numbers in line 1"),
        ("", "no words"),
    ],
)
def test_a_file_of_another_format_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    store(tmp_path, text, monkeypatch)
    with pytest.raises(DataError, match=problem):
        word_vectors("tiny-3d", ["the"])


def test_a_name_that_has_no_vectors_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"no word vectors 'imdb'.*glove-50d"):
        word_vectors("imdb", ["the"])
    with pytest.raises(DataError, match="silobench data fetch glove-50d"):
        word_vectors("glove-50d", ["the"])
