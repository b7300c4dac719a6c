"""Try mutants of folders: python -m mutants [FOLDER ...] [--sample N] [--seed S] [--again] [--table]."""

import argparse
import importlib
import os
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # as in the tests' conftest.py, which is imported later

from mutants.campaign import confirm, plan, run
from mutants.plan import FOLDERS, ROOT
from mutants.sources import chosen
from mutants.survivors import stale
from mutants.table import markdown, score, unexplained_lines, write_page

# What mutants need and never change. Each child that imports a changed module has them already.
_LIBRARIES = (
    "cryptography.hazmat.primitives.asymmetric.x25519", "dp_accounting", "hypothesis.extra.numpy", "matplotlib.pyplot",
    "networkx", "pandas", "pyarrow.parquet", "pydantic", "rich.table", "scipy.optimize", "scipy.special", "scipy.stats",
    "sklearn.linear_model", "tenseal", "torch.func", "typer.testing",
)  # fmt: skip


def main() -> None:
    """Run the campaigns that the command line names, and print their scores."""
    arguments = _arguments()
    place, scores = arguments.out.absolute(), []
    names = arguments.folders or list(FOLDERS)
    if not arguments.table:
        _import_libraries()
    for folder in map(FOLDERS.__getitem__, names):
        mutants = chosen(folder.files(), arguments.seed, arguments.sample, arguments.seen, arguments.skip)
        if not arguments.table:
            campaign = plan(folder, mutants, place, arguments.limit)
            run(campaign, arguments.again)
            confirm(campaign)
        scores.append(score(folder, mutants, place))
    if arguments.markdown:
        write_page(arguments.markdown, scores)
    print(f"\n{markdown(scores)}\nSurvivors without an explanation:\n{unexplained_lines(scores) or 'none'}")
    if outdated := stale():
        raise SystemExit(f"survivors.toml explains changes that are not made any more: {outdated}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("mutants", description=__doc__)
    parser.add_argument("folders", nargs="*", choices=[*FOLDERS, []], help="default: all")
    parser.add_argument("--sample", type=int, help="how many mutants of each folder; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seen", type=int, default=0, help="leave out the first mutants of seed 0, which have tests")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first mutants of the rest, tried before")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of tests for one mutant")
    parser.add_argument("--again", action="store_true", help="try survivors again, with the tests as they are now")
    parser.add_argument("--table", action="store_true", help="show stored results, and try nothing")
    parser.add_argument("--markdown", type=Path, help="a page: write the scores and survivors between its marks")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "mutants", help="where results are stored")
    return parser.parse_args()


def _import_libraries() -> None:
    for library in _LIBRARIES:
        try:
            importlib.import_module(library)
        except ImportError:
            print(f"{library} is not installed: tests that need it are skipped.", file=sys.stderr)


main()
