"""The command `leaderboard`: ranks of methods, checks of submissions, and records of many runs in one file."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from silobench.cli.busy import waiting
from silobench.cli.options import Out

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
