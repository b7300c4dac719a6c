"""Measure how long a dataset takes to load, from its files and from the cache, each in its own process.

python benchmarks/loading.py mnist cifar-10 covtype      # default: all that are in the data directory
"""

import shutil
import subprocess
import sys

from silobench.data.store.catalog import catalog, find
from silobench.data.store.directory import available, home_of

LOAD = """
import sys, time
import silobench
load = silobench.load  # import before the clock starts
began = time.perf_counter()
dataset = load(sys.argv[1])
print(time.perf_counter() - began, len(dataset.train) + len(dataset.test))
"""


def timed(name: str) -> tuple[float, int]:
    done = subprocess.run([sys.executable, "-c", LOAD, name], check=True, capture_output=True, text=True)
    seconds, rows = done.stdout.split()
    return float(seconds), int(rows)


names = sys.argv[1:] or [name for name, entry in catalog().items() if not entry.embedded and available(entry)]
print(f"{'dataset':16} {'rows':>9} {'files':>8} {'arrays':>8}")
for name in names:
    shutil.rmtree(home_of(find(name)) / ".cache", ignore_errors=True)
    first, rows = timed(name)
    again = min(timed(name)[0] for _ in range(3))
    print(f"{name:16} {rows:9,} {first:7.2f}s {again:7.3f}s")
