"""A results directory: its runs, those that are damaged, and those that were planned and never started.

An archive (`archive`) is read in the place of a directory.

0123456789abcdef/   a run, as `stored` describes it
.plans/             one file per experiment: the ids and names of the runs that it asks for
.index              what tables need of many runs, as `index` describes it
"""

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.runs.archive import is_archive, read_archive
from silobench.runs.folders import folders_with, need_directory, need_no_link, need_runs
from silobench.runs.index import FEWEST, RunIndex
from silobench.runs.notices import counted
from silobench.runs.stored import StoredRun, facts_digest, read_run, sha256

PLANS_FOLDER = ".plans"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Results:
    """The runs under a directory that can be read, and a sentence about each that cannot."""

    runs: list[StoredRun]
    problems: list[str]
    not_started: frozenset[str] = frozenset()  # ids of runs that a command planned

    @property
    def unfinished(self) -> int:
        return sum(not run.complete for run in self.runs)


def read_results(root: Path, read: Callable[[Path], StoredRun] | None = None) -> Results:
    """Read every run under a directory, or in an archive.

    A damaged run of a directory is reported, and does not keep others from being read; a damaged archive is refused.
    `read` returns the run in a directory; without it, the index of the directory helps.
    """
    if is_archive(root):
        return Results(read_archive(root), [])
    need_directory(root)
    found = dict(folders_with(root, "run.json", "rounds.jsonl", PLANS_FOLDER))  # one walk: there may be many folders
    paths = need_runs(root, [folder for folder, names in found.items() if names != [PLANS_FOLDER]])
    index = RunIndex.of(root) if read is None and len(paths) >= FEWEST else None
    runs, problems = [], []
    for path in counted(paths, f"reading the runs in {root}"):
        try:
            runs.append(index.read(path) if index else (read or read_run)(path))
        except RecordError as error:
            problems.append(str(error))
    if index:
        index.write()
    planned = {run for folder, names in found.items() if PLANS_FOLDER in names for run in read_planned(Path(folder))}
    return Results(runs, problems, frozenset(planned - {path.name for path in paths}))


def read_finished(out: Path, ids: Sequence[str]) -> list[StoredRun]:
    """Read the runs with these ids in a directory; a damaged one is refused."""
    index = RunIndex.of(out) if len(ids) >= FEWEST else None
    runs = [(index.read if index else read_run)(out / id) for id in counted(ids, "reading the results")]
    if index:
        index.write()
    return runs


# --- runs that a command planned ----------------------------------------------------------------------


def read_planned(out: Path) -> dict[str, str]:
    """Return the names, by id, of all runs that commands planned into a directory; damaged files are only reported."""
    planned: dict[str, str] = {}
    for file in sorted((out / PLANS_FOLDER).glob("*.json")):
        planned |= _planned(file)
    return planned


def write_planned(out: Path, experiment: str, runs: Mapping[str, str], *, is_part: bool) -> None:
    """Record the runs that a command is about to do, names by id, so that those never started can be counted.

    A command replaces the list of an earlier one of the same experiment; `is_part` adds to it. A disk that cannot be
    written is reported by the runs themselves.
    """
    file = need_no_link(out / PLANS_FOLDER) / f"{sha256(experiment.encode())[:16]}.json"
    earlier = _planned(file) if is_part and file.exists() else {}
    content = {"experiment": experiment, "runs": {**earlier, **runs}}
    content["facts_sha256"] = facts_digest(content)
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(file, json.dumps(content, indent=1, ensure_ascii=False).encode())


def _planned(file: Path) -> dict[str, str]:
    try:
        content = json.loads(file.read_bytes())
        if content.get("facts_sha256", facts_digest(content)) == facts_digest(content):  # earlier ones state none
            return {str(run): str(name) for run, name in content["runs"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    _name_damage(file)
    return {}


@functools.cache
def _name_damage(file: Path) -> None:
    """Warn about a damaged list of runs, once per process: pages in a browser read it every few seconds."""
    _LOG.warning(
        "%s is damaged, so runs that it plans and that were never started are not counted: run the same experiment "
        "again to write it anew.",
        file,
    )
