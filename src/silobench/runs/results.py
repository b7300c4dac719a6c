"""A results directory: its runs, those that are damaged, and those that were planned and never started.

An archive (`archive`) is read in the place of a directory.

0123456789abcdef/   a run, as `stored` describes it
.plans/             one file per experiment: the ids and names of the runs that it asks for
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.runs.archive import is_archive, read_archive
from silobench.runs.stored import StoredRun, files_under, read_run, run_paths, sha256

PLANS_FOLDER = ".plans"


@dataclass(frozen=True)
class Results:
    """The runs under a directory that can be read, and a sentence about each that cannot."""

    runs: list[StoredRun]
    problems: list[str]
    not_started: frozenset[str] = frozenset()  # ids of runs that a command planned

    @property
    def unfinished(self) -> int:
        return sum(not run.complete for run in self.runs)


def read_results(root: Path, read: Callable[[Path], StoredRun] = read_run) -> Results:
    """Read every run under a directory, or in an archive.

    A damaged run of a directory is reported, and does not keep others from being read; a damaged archive is refused.
    `read` returns the run in a directory; one that remembers runs may be used in place of `read_run`.
    """
    if is_archive(root):
        return Results(read_archive(root), [])
    runs, problems = [], []
    paths = run_paths(root)
    for path in paths:
        try:
            runs.append(read(path))
        except RecordError as error:
            problems.append(str(error))
    planned = {run for folder in files_under(root, PLANS_FOLDER) for run in read_planned(folder.parent)}
    return Results(runs, problems, frozenset(planned - {path.name for path in paths}))


# --- runs that a command planned ----------------------------------------------------------------------


def read_planned(out: Path) -> dict[str, str]:
    """Return the names, by id, of all runs that commands planned into a directory; damaged files are skipped."""
    planned: dict[str, str] = {}
    for file in sorted((out / PLANS_FOLDER).glob("*.json")):
        planned |= _planned(file)
    return planned


def write_planned(out: Path, experiment: str, runs: Mapping[str, str], *, is_part: bool) -> None:
    """Record the runs that a command is about to do, names by id, so that those never started can be counted.

    A command replaces the list of an earlier one of the same experiment; `is_part` adds to it. A disk that cannot be
    written is reported by the runs themselves.
    """
    file = out / PLANS_FOLDER / f"{sha256(experiment.encode())[:16]}.json"
    content = {"experiment": experiment, "runs": {**(_planned(file) if is_part else {}), **runs}}
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(file, json.dumps(content, indent=1, ensure_ascii=False).encode())


def _planned(file: Path) -> dict[str, str]:
    try:
        runs = json.loads(file.read_bytes())["runs"]
        return {str(run): str(name) for run, name in runs.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
