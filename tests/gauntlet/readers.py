"""Commands that read results, and what each of them tells its user: to compare before and after a file is damaged."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from gauntlet.results import EXPERIMENT, FOLDER, Run, command
from silobench.errors import SilobenchError
from silobench.live.pages import live_pages
from silobench.live.site import LiveSite


@dataclass(frozen=True)
class Reply:
    """What a command told its user."""

    code: int
    message: str  # on stderr
    told: Mapping[str, Any]  # by subject: cells, files or pages


Reader: TypeAlias = Callable[[Path, Run], Reply]  # gets the folder of the experiment, and the run that is damaged


def show(folder: Path, run: Run) -> Reply:
    """Show the results as JSON: one subject for each cell."""
    answer = command(folder, "show", FOLDER, "--json")
    cells = json.loads(answer.out)["cells"] if answer.out else []
    keys = ("dataset", "transforms", "algorithm")
    return Reply(answer.code, answer.err, {repr([cell[key] for key in keys]): cell for cell in cells})


def report(folder: Path, run: Run) -> Reply:
    """Write the report: one subject for each page."""
    return _written(folder, "report", FOLDER, "--output", "pages")


def export(folder: Path, run: Run) -> Reply:
    """Export the runs as CSV files."""
    return _written(folder, "export", FOLDER, "--format", "csv", "--output", "pages")


def compare(folder: Path, run: Run) -> Reply:
    """Compare the cells."""
    return _printed(folder, "compare", FOLDER)


def claims(folder: Path, run: Run) -> Reply:
    """Judge the findings of papers."""
    return _printed(folder, "claims", FOLDER, "--all")


def leaderboard(folder: Path, run: Run) -> Reply:
    """Rank the methods."""
    return _printed(folder, "leaderboard", FOLDER, "--json")


def pack(folder: Path, run: Run) -> Reply:
    """Pack the records into one file."""
    return _written(folder, "leaderboard", "pack", FOLDER, "--output", "pages/all.runs.xz")


def predict(folder: Path, run: Run) -> Reply:
    """Predict rows with the model of the run, or write that model as a file where it has no table."""
    path = f"{FOLDER}/{run.id}"
    if run.kind == "table":
        return _printed(folder, "predict", path, "rows.csv", "--json")
    return _written(folder, "model", path, "--format", "safetensors", "--out", "pages/model.safetensors")


def watch(folder: Path, run: Run) -> Reply:
    """Render the live pages once."""
    try:
        site = LiveSite(folder / FOLDER, live_pages(FOLDER))
        site.refresh()
    except SilobenchError as error:
        return Reply(2, str(error), {})
    edition = site.edition
    return Reply(2 if edition.problems else 0, " ".join(edition.problems), {"page": edition.files["index.html"]})


READERS: Mapping[str, Reader] = {
    reader.__name__: reader for reader in (report, export, compare, claims, leaderboard, pack, predict, watch)
}


def resume(folder: Path, run: Run) -> Reply:
    """Run the experiment again, as far as it is the damaged run."""
    options = ("--out", FOLDER, "--engine", "inline", "--workers", "1", "--only", run.name)
    answer = command(folder, "run", EXPERIMENT, *options)
    return Reply(answer.code, answer.err, {})


def _printed(folder: Path, *arguments: str) -> Reply:
    answer = command(folder, *arguments)
    return Reply(answer.code, answer.err, {"stdout": answer.out})


def _written(folder: Path, *arguments: str) -> Reply:
    shutil.rmtree(folder / "pages", ignore_errors=True)
    (folder / "pages").mkdir()
    answer = command(folder, *arguments)
    files = [file for file in sorted((folder / "pages").rglob("*")) if file.is_file()]
    pages = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return Reply(answer.code, answer.err, pages)
