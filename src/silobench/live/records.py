"""Records that grow while they are read: a cheap look at the files of a directory, and reading of what changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from silobench.errors import RecordError
from silobench.runs.folders import files_under
from silobench.runs.results import PLANS_FOLDER, Results, read_planned, read_results
from silobench.runs.stored import StoredRun, checkpoint_file, read_run
from silobench.tuning.study import STUDY

Stamp: TypeAlias = tuple[tuple[int, int, int], ...]  # inode, size and time of change in nanoseconds, file by file
_ABSENT = (0, 0, 0)


@dataclass(frozen=True)
class Look:
    """How the files of a directory look from outside: the stamp of each run, and of the other files that pages show."""

    runs: Mapping[Path, Stamp] = field(default_factory=dict)
    others: Mapping[Path, Stamp] = field(default_factory=dict)

    def last_change(self, run: Path) -> float:
        """Return when a run was last written, in seconds since 1970."""
        return max((changed for _, _, changed in self.runs.get(run, ())), default=0) / 1e9


def look_at(root: Path) -> Look:
    """Look at the files of a directory without reading them."""
    files = files_under(root, "run.json", "rounds.jsonl", STUDY)
    runs = {folder: _stamp_of_run(folder) for folder in sorted({file.parent for file in files if file.name != STUDY})}
    plans = [plan for folder in files_under(root, PLANS_FOLDER) for plan in sorted(folder.glob("*.json"))]
    studies = [file for file in files if file.name == STUDY]
    others = [*plans, *studies, *(file for file in sorted(root.glob("*")) if file.suffix in (".json", ".toml"))]
    return Look(runs, {file: (_stamp(file),) for file in others})


def _stamp_of_run(folder: Path) -> Stamp:
    return tuple(map(_stamp, (folder / "run.json", folder / "rounds.jsonl", checkpoint_file(folder))))


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        facts = file.stat()
    except OSError:  # not written yet, or deleted a moment ago
        return _ABSENT
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@dataclass
class RecordReader:
    """Reads the runs under a directory again and again; those that did not change are not parsed again."""

    root: Path
    _read: dict[Path, tuple[Stamp, StoredRun | RecordError]] = field(default_factory=dict)

    def read(self, look: Look) -> Results:
        """Return the runs as a look at the directory found them, or as they are now if they changed since."""
        self._read = {path: entry for path, entry in self._read.items() if path in look.runs}
        if not look.runs:
            return Results([], [], frozenset(read_planned(self.root)))

        def read(path: Path) -> StoredRun:
            stamp, content = self._read.get(path, ((), None))
            if content is None or stamp != look.runs.get(path):
                content = _run_or_error(path)
                # The stamp is older than what was read, so a change in between is noticed by the next look.
                self._read[path] = look.runs.get(path, ()), content
            if isinstance(content, RecordError):
                raise content
            return content

        try:
            return read_results(self.root, read)
        except RecordError:  # every run was deleted after the look
            return Results([], [])


def _run_or_error(path: Path) -> StoredRun | RecordError:
    try:
        return read_run(path)
    except RecordError as error:
        return error
