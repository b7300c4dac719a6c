"""Run directories as plain JSON values: facts and rounds as dictionaries. `stored` has them as typed values."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silobench.runs.checkpoint import load_state
from silobench.runs.label import LATER, distinguishing
from silobench.runs.stored import read_json, run_id, run_paths
from silobench.runs.writer import RunWriter, discard_checkpoint, open_run

__all__ = [
    "LATER", "RunWriter", "StoredRun", "discard_checkpoint", "distinguishing", "load_state", "open_run", "read_run",
    "read_runs", "run_id",
]  # fmt: skip


@dataclass(frozen=True)
class StoredRun:
    """A run as read back from its directory, verified."""

    path: Path
    facts: dict[str, Any]  # run.json
    rounds: list[dict[str, Any]]

    @property
    def complete(self) -> bool:
        return bool(self.facts["status"] == "complete")


def read_run(path: Path) -> StoredRun:
    return StoredRun(path, *read_json(path))


def read_runs(root: Path) -> list[StoredRun]:
    return [read_run(path) for path in run_paths(root)]
