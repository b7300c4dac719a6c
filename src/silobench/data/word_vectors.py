"""Published word vectors, such as GloVe: a catalogue entry of the task `vectors`, read once and then memory-mapped.

The file is text with one word per line: the word, then its numbers, separated by spaces.
"""

import functools
import hashlib
import json
import logging
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from silobench.data.readers.checks import bad_line, is_number, shorten
from silobench.data.readers.delimited import lines
from silobench.data.store.cache import new_folder
from silobench.data.store.catalog import catalog
from silobench.data.store.directory import data_dir, require, sha256, stamps
from silobench.data.table.words import SPECIAL
from silobench.errors import DataError, suggest

_LOG = logging.getLogger("silobench")
_FORMAT = 1  # of the cached arrays


@dataclass(frozen=True)
class WordVectors:
    """Vectors of words: `index` maps a word to its row, and `mean` is the vector of every other word."""

    index: dict[str, int]
    vectors: NDArray[np.float32]  # [words, dimensions], memory-mapped
    mean: NDArray[np.float32]  # [dimensions]

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def rows(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per word: ``[len(words), dimensions]``. A word without a vector gets the mean."""
        rows = np.tile(self.mean, (len(words), 1))
        known = [place for place, word in enumerate(words) if word in self.index]
        rows[known] = self.vectors[[self.index[words[place]] for place in known]]
        return rows


def vectors_names() -> list[str]:
    """Return the names of all word vectors of the catalogue."""
    return [entry.name for entry in catalog().values() if entry.task == "vectors"]


def word_vectors(name: str, words: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of `words` from the catalogue entry `name`, as float32 ``[len(words), dimensions]``.

    A word without a vector gets the mean of all vectors of the file. So do padding and the unknown word, which no
    file has.
    """
    rows, _ = _rows(name, tuple(words), str(data_dir()), tuple(stamps(name)))
    return rows.copy()


def coverage(name: str, words: Sequence[str]) -> tuple[int, int]:
    """Return how many of `words` have a vector in the catalogue entry `name`, and how many words there are.

    Padding and the unknown word do not count.
    """
    _, known = _rows(name, tuple(words), str(data_dir()), tuple(stamps(name)))
    return known, len(words) - sum(word in SPECIAL for word in words)


@functools.lru_cache(maxsize=4)  # the rows of a vocabulary take 2 MB, and all vectors 150 MB
def _rows(
    name: str, words: tuple[str, ...], folder: str, stamps: tuple[tuple[int, ...], ...]
) -> tuple[NDArray[np.float32], int]:
    """Return the vectors of words, and how many words are in the file."""
    vectors = load_vectors(name)
    return vectors.rows(words), sum(word in vectors for word in words if word not in SPECIAL)


def load_vectors(name: str) -> WordVectors:
    """Return all vectors of a catalogue entry; the first call reads the file, and later ones map the cached array."""
    if name not in vectors_names():
        raise DataError(f"the catalogue has no word vectors '{name}': {suggest(name, vectors_names())}")
    files = require(name)
    path = files[files.names[0]]
    if not files.managed:
        return _table(*_read(path))
    folder = files.root / ".cache" / f"vectors-{_FORMAT}-{sha256(path)[:16]}"
    cached = _read_cache(folder)
    if cached is not None:
        return cached
    _LOG.info("reading the word vectors %s from their file; later loads use the cached array", name)
    words, vectors = _read(path)
    with suppress(OSError):  # the vectors are usable without a cache, for example on a full disk
        _write_cache(folder, words, vectors)
    return _table(words, vectors)


def _table(words: Sequence[str], vectors: NDArray[np.float32]) -> WordVectors:
    mean = vectors.mean(0, dtype=np.float64).astype(np.float32)
    return WordVectors({word: row for row, word in enumerate(words)}, vectors, mean)


# --- the file ----------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Read the words and their vectors from a text file, which may be compressed."""
    words: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # warning about an empty table, which raises an error below
            vectors = np.loadtxt(_numbers(path, words), dtype=np.float32, delimiter=" ", comments=None, ndmin=2)
    except ValueError as error:
        raise _first_bad_line(path) or DataError(
            f"{path} cannot be read as word vectors ({error}): use the published file."
        ) from error
    rows_match = len(vectors) == len(words) == len(set(words))  # NumPy skips a line without numbers
    if not words or not rows_match or not np.isfinite(vectors).all():
        raise _first_bad_line(path) or DataError(f"{path} has no words: use the published file.")
    return words, vectors


def _numbers(path: Path, words: list[str]) -> Iterator[str]:
    """Yield the numbers of every line, as text, and append its word to `words`."""
    for _, line in lines(path, encoding="utf-8"):
        word, _, numbers = line.rstrip(" ").partition(" ")
        words.append(word)
        yield numbers


def _first_bad_line(path: Path) -> DataError | None:
    width, seen = 0, set()
    for number, line in lines(path, encoding="utf-8"):
        word, *cells = line.rstrip(" ").split(" ")
        width = width or len(cells)
        bad = next((cell for cell in cells if not is_number(cell)), None)
        if bad is not None:
            return bad_line(path, number, f"'{shorten(bad)}' after the word '{shorten(word)}'", "a number is needed")
        if len(cells) != width or not cells:
            return bad_line(path, number, f"{len(cells)} numbers", f"{max(width, 1)} are needed")
        if word in seen:
            return bad_line(path, number, f"the word '{shorten(word)}' again", "every word may occur once")
        seen.add(word)
    return None


# --- the cache ---------------------------------------------------------------------------------------


def _write_cache(folder: Path, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
    with new_folder(folder) as part:
        np.save(part / "vectors.npy", vectors, allow_pickle=False)
        (part / "words.json").write_text(json.dumps(words), encoding="utf-8")
        (part / "digest").write_text(_digest(part), encoding="utf-8")


def _read_cache(folder: Path) -> WordVectors | None:
    if not folder.is_dir():
        return None
    with suppress(OSError, ValueError):
        if (folder / "digest").read_text(encoding="utf-8") == _digest(folder):
            words = json.loads((folder / "words.json").read_bytes())
            return _table(words, np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False))
    shutil.rmtree(folder, ignore_errors=True)
    return None


def _digest(folder: Path) -> str:
    return hashlib.sha256("".join(sha256(folder / name) for name in ("vectors.npy", "words.json")).encode()).hexdigest()
