"""The command `leaderboard`: ranks of methods, checks of submissions, and records of many runs in one file."""

import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.groups import FirstByDefault
from silobench.cli.options import DataDir, Json, LoadedPlugins, Out, Plugins
from silobench.cli.output import print
from silobench.cli.results import report_damage
from silobench.cli.sources import read_all
from silobench.errors import ConfigError, RecordError

if TYPE_CHECKING:
    from silobench.analysis.budget import Budget
    from silobench.analysis.contests import Contest
    from silobench.analysis.leaderboard import Board
    from silobench.runs.results import Results
    from silobench.runs.stored import StoredRun
    from silobench.runs.verdict import Verdict

_LOG = logging.getLogger(__name__)
_REFUSED, _WEAKER = 1, 3  # exit codes of a check


app = typer.Typer(
    name="leaderboard",
    cls=FirstByDefault,
    help="Rank methods by stored runs: `leaderboard DIR...`. Check a submission, and pack records into one file.",
    no_args_is_help=True,
)

_Directories = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR...",
        help="Directories of runs, or files of records; with --published, also names of studies, or globs.",
    ),
]
_Published = Annotated[
    bool, typer.Option("--published", help="Add the runs that come with silobench, or those of the named studies.")
]
_MaxBytes = Annotated[str | None, typer.Option(help="Count the score before more is sent, such as 500kB or 2GB.")]
_MaxSeconds = Annotated[float | None, typer.Option(help="Count the score before more virtual time has passed.")]
_MaxEpsilon = Annotated[
    float | None, typer.Option(help="Count the score before more privacy is spent; runs without a guarantee are out.")
]
_Output = Annotated[
    Path | None,
    typer.Option("--output", "--out", help="The page to write. Default: leaderboard.html in the first directory."),
]


@app.command()
def rank(
    directories: _Directories = None, published: _Published = False,
    dataset: Annotated[str, typer.Option(help="Only datasets whose name matches this glob.")] = "*",
    skew: Annotated[str, typer.Option(help="Only settings with this kind of skew, such as label; a glob.")] = "*",
    method: Annotated[str, typer.Option(help="Only methods that match this glob; ranks are among them.")] = "*",
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Count the score after this many rounds.")] = None,
    max_bytes: _MaxBytes = None, max_seconds: _MaxSeconds = None, max_epsilon: _MaxEpsilon = None,
    output: _Output = None, json_: Json = False, plugin: LoadedPlugins = None,
) -> None:  # fmt: skip
    """Rank methods in each setting, with ties where no difference is decided, and over settings; write a page.

    `leaderboard DIR...` is the same.
    """
    from silobench.analysis.contests import Choice, chosen, contests
    from silobench.analysis.leaderboard import board_json, board_of
    from silobench.papers import REFERENCES

    budget = _budget(max_rounds, max_bytes, max_seconds, max_epsilon)
    results = read_all(directories or [], published)
    with waiting("ranking the methods"):
        runs = finished(results)
        settings = chosen(contests(runs, REFERENCES), Choice(dataset, skew, method))
        board = board_of(settings, budget)
    if json_:
        print(json.dumps(board_json(board), indent=1))
    else:
        _print(board)
    if output or not json_:
        with waiting("writing the page"):
            page = _write(settings, board, runs, output or _default_page(directories or []))
        if not json_:
            print(f"page: {page.resolve()}")
            _print_limit(runs, budget)
    report_damage(results)


def _default_page(directories: Sequence[Path]) -> Path:
    folder = next((path for path in directories if path.is_dir()), Path())
    return folder / "leaderboard.html"


def _write(settings: "Sequence[Contest]", board: "Board", runs: "Sequence[StoredRun]", path: Path) -> Path:
    """Write the page, with further budgets to choose from if the command line has none."""
    from silobench.analysis.leaderboard import board_of
    from silobench.report.leaderboard import budgets_of, write_board

    budgets = [] if board.budget else budgets_of(runs)
    return write_board([board, *(board_of(settings, budget) for budget in budgets)], path)


def _print_limit(runs: "Sequence[StoredRun]", budget: "Budget") -> None:
    """Print that a page of very many runs has no budgets to choose from."""
    from silobench.report.leaderboard import MOST_WITH_BUDGETS, NO_BUDGETS

    if len(runs) > MOST_WITH_BUDGETS and not budget:
        print(NO_BUDGETS)


def finished(results: "Results") -> "list[StoredRun]":
    """Return the finished runs; without one, raise what is wrong."""
    if not (runs := [run for run in results.runs if run.complete]):
        report_damage(results)
        raise RecordError("none of these runs is finished: run the experiment to its end first.")
    return runs


def _budget(rounds: int | None, sent: str | None, seconds: float | None, epsilon: float | None) -> "Budget":
    from silobench.analysis.budget import Budget
    from silobench.analysis.units import bytes_of

    limit = None if sent is None else bytes_of(sent)
    if limit is not None and not 0 < limit < math.inf:
        raise ConfigError(f"--max-bytes must be a size such as 500kB or 2GB, but '{sent}' was given.")
    for name, value in (("--max-seconds", seconds), ("--max-epsilon", epsilon)):
        if value is not None and not 0 < value < math.inf:
            raise ConfigError(f"{name} must be a number above 0, but {value} was given.")
    return Budget(rounds, limit, seconds, epsilon)


def _print(board: "Board") -> None:
    from silobench.analysis.board_tables import contests_table, standings_table
    from silobench.cli.terminal import print_table

    if board.standings:
        print_table(standings_table(board))
    elif board.budget and any(one.contest.outside for one in board.contests):
        print(
            f"no setting has two methods inside the budget ({board.budget.text}), so nothing is ranked: give a larger "
            f"one{', or runs with a guarantee of differential privacy' * (board.budget.epsilon is not None)}."
        )
    else:
        print("no setting has two methods with two shared seeds, so nothing is ranked: run with --trials 3 or more.")
    print_table(contests_table(board))


@app.command()
def check(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The submission: a directory of runs.")],
    runs: Annotated[int, typer.Option(min=1, help="How many runs to repeat; they are chosen at random.")] = 3,
    all_: Annotated[bool, typer.Option("--all", help="Repeat every run.")] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Repeat only this many rounds of each run; to the end by default.")
    ] = None,
    json_: Json = False,
    plugin: Plugins = None,
    trust: Annotated[
        list[Path] | None,
        typer.Option("--trust", help="A model file of the submission, module(path=FILE), that may be executed."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Check a submission: complete, untampered, and the same numbers if runs are repeated.

    Exit code 0 if it is accepted, 1 if it is refused, 2 if it cannot be checked, and 3 if it is accepted, but not to
    the last bit.
    """
    with waiting("loading"):
        from silobench.runs.verdict import check_submission
    total = "all" if all_ else str(runs)

    def report(run: "StoredRun", place: int, number: int) -> None:
        facts = {"step": f"repeating run {place + 1} of {total}, {run.path.name}", "done": number}
        _LOG.info("", extra={**facts, "total": rounds or len(run.rounds)})

    with waiting("checking the records"):
        verdict = check_submission(directory, None if all_ else runs, rounds, plugin or (), report, trust or ())
    if json_:
        print(json.dumps(verdict.as_json(), indent=1))
    else:
        _print_verdict(verdict, directory)
    if not verdict.accepted:
        raise typer.Exit(_REFUSED if verdict.problems else _WEAKER)


def _print_verdict(verdict: "Verdict", directory: Path) -> None:
    from silobench.cli.terminal import print_lines

    print_lines(f"{directory} is {verdict.outcome}", verdict.problems)
    for title, lines in (("verified", verdict.verified()), ("not verified", verdict.not_verified())):
        if lines:
            print_lines(title, lines)


@app.command()
def pack(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs, or files of records.")
    ],
    output: Annotated[Path, typer.Option("--output", "--out", help="The file to write: NAME.runs.xz.")],
    title: Annotated[str, typer.Option(help="One line about these runs, which lists show.")] = "",
) -> None:
    """Pack the records of finished runs, without models, into one small file; equal runs give equal bytes."""
    with waiting("packing the runs"):
        from silobench.analysis.units import size
        from silobench.runs import archive

        count = archive.pack((one for root in directories for one in archive.records_of(root)), output, title)
    print(f"packed {count} runs into {output} ({size(output.stat().st_size)})")


@app.command()
def unpack(
    file: Annotated[Path, typer.Argument(help="File of records, NAME.runs.xz.")],
    out: Out = Path("runs"),
) -> None:
    """Write the runs of a file of records as run directories, without models."""
    with waiting("unpacking the runs"):
        from silobench.runs import archive

        count = archive.unpack(file, out)
    print(f"wrote {count} runs into {out}")
