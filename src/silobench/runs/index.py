"""The index of a large results directory: what tables need of each finished run, so that its rounds need not be read.

    .index      a digest of the rest, and JSON: parts that runs share, and by the path of a run its stamps, its
                description, its totals and its last round

An entry counts only while both files of its run have the inode, size and times of change that they had when they were
verified. Nobody can choose these for a file on another disk, so an index that came with copied runs is ignored, as is
one that is damaged or of another version. Deleting the file is always safe: the runs are then read and verified anew.
"""

import functools
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from silobench.atomic import replace_atomically
from silobench.runs.facts import DatasetFacts, ObjectiveFacts, PartitionFacts, RunFacts
from silobench.runs.label import Label
from silobench.runs.stored import StoredRounds, StoredRun, read_json, sha256, typed_run
from silobench.runs.totals import Totals

INDEX = ".index"
FEWEST = 100  # runs that are not in the index, from which on it is written: reading fewer is quick
_SETTLED = 2_000_000_000  # nanoseconds after which a file that changes again has another time of change
_SHARED = {
    "dataset": DatasetFacts.from_json, "partition": PartitionFacts.from_json, "objective": ObjectiveFacts.from_json,
}  # fmt: skip
_SHARED_AS_JSON = ("made_by",)
_SHARED_BUT_SEED = ("config", "label")  # the trials of a cell share the rest; an entry has its number and the seed
Stamp: TypeAlias = list[list[int]]


@dataclass
class RunIndex:
    """The index of a directory: `read` returns a run from it or from its files, and `write` stores what was read."""

    root: Path
    runs: dict[str, list[Any]] = field(default_factory=dict)  # stamps, description, totals and last round by path
    parts: list[Any] = field(default_factory=list)  # JSON that runs share; a description has their numbers
    _new: dict[str, tuple[Stamp, Mapping[str, Any], Mapping[str, Any], Totals]] = field(default_factory=dict)
    _typed: dict[tuple[str, int], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> "RunIndex":
        """Read the index of a directory; an empty one where there is none that can be used."""
        try:
            with (root / INDEX).open("rb") as file:
                digest, content = file.readline(), file.read()
            if digest.decode() == f"{sha256(content)}\n":
                stored = from_json(content, cache_strings="keys")  # several times as fast as json
                runs = {name: entry for name, entry in stored["runs"].items() if isinstance(entry, list)}
                if stored["version"] == _version():
                    return cls(root, runs, list(stored["parts"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        return cls(root)

    def read(self, path: Path) -> StoredRun:
        """Return the run in a directory, verified now, or when the index was written and its files were the same."""
        name, stamp = str(path.relative_to(self.root)), _stamp(path)
        entry = self.runs.get(name)
        if entry and stamp and entry[0] == stamp:
            return self._indexed(path, *entry[1:])
        is_settled = bool(stamp) and max(changed for *_, changed in stamp) < time.time_ns() - _SETTLED
        facts, rows = read_json(path)
        run = typed_run(path, facts, rows)
        is_sealed = run.facts.records is not None and run.facts.records.rounds == len(rows) > 0
        if not (run.complete and is_sealed and stamp and _stamp(path) == stamp):
            return run
        if is_settled:
            self._new[name] = stamp, facts, rows[-1], run.totals
        return replace(run, rounds=StoredRounds(path, len(rows), run.totals, rows[-1]))  # all rows take much memory

    def _indexed(
        self, path: Path, facts: dict[str, Any], totals: Mapping[str, Any], last: Mapping[str, Any]
    ) -> StoredRun:
        typed = {key: self._typed_part(key, facts[key]) for key in _SHARED if key in facts}
        for key in _SHARED_BUT_SEED:
            number, seed = facts[key]
            typed[key] = self._typed_part(key, number).with_seed(seed)
        whole = {key: self.parts[facts[key]] for key in (*_SHARED, *_SHARED_AS_JSON) if key in facts}
        described = RunFacts.from_json({**facts, **whole}, typed)
        return StoredRun(
            path, described, StoredRounds(path, facts["records"]["rounds"], Totals.from_json(totals), last)
        )

    def _typed_part(self, key: str, number: int) -> Any:
        place = key, number
        if place not in self._typed:
            self._typed[place] = _SHARED.get(key, Label)(self.parts[number])
        return self._typed[place]

    def write(self) -> None:
        """Store the index, if many runs were read that it does not have. A directory that is read-only stays as it is.

        Files that were a moment old when they were read are left out: a change after that may not show in their times.
        """
        if len(self._new) < FEWEST:
            return
        parts = list(self.parts)
        numbers = {json.dumps(part): number for number, part in enumerate(parts)}
        for name, (stamp, facts, last, totals) in self._new.items():
            self.runs[name] = [stamp, _described(facts, parts, numbers), totals.as_json(), last]
        self._new.clear()
        present = {name: entry for name, entry in self.runs.items() if (self.root / name).is_dir()}
        stored = {"version": _version(), "parts": parts, "runs": present}
        content = to_json(stored, inf_nan_mode="constants")
        with suppress(OSError):
            replace_atomically(self.root / INDEX, f"{sha256(content)}\n".encode() + content, durable=False)


def _described(facts: Mapping[str, Any], parts: list[Any], numbers: dict[str, int]) -> dict[str, Any]:
    """Return a description with numbers in the place of parts that runs share; new parts get the next numbers."""

    def number(part: Any) -> int:
        text = json.dumps(part)
        if text not in numbers:
            numbers[text] = len(parts)
            parts.append(part)
        return numbers[text]

    described = {key: value for key, value in facts.items() if key != "facts_sha256" and (value or key not in _SHARED)}
    described |= {key: number(facts[key]) for key in (*_SHARED, *_SHARED_AS_JSON) if key in described}
    for key in _SHARED_BUT_SEED:  # the place of the seed is kept, so that a reader gets the choices in the same order
        described[key] = [number({**facts[key], "seed": None}), facts[key]["seed"]]
    return described


def _stamp(path: Path) -> Stamp:
    """Return inode, size and times of change of the files of a run; empty if one is not there."""
    try:
        stats = [os.stat(f"{path}/{name}") for name in ("run.json", "rounds.jsonl")]
    except OSError:
        return []
    return [[each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns] for each in stats]


@functools.cache
def _version() -> str:
    """Return a digest of the code that checks runs and makes entries: another version of it makes others."""
    folder = Path(__file__).parent
    names = ("facts", "field_types", "index", "label", "lengths", "report_types", "stored", "totals", "vertical_facts")
    return hashlib.sha256(b"".join((folder / f"{name}.py").read_bytes() for name in names)).hexdigest()[:16]
