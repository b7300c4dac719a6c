"""What loading costs in memory, measured in a process of its own."""

import bz2
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROWS, COLUMNS, A_ROW = 20_242, 47_236, 76  # rcv1's shape, and its density of 0.16 %

LOAD = """
import sys
from pathlib import Path
from silobench.data.store.catalog import find
from silobench.data.store.directory import Files
from silobench.data.readers.tables import _read_rcv1

entry, root = find("rcv1"), Path(sys.argv[1])
data = _read_rcv1(Files(entry, "files", root, tuple(entry.files)))
print(*data.train.x.shape, data.train.x.nnz + data.test.x.nnz, data.train.x.dtype, len(data.test))
# Not ru_maxrss: a process inherits that from the one that started it.
print(*(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


def rcv1_like() -> bytes:
    """LIBSVM text of rcv1's shape."""
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, COLUMNS // A_ROW, (ROWS, A_ROW)) + np.arange(A_ROW) * (COLUMNS // A_ROW) + 1)
    columns[0, -1] = COLUMNS
    values = rng.uniform(0.01, 0.3, A_ROW)
    labels = rng.choice(["-1", "1"], ROWS)
    cells = [f":{value:.6f} " for value in values]
    lines = ["".join(f"{c}{cell}" for c, cell in zip(row, cells, strict=True)) for row in columns.tolist()]
    return "".join(f"{label} {line}\n" for label, line in zip(labels, lines, strict=True)).encode()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak")
def test_rcv1_of_its_real_shape_loads_in_less_than_300_mb(tmp_path: Path) -> None:
    (tmp_path / "rcv1_train.binary.bz2").write_bytes(bz2.compress(rcv1_like(), 1))
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    facts, peak = done.stdout.splitlines()
    assert facts == f"{ROWS - 5_060} {COLUMNS} {ROWS * A_ROW} float32 5060"
    assert int(peak) < 300_000, f"{int(peak) / 1000:.0f} MB"


LOAD_CSV = """
import sys
from pathlib import Path
from silobench.data import csv

data = csv(sys.argv[1], label="y", group="site")
print(*data.train.x.shape, data.train.x.dtype, len(data.test))
print(*(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the peak")
def test_a_csv_of_200_000_rows_loads_in_less_than_400_mb(tmp_path: Path) -> None:
    """A float64 matrix and a list of Python texts per column, as in earlier versions, need 600 MB."""
    rng = np.random.default_rng(0)
    numbers = np.char.mod("%.4f", rng.normal(size=(1000, 18)))
    block = "".join(f"{','.join(row)},s{i % 20},{i % 2}\n" for i, row in enumerate(numbers.tolist()))
    path = tmp_path / "t.csv"
    path.write_text(",".join([*(f"c{i}" for i in range(18)), "site", "y"]) + "\n" + block * 200)
    done = subprocess.run([sys.executable, "-c", LOAD_CSV, str(path)], check=True, capture_output=True, text=True)
    facts, peak = done.stdout.splitlines()
    assert facts == "160000 18 float32 40000"
    assert int(peak) < 400_000, f"{int(peak) / 1000:.0f} MB"
