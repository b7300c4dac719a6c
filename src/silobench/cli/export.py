"""The command export: runs as files for other programs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import Json, LoadedPlugins
from silobench.cli.output import print
from silobench.cli.results import refuse_damage
from silobench.errors import ConfigError, suggest

FORMATS = ("parquet", "csv", "tensorboard", "mlflow")


def export(
    directory: Annotated[Path, typer.Argument(help="Directory of runs, or a file of records (.runs.xz).")],
    form: Annotated[
        str,
        typer.Option("--format", help="parquet, csv, tensorboard (event files) or mlflow (an SQLite database)."),
    ] = "parquet",
    output: Annotated[
        Path | None, typer.Option("--output", "--out", help="Folder to write; DIR/export-FORMAT by default.")
    ] = None,
    json_: Json = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Write runs for other programs: tables of runs, rounds and parties, or the stores of TensorBoard and MLflow."""
    if form not in FORMATS:
        raise ConfigError(f"there is no format '{form}': {suggest(form, FORMATS)}")
    from silobench.analysis.flat.tables import Runs
    from silobench.runs.folders import need_no_link

    stem = directory.parent / directory.name.partition(".")[0]
    folder = output or need_no_link((directory if directory.is_dir() else stem) / f"export-{form}")
    if folder.is_file():
        raise ConfigError(f"--out {folder} is a file, but a folder is needed: give another path.")
    runs = Runs(directory)
    with waiting(f"exporting the runs in {directory}"):
        count, problems = runs.survey.count, runs.survey.problems
        paths = _writer(form, directory)(runs, folder) if count else []
    if json_:
        print(json.dumps({"runs": count, "format": form, "files": [str(path) for path in paths], "left_out": problems}))
    elif count:
        shown = paths if len(paths) <= len(FORMATS) else [folder]
        print("\n".join(f"wrote {path}" for path in shown))
    refuse_damage(problems, count)


def _writer(form: str, directory: Path) -> "Callable[..., list[Path]]":
    if form == "tensorboard":
        from silobench.analysis.flat.event_files import write_events

        return write_events
    if form == "mlflow":
        from silobench.analysis.flat.tracking import write_tracking

        return lambda runs, folder: write_tracking(runs, folder, directory.resolve().name or "silobench")
    from silobench.analysis.flat.files import write_csv, write_parquet

    return write_parquet if form == "parquet" else write_csv
