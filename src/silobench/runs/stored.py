"""Run directories as they are read: verified, and as typed values. Nothing here needs torch.

    run.json        what was run, on what, with which versions; status; digest of rounds.jsonl when complete
    rounds.jsonl    one line per round
    encoder.json    how columns of a table, or scaled arrays, become the network's input; absent for other data
    checkpoint/     state.safetensors: everything that is needed to continue bit for bit

The header of the checkpoint states the length and the digest of rounds.jsonl up to the last committed round. Lines
beyond that belong to a round that was under way when the run was cut off, and are ignored; anything shorter or
different is damage, and is refused. run.json states a digest of its other facts, and its id is a hash of its
configuration, so a changed one is refused too.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from silobench.errors import RecordError

# "X as X" exports X again: readers of runs import only this module.
from silobench.runs.facts import CalibrationFacts as CalibrationFacts
from silobench.runs.facts import CrossFacts as CrossFacts
from silobench.runs.facts import DatasetFacts as DatasetFacts
from silobench.runs.facts import FinalFacts as FinalFacts
from silobench.runs.facts import ObjectiveFacts as ObjectiveFacts
from silobench.runs.facts import PartitionFacts as PartitionFacts
from silobench.runs.facts import PartyResult as PartyResult
from silobench.runs.facts import Records as Records
from silobench.runs.facts import RoundRow as RoundRow
from silobench.runs.facts import RunFacts as RunFacts
from silobench.runs.facts import SharedRows as SharedRows
from silobench.runs.facts import TargetFacts as TargetFacts
from silobench.runs.label import Label
from silobench.runs.vertical_facts import ColumnParty as ColumnParty
from silobench.runs.vertical_facts import MaskFacts as MaskFacts
from silobench.runs.vertical_facts import RowSet as RowSet
from silobench.runs.vertical_facts import VerticalFacts as VerticalFacts
from silobench.tasks.metrics import ACCURACY, BALANCED_ACCURACY, Metric

FORMAT = 1
REMEDY = "what is recorded elsewhere is untouched; move this directory away or delete it to run it anew."
_FACTS = {
    "format": int, "id": str, "status": str, "created": str, "made_by": dict, "config": dict, "label": dict,
    "dataset": dict, "partition": dict,
}  # fmt: skip


def run_id(config: Mapping[str, Any]) -> str:
    """Return the name of a run's directory: a hash of its resolved configuration."""
    text = json.dumps({"format": FORMAT, **config}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredRun:
    """A run as read back from its directory, verified."""

    path: Path
    facts: RunFacts
    rounds: Sequence[RoundRow]

    @classmethod
    def from_json(cls, path: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> "StoredRun":
        return cls(path, RunFacts.from_json(facts), [RoundRow.from_json(row) for row in rows])

    @property
    def complete(self) -> bool:
        return self.facts.complete

    @property
    def label(self) -> Label:
        return self.facts.label

    @property
    def config(self) -> Label:
        return self.facts.config

    @property
    def seed(self) -> int:
        return self.facts.config.seed

    @property
    def dataset(self) -> DatasetFacts:
        return self.facts.dataset

    @property
    def partition(self) -> PartitionFacts:
        return self.facts.partition

    @cached_property
    def tested(self) -> Sequence[RoundRow]:
        """The rounds after which the model was tested; the last round of a finished run always is one of them."""
        last = self.rounds[-1] if self.complete and self.metric.name != ACCURACY.name else None
        return [row for row in self.rounds if row.tested or row is last]

    @property
    def metric(self) -> Metric:
        """The main metric."""
        return self.facts.objective.main

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the run, with balanced accuracy where it follows from the accuracy by class."""
        recorded = (*self.facts.objective.metrics, *self.facts.objective.extra)
        derived = BALANCED_ACCURACY.name not in [metric.name for metric in recorded] and any(
            row.class_accuracy for row in self.tested
        )
        return (*recorded, BALANCED_ACCURACY) if derived else recorded

    @property
    def lost_rounds(self) -> int:
        """The number of rounds that left the model as it was, because too few parties answered a secure sum."""
        return sum(row.is_lost for row in self.rounds)

    @property
    def final(self) -> FinalFacts:
        """The final test; that of a run from before there was one is empty."""
        return self.rounds[-1].final if self.rounds else FinalFacts()

    def curve(self, metric: Metric | None = None) -> list[tuple[int, float]]:
        """Return the values of a metric by tested round, by default the main one; `metric.failure` if not finite."""
        metric = metric or self.metric
        values = ((row.round, row.score(metric.name)) for row in self.tested)
        return [(round, metric.failure if value is None else value) for round, value in values]

    def measured(self, name: str) -> dict[int, Mapping[str, Any]]:
        """Return what a measure found, by round; rounds in which it found nothing are left out."""
        return {row.round: row.measures[name] for row in self.rounds if row.measures.get(name)}


def read_run(path: Path) -> StoredRun:
    """Read and verify a run directory; a torn or altered file is refused by name."""
    return typed_run(path, *read_json(path))


def typed_run(path: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> StoredRun:
    """Return a run from its verified JSON; a description with other types than a run's is refused."""
    try:
        return StoredRun.from_json(path, facts, rows)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _not_whole(path) from error


def read_runs(root: Path) -> list[StoredRun]:
    """Read every run under a directory, in a stable order; one that is damaged is refused."""
    return [read_run(path) for path in run_paths(root)]


def run_paths(root: Path) -> list[Path]:
    """Return the directories of all runs under a directory, sorted; one without run.json is a run if it has rounds."""
    if not root.is_dir():
        raise RecordError(f"there is no directory {root}: run an experiment first, or check the path.")
    paths = files_under(root, "run.json", "rounds.jsonl")
    if not paths:
        raise RecordError(f"{root} holds no run: run an experiment with --out {root} first.")
    return sorted({path.parent for path in paths})


def files_under(root: Path, *names: str) -> list[Path]:
    """Return the files and folders with these names under a directory."""
    return [
        Path(folder, name)
        for folder, folders, files in os.walk(root)
        for name in names
        if name in files or name in folders
    ]


def interrupted_versions(path: Path) -> dict[str, str]:
    """Return the versions and the engine that an unfinished run was started with; empty where there is none."""
    if not (path / "run.json").exists() or read_header(path) is None:  # without a round there is nothing to continue
        return {}
    facts = read_facts(path)
    return {} if facts["status"] == "complete" else facts["made_by"]


# --- verified JSON -----------------------------------------------------------------------------------


def read_json(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read run.json and the committed lines of rounds.jsonl, verified, as they are stored."""
    facts = read_facts(path)
    lines = path / "rounds.jsonl"
    if facts["status"] == "complete":
        size, digest = facts["records"]["bytes"], facts["records"]["sha256"]
    else:
        commit = read_header(path)
        size, digest = (commit["bytes"], commit["sha256"]) if commit else (0, sha256(b""))
    content = read_bytes(lines) if size or lines.exists() else b""
    return facts, verified_rows(content, size, digest, lines)


def verified_rows(content: bytes, size: int, digest: str, file: Path) -> list[dict[str, Any]]:
    """Return the first `size` bytes of rounds.jsonl as they are stored; other bytes than the digest's are refused."""
    if len(content) < size or sha256(content[:size]) != digest:
        raise RecordError(
            f"{file} is damaged (its first {size} bytes do not match the record, it has {len(content)}): {REMEDY}"
        )
    try:
        rows: list[dict[str, Any]] = json.loads(b"[%s]" % b",".join(content[:size].splitlines()))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file} is damaged (a line is not JSON): {REMEDY}") from error
    return rows


def read_facts(path: Path) -> dict[str, Any]:
    """Read run.json as it is stored; one that is not a whole description is refused."""
    if not (path / "run.json").exists():
        raise RecordError(f"{path} has no run.json beside its recorded rounds: {REMEDY}")
    return verified_facts(read_bytes(path / "run.json"), path)


def verified_facts(content: bytes, path: Path) -> dict[str, Any]:
    """Return the description of the run in a directory, from the bytes of its run.json; a changed one is refused."""
    try:
        facts: dict[str, Any] = json.loads(content)
        whole = all(isinstance(facts[key], kind) for key, kind in _FACTS.items())
        whole &= facts["status"] != "complete" or {"rounds", "bytes", "sha256"} <= facts["records"].keys()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_whole(path) from error
    if not whole or facts["format"] != FORMAT:
        raise RecordError(f"{path / 'run.json'} is not a run description of format {FORMAT}: {REMEDY}")
    _need_unchanged(path, facts)
    return facts


def _need_unchanged(path: Path, facts: Mapping[str, Any]) -> None:
    """Refuse a description that was edited. Earlier runs have no digest of it, but ids tell other configurations."""
    config, label = facts["config"], facts["label"]
    other = [key for key, value in label.items() if not isinstance(value, str) and config.get(key, value) != value]
    if run_id(config) != facts["id"]:
        what = f"its configuration is not that of the run {_shown(facts['id'])}"
    elif other:
        what = f"its label and its configuration have different values of {', '.join(other)}"
    elif facts.get("facts_sha256", facts_digest(facts)) != facts_digest(facts):
        what = "it is not as silobench wrote it"
    else:
        return
    raise RecordError(f"{path / 'run.json'} was changed ({what}): {REMEDY}")


def facts_digest(facts: Mapping[str, Any]) -> str:
    """Return the digest of a run description, which it states itself under `facts_sha256`."""
    stated = json.loads(json.dumps({key: value for key, value in facts.items() if key != "facts_sha256"}))
    return sha256(json.dumps(stated, sort_keys=True).encode())


def _shown(id: str) -> str:
    return id if len(id) <= 16 else f"{id[:13]}..."


def _not_whole(path: Path) -> RecordError:
    return RecordError(f"{path / 'run.json'} is damaged (it is not a whole run description): {REMEDY}")


def checkpoint_file(path: Path) -> Path:
    """Return where a run directory has its checkpoint."""
    return path / "checkpoint" / "state.safetensors"


def encoder_file(path: Path) -> Path:
    """Return where a run directory states how columns or arrays become the network's input."""
    return path / "encoder.json"


def read_header(path: Path) -> dict[str, Any] | None:
    """Read the header of a run's checkpoint, without its tensors; None where there is no checkpoint."""
    file = checkpoint_file(path)
    if not file.exists():
        return None
    try:
        with safe_open(file, "numpy") as content:
            header: dict[str, Any] = json.loads(content.metadata()["silobench"])
            return header
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise damaged_checkpoint(file) from error


def damaged_checkpoint(file: Path) -> RecordError:
    return RecordError(f"{file} is damaged (it is not a whole checkpoint): {REMEDY}")


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): {REMEDY}") from error


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
