"""Targets that read data: files of tables, arrays, pictures and archives, agreements about columns, and objects.

Every target has a function that makes whole inputs from a random stream: sound ones, strange ones, and bombs. Its first
inputs are the seeds of the mutator, and hypothesis draws further ones.
"""

import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from fuzz.target import MEGABYTE, Target
from fuzz.targets.data import agreements, archives, arrays, objects, pictures, tables

_SEEDS = 40
_PICTURE = 2 * 16 * 89_478_485  # a peak may be half of it: 16 bytes per pixel of the largest picture
_WIDE = 2560 * MEGABYTE  # 100,000 columns take 10 kB each, and the threads that read them address space


def _target(
    name: str,
    run: Callable[[bytes], object],
    make: Callable[[Random], bytes],
    words: tuple[bytes, ...] = (),
    count: int = _SEEDS,
    **limits: Any,
) -> Target:
    """Return a target whose inputs `make` makes. Memory has room for the threads of the libraries in C."""

    def seeds() -> Sequence[bytes]:
        return [_made(make, f"{name} {number}") for number in range(count)]

    def strategy() -> Any:
        return st.integers(_SEEDS, 2**63).map(lambda number: _made(make, f"{name} {number}"))

    limits = {"memory": 1024 * MEGABYTE, "most_bytes": 64 << 10, **limits}
    return Target(name, run, seeds, strategy, words, **limits)


def _made(make: Callable[[Random], bytes], seed: str) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that write strange files
        return make(Random(seed))


_CELLS = (b"nan", b"1e999", b'"', b'""', b"\xef\xbb\xbf", b"\r", b"\t", b";", b"NA", b"2024-04-03", b"1.234,5")
_NPY = (b"\x93NUMPY", b"'descr'", b"(10, 2)", b"'|O'", b"'<f8'", b"True", b"PK\x03\x04", b"PK\x01\x02")
_HEADERS = (
    b"ustar",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"!<arch>\n",
    b"path",
    b"2",
    b"L",
)

TARGETS = (
    _target("data-csv", tables.read_csv_dataset, tables.csv_text, _CELLS),
    _target(
        "data-csv-wide", tables.read_csv_dataset, tables.wide_csv, _CELLS, 8, share=0.01, seconds=60.0, memory=_WIDE
    ),
    _target("data-parquet", tables.read_parquet_dataset, tables.parquet_file, (b"PAR1", b"pandas")),
    _target("data-libsvm", tables.read_libsvm_dataset, tables.libsvm_text, (b"1:1", b"qid:", b"#", b"4294967296:1")),
    _target("data-linked", tables.read_linked, tables.linked_files, _CELLS),
    _target("data-npz", arrays.read_npz, arrays.npz_file, _NPY),
    _target("data-new-rows", arrays.read_new_rows, arrays.rows_file, _NPY),
    _target("data-idx", arrays.read_idx_file, arrays.idx_file),
    _target("data-cifar", arrays.read_cifar, arrays.cifar_file, (b"cos\nsystem\n", b"R.", b"\x80\x02", b"0", b"2")),
    _target("data-leaf", arrays.read_leaf, arrays.leaf_file, (b'"x"', b"\\ud800", b"NaN", b"1e400")),
    _target("data-mat", arrays.read_mat, arrays.mat_file),
    _target("data-sound", arrays.read_sound, arrays.sound_file, (b"RIFF", b"fmt ", b"data")),
    _target("data-vectors", arrays.read_vectors_file, arrays.vectors_text),
    _target("data-archive", archives.read_members, archives.archive_file, _HEADERS),
    _target("data-import", archives.import_archive, archives.archive_file, _HEADERS, share=0.5),
    _target("data-picture", pictures.read_picture_file, pictures.picture_file, memory=_PICTURE),
    _target("data-columns", agreements.read_columns_text, agreements.columns_text, (b"[[column]]", b"kind", b"= ")),
    _target("data-silo", agreements.read_silo_rows, agreements.silo_files, _CELLS),
    _target("data-objects", objects.read_object, objects.number),
)
