"""The command `leaderboard`: ranks of methods, checks of submissions, and records of many runs in one file."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from silobench.cli.busy import waiting
from silobench.cli.options import Json, LoadedPlugins, Out
from silobench.cli.results import report_damage
from silobench.cli.sources import read_all
from silobench.errors import ConfigError, RecordError

if TYPE_CHECKING:
    from silobench.analysis.budget import Budget
    from silobench.analysis.leaderboard import Board
    from silobench.runs.results import Results
    from silobench.runs.stored import StoredRun

_DEFAULT = "rank"


class _Ranking(TyperGroup):
    """A group whose first word may be left out: `leaderboard DIR` is `leaderboard rank DIR`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        is_named = first in self.commands or first in ctx.help_option_names
        return super().parse_args(ctx, args if is_named or not args else [_DEFAULT, *args])


app = typer.Typer(
    name="leaderboard",
    cls=_Ranking,
    help="Rank methods by stored runs: `leaderboard DIR...`. Check a submission, and pack records into one file.",
    no_args_is_help=True,
)


@app.command()
def rank(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR...",
            help="Directories of runs, or files of records; with --published, also names of studies, or globs.",
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Add the runs that come with silobench, or those of the named studies.")
    ] = False,
    dataset: Annotated[str, typer.Option(help="Only datasets whose name matches this glob.")] = "*",
    skew: Annotated[str, typer.Option(help="Only settings with this kind of skew, such as label; a glob.")] = "*",
    method: Annotated[str, typer.Option(help="Only methods that match this glob; ranks are among them.")] = "*",
    max_rounds: Annotated[int | None, typer.Option(min=1, help="Count the score after this many rounds.")] = None,
    max_bytes: Annotated[
        str | None, typer.Option(help="Count the score before more is sent, such as 500kB or 2GB.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Count the score before more virtual time has passed.")
    ] = None,
    max_epsilon: Annotated[
        float | None,
        typer.Option(help="Count the score before more privacy is spent; runs without a guarantee are out."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The page to write. Default: leaderboard.html in the first directory."),
    ] = None,
    json_: Json = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Rank methods in each setting, with ties where no difference is decided, and over settings; write a page.

    `leaderboard DIR...` is the same.
    """
    from silobench.analysis.contests import Choice, chosen, contests
    from silobench.analysis.leaderboard import board_json, board_of

    budget = _budget(max_rounds, max_bytes, max_seconds, max_epsilon)
    results = read_all(directories or [], published)
    with waiting("ranking the methods"):
        settings = contests(finished(results), budget)
        board = board_of(chosen(settings, Choice(dataset, skew, method)), budget)
    if json_:
        print(json.dumps(board_json(board), indent=1))
    else:
        _print(board)
    report_damage(results)


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
    else:
        print("no setting has two methods with two shared seeds, so nothing is ranked: run with --trials 3 or more.")
    print_table(contests_table(board))


@app.command()
def pack(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs, or files of records.")
    ],
    output: Annotated[Path, typer.Option("--output", help="The file to write: NAME.runs.xz.")],
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
