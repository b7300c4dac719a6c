"""Helpers for tests of images: random pixels, and files of an entry that is not in the catalogue."""

import gzip
from functools import partial
from pathlib import Path

import numpy as np

from silobench.data.readers.image_arrays import Pixels
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import Files

RNG = np.random.default_rng(0)
zipped = partial(gzip.compress, mtime=0)  # or the name of a test would change with the clock


def files_of(root: Path, *names: str, form: str = "files", pattern: bool = False) -> Files:
    """Files of a made-up entry: the catalogue's sums would refuse them."""
    listed = {} if pattern else {name: File() for name in names}
    forms = {form: ("*",) if pattern else names}
    return Files(Entry(name="x", summary="", licence="L", citation="", files=listed, forms=forms), form, root, names)


def pixels(*shape: int) -> Pixels:
    return RNG.integers(0, 256, shape, dtype=np.uint8)
