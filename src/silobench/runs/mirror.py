"""Run directories of runs on machines without this disk: files travel there with a job, and back with its events.

Rounds are committed here as they were there: lines first, then the checkpoint that counts them, each file complete or
not at all. A run whose machine is lost therefore continues from its last commit that arrived.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from silobench.atomic import replace_atomically
from silobench.runs.stored import checkpoint_file
from silobench.runs.writer import writing

_ROUNDS, _FACTS = "rounds.jsonl", "run.json"

Seen: TypeAlias = dict[str, tuple[int, int, int]]
"""Inode, time of change and size of files, by name."""


@dataclass(frozen=True)
class Change:
    """A file that has new content, or that has grown: `content` is what follows its first `offset` bytes."""

    name: str
    offset: int
    content: bytes


@dataclass(frozen=True)
class RunFiles:
    """The files of a run directory: in another process, a mapping from names to contents.

    They are read when this value is packed, so a job that is sent again continues where the records end by then.
    """

    path: Path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return dict, ({name: (self.path / name).read_bytes() for name in _names(self.path)},)


def write_files(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a run directory from its files."""
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


def changed_files(path: Path, seen: Seen) -> tuple[list[Change], Seen]:
    """Return the files of a run directory that changed since `seen`, in the order to write them, and what was seen.

    The run must be open: until then, its records may end with lines that were never committed and will be dropped.
    """
    now = {name: _stamp(path / name) for name in _names(path)}
    changes = []
    for name in now:
        if now[name] != seen.get(name):
            offset = seen[name][2] if name == _ROUNDS and name in seen else 0  # records of an open run only grow
            changes.append(Change(name, offset, (path / name).read_bytes()[offset:]))
    return changes, now


def write_changes(path: Path, changes: Iterable[Change]) -> None:
    """Write the changes of a run directory on another machine into the one here."""
    changes = list(changes)
    if not (path / _FACTS).exists():  # a directory with rounds and without facts is damaged
        changes.sort(key=lambda change: change.name != _FACTS)
    with writing(path):
        for change in changes:
            file = path / change.name
            if change.offset:
                _append(file, change)
            else:
                replace_atomically(file, change.content, is_locked=True)


def _append(file: Path, change: Change) -> None:
    with file.open("r+b") as lines:
        lines.seek(change.offset)
        lines.truncate()
        lines.write(change.content)
        lines.flush()
        os.fsync(lines.fileno())


def _names(path: Path) -> list[str]:
    """Return the files of a run directory, the checkpoint after the lines that it counts, and the facts last."""
    last = (_ROUNDS, checkpoint_file(Path()).as_posix(), _FACTS)
    names = (file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    kept = (name for name in names if not name.startswith(".") and not name.endswith(".new"))
    return sorted(kept, key=lambda name: (last.index(name) if name in last else -1, name))


def _stamp(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
