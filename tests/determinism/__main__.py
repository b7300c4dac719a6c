"""Try whether the same experiment always gives the same bits.

python -m determinism matrix        kinds of runs by surroundings
python -m determinism check         suite cells against stored digests
python -m determinism record NAME   digests of this CPU type; with --avx2, as on a processor without AVX-512
python -m determinism sensitivity   what the first rounds of each cell make of one rounding
"""

import argparse
import json
import os
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from determinism.check import Outcome, check, made, nearest
from determinism.cpu import AVX2, type_facts
from determinism.digests import FOLDER, SENSITIVITY, read_sensitivity, recorded_types, write_digests, write_sensitivity
from determinism.matrix import Matrix, absence, markdown, matrix
from determinism.power import CHANGES, may_change, undetected
from determinism.sensitivity import sensitivity
from determinism.suite_cells import suite_cells
from determinism.variations import VARIATIONS


def _matrix(options: argparse.Namespace) -> int:
    table = Matrix([])
    if options.json and options.json.exists():
        table = Matrix.from_json(json.loads(options.json.read_text()))
    chosen = [each for each in VARIATIONS if not options.column or each.name in options.column]
    table.untried |= {each.name: reason for each in chosen if (reason := absence(each))}
    left = [each for each in chosen if each.name not in (*table.entries, *table.untried)]
    with tempfile.TemporaryDirectory(prefix="silobench-matrix-") as folder:
        for column, entries in matrix(Path(folder), left, options.row, _print_progress):
            table.entries[column] = entries
            table.rows = list(dict.fromkeys([*table.rows, *entries]))
            if options.json:
                options.json.write_text(json.dumps(table.as_json(), indent=1))
    if options.markdown:
        options.markdown.write_text(markdown(table))
    print(markdown(table))
    print("\n".join(table.problems))
    return 1 if table.problems else 0


def _check(options: argparse.Namespace) -> int:
    with _runs(options) as folder:
        files = [FOLDER / f"{options.against}.tsv"] if options.against else recorded_types()
        outcome = check(suite_cells(), Path(folder), read_sensitivity(), _print_progress, files)
    text = checked_table(outcome)
    if options.markdown:
        options.markdown.write_text(text)
    print(text)
    print("\n".join(outcome.problems))
    return 1 if outcome.problems else 0


def checked_table(outcome: Outcome) -> str:
    """Return the result of a check as a Markdown table."""
    head = ["| paper | cells | same bits |", "|---|---|---|"]
    lines = [f"| {paper} | {count} | {outcome.equal[paper]} |" for paper, count in outcome.cells.items()]
    facts = f" (another type: {', '.join(outcome.differs_in)})" if outcome.differs_in else ""
    end = f"Compared with {outcome.type_name} {outcome.way}{facts}: {len(outcome.problems)} problems."
    blunt = f" {outcome.blunt} cells depend too much on rounding for a comparison of losses." if outcome.blunt else ""
    return "\n".join([*head, *lines, "", end + blunt, ""])


def _record(options: argparse.Namespace) -> int:
    with _runs(options) as folder:
        digests = [made(cell, Path(folder)) for cell in suite_cells()]
    write_digests(FOLDER / f"{options.name}.tsv", type_facts(), digests)
    print(f"wrote {len(digests)} digests")
    return 0


def _sensitivity(options: argparse.Namespace) -> int:
    with _runs(options) as folder:
        known = {
            cell.plan.id: (made(cell, Path(folder)), sensitivity(cell.plan, Path(folder))) for cell in suite_cells()
        }
    write_sensitivity(SENSITIVITY, {id: values for id, (_, values) in known.items()})
    return 0


def _power(options: argparse.Namespace) -> int:
    _, _, digests = nearest(type_facts(), recorded_types())
    sensitivities, lines = read_sensitivity(), ["| change | cells | out of tolerance |", "|---|---|---|"]
    with _runs(options) as folder:
        for name, change in CHANGES.items():
            cells = [cell for cell in suite_cells() if may_change(cell, change)][:: options.every]
            missed = [
                cell.plan.name
                for cell in cells
                if undetected(cell, digests[cell.plan.id], sensitivities[cell.plan.id], change, Path(folder))
            ]
            lines.append(f"| {name} | {len(cells)} | {len(cells) - len(missed)} |")
            _print_progress("\n".join([f"{name}, within the tolerance:", *missed]))
    print("\n".join(lines))
    return 0


def _runs(options: argparse.Namespace) -> AbstractContextManager[str]:
    """Return the folder of runs: the one that is named, or one that is removed afterwards."""
    return nullcontext(str(options.runs)) if options.runs else tempfile.TemporaryDirectory(prefix="silobench-digests-")


def _print_progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m determinism", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("matrix", help="kinds of runs by surroundings")
    one.add_argument("--row", action="append", default=[], help="only this kind; may be repeated")
    one.add_argument("--column", action="append", default=[], help="only these surroundings; may be repeated")
    one.add_argument(
        "--json",
        type=Path,
        help="write the matrix with all differences; columns that this file has are not tried again",
    )
    one.add_argument("--markdown", type=Path, help="write the table")
    one.set_defaults(run=_matrix)
    for name, run in (("check", _check), ("record", _record), ("sensitivity", _sensitivity), ("power", _power)):
        other = commands.add_parser(name)
        other.add_argument("--runs", type=Path, help="a folder for the runs; finished ones are not made again")
        other.add_argument("--avx2", action="store_true", help="run as on a processor without AVX-512")
        other.set_defaults(run=run)
        if name == "check":
            other.add_argument("--markdown", type=Path, help="write the table")
            other.add_argument("--against", help="a recorded CPU type; the nearest one by default")
        if name == "power":
            other.add_argument("--every", type=int, default=1, help="try one of so many cells")
        if name == "record":
            other.add_argument("name", help="the name of the CPU type, such as avx512")
    options = parser.parse_args()
    if getattr(options, "avx2", False) and "ATEN_CPU_CAPABILITY" not in os.environ:  # libraries read it when they start
        os.execve(sys.executable, [sys.executable, "-m", "determinism", *sys.argv[1:]], {**os.environ, **AVX2})
    return int(options.run(options))


sys.exit(main())
