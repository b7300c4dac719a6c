"""Compare the engines that need no compiler: `stacked` against `inline` and `pool`, in turns, as ratios.

    python benchmarks/engines.py                                  # all cases, about fifteen minutes
    python benchmarks/engines.py --only "adult mlp" --repeats 3   # cases whose name contains a text

The compilers are hidden, so the native step cannot be used. Random rows replace datasets that are not on this machine.
"""

import argparse
import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

os.environ |= {"CC": "/bin/false", "CXX": "/bin/false"}

from bench import ours
from harness import Measured, measure
from prepare import prepare
from report import markdown, ratios, spread
from workloads import WORKLOADS, Workload

_ADULT, _TEXT = WORKLOADS["W2"], WORKLOADS["W5"]
_LINEAR = {"model": "linear", "widths": ()}
CASES = (
    replace(_ADULT, name="adult mlp, 10 parties", epochs=1),
    replace(_ADULT, name="adult mlp, 100 parties", parties=100, cohort=100, epochs=1),
    replace(_ADULT, name="adult linear, 10 parties", **_LINEAR, epochs=1),
    replace(_ADULT, name="adult linear, 100 parties", **_LINEAR, parties=100, cohort=100, epochs=1),
    replace(_ADULT, name="adult mlp(256), 10 parties", model="mlp(256)", widths=(256,), epochs=1),
    replace(_ADULT, name="digits mlp, 10 parties", dataset="digits"),
    replace(WORKLOADS["W3"], name="mnist linear, 10 of 1,000 parties", unit=10, eval_every=10),
    replace(WORKLOADS["W6"], name="covtype mlp, 10 parties"),
    replace(_TEXT, name="sparse mlp, 10 parties"),
    replace(_TEXT, name="sparse mlp, 100 parties", parties=100, cohort=100),
    replace(_TEXT, name="sparse linear, 10 parties", **_LINEAR),
)
ENGINES = ("stacked", "pool", "stacked(workers=1)", "inline")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose name contains this text")
    parser.add_argument("--repeats", type=int, default=5, help="how often each engine takes its turn (default 5)")
    options = parser.parse_args()
    rows = [compare(case, options.repeats) for case in CASES if options.only in case.name]
    print(markdown(["case", "pool, s / round", "pool / stacked", "inline / stacked, one process"], rows))


def compare(case: Workload, repeats: int) -> list[str]:
    """Measure one case; return its row of the table."""
    with tempfile.TemporaryDirectory(prefix="sb-") as scratch:
        folder = Path(scratch) / "material"
        prepare(case, folder)
        times = measure([ours(engine, engine) for engine in ENGINES], folder, case.unit, repeats, memory_first=False)
    row = [case.name, f"{statistics.median(times['pool'].seconds) / case.unit:.3g}", *map(spread, gains(times))]
    print(" | ".join(row), flush=True)
    return row


def gains(times: dict[str, Measured]) -> tuple[list[float], list[float]]:
    """Return how many times as fast stacked is: on all cores against pool, and on one core against inline."""
    return ratios(times, "pool", "stacked"), ratios(times, "inline", "stacked(workers=1)")


if __name__ == "__main__":
    main()
