"""Try every fault and print the table: `python -m gauntlet` with src and tests on PYTHONPATH."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from gauntlet import FAULTS
from gauntlet.outcome import Options, Outcome, merged
from gauntlet.table import plain, total, write_markdown
from silobench.processes import cores


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="gauntlet-") as folder:
        names = ("kills", "seed", "only", "jobs", "forks")
        options = Options(Path(folder), **{name: getattr(arguments, name) for name in names})
        outcomes: list[Outcome] = []
        for outcome in merged(options, arguments.merge) if arguments.merge else _with_progress(options):
            outcomes.append(outcome)
            if arguments.json:  # after each of them, because a campaign that is stopped has outcomes too
                arguments.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1) + "\n")
    print(plain(outcomes), total(outcomes), sep="\n")
    if arguments.markdown:
        write_markdown(arguments.markdown, outcomes)
    if not outcomes:
        sys.exit(f"--only {arguments.only!r} names no case: give a glob over 'fault / case'.")
    sys.exit(any(outcome.result == "lost" for outcome in outcomes))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gauntlet", description="Try faults on runs, and count what survives.")
    parser.add_argument("--kills", type=int, default=100, help="try at least this many kills (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="draws the moments of the faults (default: 0)")
    parser.add_argument("--jobs", type=int, default=cores(), help="number of commands at once (default: one per core)")
    parser.add_argument("--forks", action="store_true", help="spare commands the imports: several times as fast")
    parser.add_argument("--only", default="*", metavar="GLOB", help="try only the cases whose 'fault / case' matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome to a file")
    parser.add_argument(
        "--merge",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="try nothing: take outcomes of --json, the last of each case",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table to a file, between its marks")
    return parser.parse_args()


def _with_progress(options: Options) -> Iterator[Outcome]:
    """Yield outcomes, and print one line about each."""
    for fault in FAULTS:
        for outcome in fault.outcomes(options):
            print(
                f"{outcome.result:8}  {outcome.fault} / {outcome.case}  {outcome.detail}", file=sys.stderr, flush=True
            )
            yield outcome


if __name__ == "__main__":
    main()
