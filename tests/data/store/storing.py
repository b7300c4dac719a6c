"""Helpers for tests of the data directory and its cache: small files, a small dataset, a reader that counts calls."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from silobench.data.dataset import Dataset, Split
from silobench.data.store.catalog import Entry
from silobench.data.store.directory import Files, Manifest, describe, home_of, write_manifest

ONE, TWO = b"1,2,3\n" * 50, b"4,5,6\n" * 50


def put(root: Path, **content: bytes) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (root / name).write_bytes(data)


def record(toy: Entry, *names: str) -> None:
    root = home_of(toy)
    write_manifest(root, Manifest(files={name: describe(root / name, "here") for name in names}))


def change(path: Path, keep_times: bool = False) -> None:
    """Flip a byte in the middle of a file."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def dense() -> Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> Split:
        groups = {
            "writer": rng.integers(0, 5, n),
            "town": np.array(["Bern", "Oslo-am-See", "Zürich"])[rng.integers(0, 3, n)],
        }
        return Split(rng.integers(0, 255, (n, 3, 4, 4), dtype=np.uint8), rng.integers(0, 3, n), groups)

    return Dataset(
        "dense",
        split(40),
        split(10),
        ("a", "b", "c"),
        "odd",
        ("a note", "another"),
        {"model": "cnn"},
        augment="crop-flip",
    )


def same(left: Dataset, right: Dataset) -> None:
    facts = (
        "name",
        "classes",
        "licence",
        "notes",
        "task",
        "columns",
        "vocabulary",
        "augment",
        "checksum",
        "shape",
        "owners",
        "alignment",
    )
    for fact in facts:
        assert getattr(left, fact) == getattr(right, fact)
        assert type(getattr(left, fact)) is type(getattr(right, fact))
    assert dict(left.defaults) == dict(right.defaults)
    for a, b in ((left.train, right.train), (left.test, right.test)):
        assert sparse.issparse(a.x) == sparse.issparse(b.x)
        assert a.x.shape == b.x.shape
        assert a.x.dtype == b.x.dtype
        assert (a.x != b.x).sum() == 0
        assert a.y.dtype == b.y.dtype
        assert np.array_equal(a.y, b.y)
        assert list(a.groups) == list(b.groups)
        for level in a.groups:
            assert a.groups[level].dtype == b.groups[level].dtype
            assert np.array_equal(a.groups[level], b.groups[level])


class Reader:
    """Gives a dataset and counts how often it was asked."""

    def __init__(self, make: Callable[[], Dataset]) -> None:
        self.make, self.calls = make, 0

    def __call__(self, files: Files, **arguments: Any) -> Dataset:
        self.calls += 1
        assert files["a"].is_file()
        return self.make()
