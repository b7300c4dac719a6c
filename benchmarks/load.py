"""Measure large numbers: 10,000 parties, a directory of 10,000 runs, a plan of 100,000 runs.

    python benchmarks/load.py                 # all three: about half an hour alone on two cores, 2 GB of disk
    python benchmarks/load.py parties         # one of: parties, directory, grid
    python benchmarks/load.py directory --folder DIR   # a folder that keeps the runs for the next time
    python benchmarks/load.py show            # the tables of docs/trust/load.md, from benchmarks/load.json
    python benchmarks/load.py page            # writes these tables into docs/trust/load.md

What is measured replaces the same part in benchmarks/load.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loads import directory, grid, parties
from loads.tables import tables
from scaling.page import renewed

ROOT = Path(__file__).parent
FILE = ROOT / "load.json"
PAGE = ROOT.parent / "docs" / "trust" / "load.md"


def in_process(module: str, argument: str) -> Any:
    """Return what a module measures in a process of its own."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", module, argument]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    return json.loads(done.stdout)


def measured(part: str, folder: Path, count: int | None) -> Iterator[Any]:
    """Yield the points of one part."""
    if part == "parties":
        return (in_process("loads.parties", json.dumps(job)) for job in parties.JOBS)
    if part == "grid":
        return (in_process("loads.grid", str(runs)) for runs in (grid.RUNS // 10, count or grid.RUNS))
    return directory.measured(folder, count or directory.RUNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", choices=["parties", "directory", "grid", "show", "page", []])
    parser.add_argument("--folder", type=Path, help="where the directory of runs is, or is made (default: temporary)")
    parser.add_argument("--count", type=int, help="runs of the directory or of the grid")
    options = parser.parse_args()
    chosen = options.part or ["parties", "directory", "grid"]
    study = json.loads(FILE.read_text()) if FILE.exists() else {}
    with tempfile.TemporaryDirectory(prefix="silobench-load-") as scratch:
        for part in chosen:
            if part in ("parties", "directory", "grid"):
                study[part] = []
                for point in measured(part, (options.folder or Path(scratch)).resolve(), options.count):
                    study[part].append(point)
                    FILE.write_text(json.dumps(study, indent=1) + "\n")  # so that a later failure loses nothing
    if "page" in chosen:
        PAGE.write_text(renewed(PAGE.read_text(), tables(study)))
    else:
        print("\n\n".join(f"## {name}\n\n{table}" for name, table in tables(study).items()))


if __name__ == "__main__":
    main()
