"""Measure readers of a CSV table with a million rows: core-seconds and peak memory, each in its own process.

python benchmarks/tables.py            # or: python benchmarks/tables.py 100000 for fewer rows

The table has 14 columns of decimals (one with empty cells), 2 of whole numbers, 3 of texts and a label. Only the first
two readers return a dataset (features, labels, groups, held-out rows); the others stop when the columns are in memory.
"""

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

START = """
import sys, time
from pathlib import Path
path = sys.argv[1]
"""
END = """
seconds = time.process_time() - began
status = Path("/proc/self/status").read_text().splitlines()
print(seconds, *(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
CLOCK = "began = time.process_time()\n"
TEXTS = """
names = open(path).readline().strip().split(",")
options = csv.ConvertOptions(column_types={name: pyarrow.string() for name in names})
"""
READERS = {
    "silobench csv(...)": ("from silobench.data import csv", "csv(path, label='y', group='site')"),
    "Python's csv, float(), one float64 matrix": ("from tables import plain", "plain(path)"),
    "pandas.read_csv": ("import pandas", "pandas.read_csv(path)"),
    "pyarrow, types inferred": ("from pyarrow import csv", "csv.read_csv(path)"),
    "pyarrow, texts": (
        f"import pyarrow\nfrom pyarrow import csv{TEXTS}",
        "csv.read_csv(path, convert_options=options)",
    ),
    "polars, types inferred": ("import polars", "polars.read_csv(path)"),
    "polars, texts": ("import polars", "polars.read_csv(path, infer_schema=False)"),
}


def write_table(path: Path, rows: int) -> None:
    """Write the table in blocks."""
    rng = np.random.default_rng(0)
    header = [*(f"n{i}" for i in range(14)), "age", "visits", "sex", "ward", "site", "y"]
    with path.open("w") as file:
        file.write(",".join(header) + "\n")
        for begin in range(0, rows, 50_000):
            count = min(50_000, rows - begin)
            columns = [np.char.mod("%.4f", rng.normal(0, 10, count)) for _ in range(14)]
            columns[3] = np.where(rng.random(count) < 0.02, "", columns[3])
            columns += [rng.integers(18, 97, count).astype(str), rng.integers(0, 40, count).astype(str)]
            columns += [np.char.add(name, rng.integers(0, most, count).astype(str)) for name, most in
                        (("sex", 2), ("ward", 12), ("site", 20))]  # fmt: skip
            columns.append(np.where(rng.random(count) < 0.15, "died", "alive"))
            lines = map(",".join, zip(*(column.tolist() for column in columns), strict=True))
            file.write("\n".join(lines) + "\n")


def plain(path: str) -> None:
    """Read the table as silobench did before it used Arrow."""
    import csv

    from silobench.data.dataset import Split, hold_out, standardise

    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    table = {name: list(cells) for name, cells in zip(rows[0], zip(*rows[1:], strict=True), strict=True)}
    labels = np.unique([cell.strip() for cell in table.pop("y")], return_inverse=True)[1]
    groups = {"site": np.array([cell.strip() for cell in table.pop("site")])}
    blocks = []
    for cells in table.values():
        try:
            blocks.append(np.array([float(cell) if cell.strip() else np.nan for cell in cells])[:, None])
        except ValueError:
            names, codes = np.unique([cell.strip() for cell in cells], return_inverse=True)
            blocks.append(np.eye(len(names))[codes])
    train, test = hold_out(Split(np.concatenate(blocks, axis=1), labels, groups), 0.2)
    means = np.nanmean(train.x, 0)
    sides = [Split(np.where(np.isnan(side.x), means, side.x), side.y, side.groups) for side in (train, test)]
    standardise(*sides)


def measured(setup: str, call: str, path: Path) -> tuple[float, float]:
    """Return the core-seconds of a call and the peak memory of its process in MB."""
    code = f"{START}{setup}\n{CLOCK}table = {call}\n{END}"
    folder = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True, cwd=folder
    )
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak) / 1000


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, rows)
        print(f"{rows:,} rows x 20 columns, {path.stat().st_size / 1e6:.0f} MB")
        print(f"{'reader':44} {'core-seconds':>12} {'peak MB':>9}")
        for name, (setup, call) in READERS.items():
            if find_spec(name.split(",")[0].split(".")[0].split()[0].replace("Python's", "csv")) is None:
                continue  # pandas and Polars are not needed for anything else
            seconds, peak = measured(setup, call, path)
            print(f"{name:44} {seconds:12.1f} {peak:9.0f}")
