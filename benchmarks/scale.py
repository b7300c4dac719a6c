"""Measure what runs with 10 to 10,000 parties cost, fit a cost model, and predict a million parties and 100 nodes.

    python benchmarks/scale.py measure            # about half an hour: writes benchmarks/scale.json
    python benchmarks/scale.py measure --beyond   # also 100,000 and a million parties: some minutes more, 5 GB
    python benchmarks/scale.py measure --only native   # one kind of jobs; the points of the others stay
    python benchmarks/scale.py show               # prints the tables of docs/scale.md from benchmarks/scale.json
    python benchmarks/scale.py page               # writes these tables into docs/scale.md

`measure` adds to what the file has: of several measurements of a case the least counts. `--anew` forgets earlier ones.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from scaling.measuring import jobs, least, machine, measured
from scaling.model import Point
from scaling.page import renewed
from scaling.study import Study
from scaling.tables import tables

FILE = Path(__file__).parent / "scale.json"
PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def read(file: Path = FILE) -> Study:
    """Read the stored measurements."""
    content = json.loads(file.read_text())
    return Study(content["machine"], tuple(map(Point.from_json, content["points"])))


def store(study: Study, file: Path = FILE) -> None:
    """Write measurements, one per line."""
    lines = ",\n".join(json.dumps(point.as_json()) for point in study.points)
    file.write_text(f'{{"machine": {json.dumps(study.machine)},\n"points": [\n{lines}\n]}}\n')


def measure(file: Path, only: str, fewest: int, beyond: bool, anew: bool) -> None:
    """Measure all jobs of a kind with at least `fewest` parties, and store the points after each."""
    points = [] if anew or not file.exists() else list(read(file).points)
    chosen = [(kind, job) for kind, job in jobs(beyond) if only in kind and job["parties"] >= fewest]
    for place, (kind, job) in enumerate(chosen, 1):
        began = time.monotonic()
        points = least([*points, *measured(kind, job)])
        store(Study(machine(), tuple(points)), file)
        seconds = time.monotonic() - began
        print(f"{place} of {len(chosen)}: {kind}, {job['parties']:,} parties, {seconds:.0f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("measure", "show", "page"))
    parser.add_argument("--only", default="", help="measure jobs of this kind: whole, native, inline or ray")
    parser.add_argument("--fewest", type=int, default=0, help="measure jobs with at least this many parties")
    parser.add_argument("--beyond", action="store_true", help="measure 100,000 and a million parties too")
    parser.add_argument("--anew", action="store_true", help="forget earlier measurements")
    parser.add_argument("--file", type=Path, default=FILE, help="the measurements (default benchmarks/scale.json)")
    options = parser.parse_args()
    if options.command == "measure":
        measure(options.file, options.only, options.fewest, options.beyond, options.anew)
    elif options.command == "page":
        PAGE.write_text(renewed(PAGE.read_text(), tables(read(options.file))))
    else:
        for name, table in tables(read(options.file)).items():
            print(f"## {name}\n\n{table}\n")


if __name__ == "__main__":
    main()
