"""What loading costs in memory, measured in a process of its own."""

import bz2
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROWS, COLUMNS, A_ROW = 20_242, 47_236, 76  # rcv1's shape, and its density of 0.16 %

# Not ru_maxrss: a process inherits that from the one that started it.
PEAK = """
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
"""

LOAD = """
import sys
from silobench.data.store.catalog import find
from silobench.data.store.directory import Files
from silobench.data.readers.tables import _read_rcv1

def read(folder):
    entry = find("rcv1")
    return _read_rcv1(Files(entry, "files", Path(folder), tuple(entry.files)))

read(sys.argv[1])
before = peak()
data = read(sys.argv[2])
print(*data.train.x.shape, data.train.x.nnz + data.test.x.nnz, data.train.x.dtype, len(data.test))
print(peak() - before)
"""


def growth(program: str, small: Path, large: Path) -> tuple[str, int]:
    """Return what a program prints, and the bytes by which loading the large data raises its peak of memory.

    It loads the small data first: what libraries need for themselves differs between builds, and is not counted. Arrow
    has one thread, because every thread holds blocks of its own.
    """
    command = [sys.executable, "-c", PEAK + program, str(small), str(large)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread)
    facts, grown = done.stdout.splitlines()
    return facts, int(grown)


def rcv1_like() -> list[str]:
    """Lines of LIBSVM text of rcv1's shape."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, COLUMNS // A_ROW, (ROWS, A_ROW)) + np.arange(A_ROW) * (COLUMNS // A_ROW) + 1)
    columns[0, -1] = COLUMNS
    values = rng.uniform(0.01, 0.3, A_ROW)
    labels = rng.choice(["-1", "1"], ROWS)
    cells = [f":{value:.6f} " for value in values]
    lines = ["".join(f"{c}{cell}" for c, cell in zip(row, cells, strict=True)) for row in columns.tolist()]
    return [f"{label} {line}\n" for label, line in zip(labels, lines, strict=True)]


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc shows the peak")


@LINUX
def test_rcv1_of_its_real_shape_needs_little_more_than_its_text_and_its_matrix(tmp_path: Path) -> None:
    lines = rcv1_like()
    for name, part in (("small", lines[:200]), ("large", lines)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rcv1_train.binary.bz2").write_bytes(bz2.compress("".join(part).encode(), 1))
    facts, grown = growth(LOAD, tmp_path / "small", tmp_path / "large")
    assert facts == f"{ROWS - 5_060} {COLUMNS} {ROWS * A_ROW} float32 5060"
    needed = sum(map(len, lines)) + ROWS * A_ROW * (4 + 4)  # float32 values and int32 places
    assert grown < 2 * needed, f"{grown / needed:.1f} times the text and the matrix"


LOAD_CSV = """
import sys
from silobench.data import csv

csv(sys.argv[1], label="y", group="site")
before = peak()
data = csv(sys.argv[2], label="y", group="site")
print(*data.train.x.shape, data.train.x.dtype, len(data.test))
print(peak() - before)
"""


@LINUX
def test_a_csv_of_200_000_rows_needs_little_more_than_its_text_and_its_matrix(tmp_path: Path) -> None:
    """Python texts alone, one per cell, have six times as many bytes: 56, and 8 of a pointer, for 7 characters."""
    rng = np.random.default_rng(0)
    numbers = np.char.mod("%.4f", rng.normal(size=(1000, 18)))
    header = ",".join([*(f"c{i}" for i in range(18)), "site", "y"]) + "\n"
    block = "".join(f"{','.join(row)},s{i % 20},{i % 2}\n" for i, row in enumerate(numbers.tolist()))
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    small.write_text(header + block)
    large.write_text(header + block * 200)
    facts, grown = growth(LOAD_CSV, small, large)
    assert facts == "160000 18 float32 40000"
    needed = large.stat().st_size + 200_000 * 18 * 4
    assert grown < 4 * needed, f"{grown / needed:.1f} times the text and the matrix"
