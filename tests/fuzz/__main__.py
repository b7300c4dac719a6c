"""Run a campaign: `python -m fuzz [TARGET...] --inputs N --seed S`."""

import fuzz.coverage  # noqa: F401, I001 - first: it changes how silobench is imported
import argparse
import os
import sys
import tempfile
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from fuzz.drive import Row, drive, drivers_of, findings_of
from fuzz.guard import Finding, check
from fuzz.minimise import minimised
from fuzz.table import markdown, store, stored_rows, write_page
from fuzz.target import Target, all_targets
from fuzz.worker import warm_up


def main() -> int:
    """Run a campaign and return the exit code: 1 if there is a finding."""
    options = _options()
    targets = [target for target in all_targets().values() if _is_chosen(target, options.targets)]
    if not targets:
        print(f"no target has such a name: choose from {', '.join(all_targets())}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(target.name for target in targets))
        return 0
    if options.input:
        return _read_one(targets[0], options.input)
    rows, stored = [], stored_rows(options.json) if options.json else []
    if "hypothesis" in (options.drivers or ["hypothesis"]):
        warm_up()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        for target in targets if options.inputs else ():
            rows += _campaign(target, options, Path(place).resolve())
            stored = store(rows, options.json) if options.json else rows  # after each: a campaign may be cut off
    if options.markdown:
        write_page(stored, options.markdown)
    print(markdown(rows or stored))
    return int(any(row.findings for row in rows or stored))


def _campaign(target: Target, options: argparse.Namespace, place: Path) -> list[Row]:
    """Hand inputs to one target with each driver, and print the rows."""
    drivers = [driver for driver in drivers_of(target) if driver in (options.drivers or drivers_of(target))]
    inputs = max(1, round(options.inputs * target.share / max(1, len(drivers))))
    rows = []
    for driver in drivers:
        folder = place / target.name / driver
        row = drive(target, driver, inputs, options.seed, folder)
        print(
            f"{target.name:24} {driver:10} {row.inputs:7} inputs {row.findings} findings {row.seconds:.0f} s",
            flush=True,
        )
        for finding in findings_of(folder):
            _keep(target, finding, options.findings)
        rows.append(row)
    return rows


def _keep(target: Target, finding: Finding, folder: Path) -> None:
    """Write a finding with a small input, and print it."""
    is_slow = finding.kind in ("crash", "hang", "breach", "time", "memory")
    data = finding.data if is_slow else _small(target, finding)
    name = "-".join("".join(c if c.isalnum() else " " for c in finding.place).split())[:80]
    file = folder / target.name / f"{finding.kind}-{name}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    print(f"  {finding.kind}: {finding.place}: {finding.detail[:200]}\n    {len(data)} bytes in {file}", flush=True)


def _small(target: Target, finding: Finding) -> bytes:
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        os.chdir(place)
        try:
            target.seeds()
            return minimised(target, finding)
        finally:
            os.chdir(before)


def _read_one(target: Target, file: Path) -> int:
    """Read one input from a file and print what became of it."""
    data = file.read_bytes()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        os.chdir(place)
        target.seeds()
        outcome = check(target, data)
    print(outcome if outcome.finding is None else replace(outcome.finding, data=b""))
    return int(outcome.finding is not None)


def _is_chosen(target: Target, patterns: list[str]) -> bool:
    return not patterns or any(fnmatch(target.name, pattern) for pattern in patterns)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description="Hand inputs to everything that reads bytes.")
    parser.add_argument("targets", nargs="*", help="names or globs; all if none")
    parser.add_argument("--inputs", type=int, default=2000, help="for each target, over its drivers; 0: only print")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drivers", nargs="*", choices=("atheris", "hypothesis", "mutator"))
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"), help="where findings are written")
    parser.add_argument("--json", type=Path, help="a file of counts, to which the rows are added")
    parser.add_argument("--markdown", type=Path, help="a page whose table is written anew")
    parser.add_argument("--input", type=Path, help="read only this file, with the first target")
    parser.add_argument("--list", action="store_true", help="print the names of the targets")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
