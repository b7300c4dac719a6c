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
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from pydantic_core import from_json
from safetensors import SafetensorError, safe_open

from silobench.errors import RecordError, SpecError

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
from silobench.runs.field_types import wrong_field
from silobench.runs.folders import run_paths as run_paths
from silobench.runs.label import Label
from silobench.runs.lengths import wrong_length
from silobench.runs.report_types import wrong_report
from silobench.runs.totals import Totals
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
_SEAL: Mapping[str, type] = {"rounds": int, "bytes": int, "sha256": str}  # `records` of a finished run
_HEADER: Mapping[str, type | tuple[type, ...]] = {
    "bytes": int, "sha256": str, "round": int, "parties": int, "knobs": dict, "clock": (int, float), "crc": int,
}  # fmt: skip

_CHOICES = {
    "dataset": str, "partition": str, "model": str, "algorithm": str, "solver": str, "rounds": int, "seed": int,
}  # every reader asks for them  # fmt: skip


def run_id(config: Mapping[str, Any]) -> str:
    """Return the name of a run's directory: a hash of its resolved configuration."""
    text = json.dumps({"format": FORMAT, **config}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- runs --------------------------------------------------------------------------------------------


class StoredRounds(Sequence[RoundRow]):
    """The rounds of a run whose totals and last round are known: its file is read when another round is asked for."""

    def __init__(self, path: Path, count: int, totals: Totals, last: Mapping[str, Any]) -> None:
        self.path, self.totals, self._count, self._last = path, totals, count, last
        self._rows: Sequence[RoundRow] | None = None

    @property
    def rows(self) -> Sequence[RoundRow]:
        """All rounds, from the file, verified. Those of a few runs stay in memory, until others are asked for."""
        if self._rows is None:
            if len(_RECENT) == _RECENT.maxlen:
                _RECENT[0]._rows = None
            self._rows = read_run(self.path).rounds
            _RECENT.append(self)
        return self._rows

    @cached_property
    def last(self) -> RoundRow:
        return RoundRow.from_json(self._last)

    @overload
    def __getitem__(self, place: int) -> RoundRow: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[RoundRow]: ...

    def __getitem__(self, place: int | slice) -> RoundRow | Sequence[RoundRow]:
        return self.last if place in (-1, self._count - 1) else self.rows[place]

    def __iter__(self) -> Iterator[RoundRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return self._count


_RECENT: deque[StoredRounds] = deque(maxlen=64)  # those whose rows are in memory, the oldest first


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
        last = len(self.rounds) if self.complete and self.metric.name != ACCURACY.name else 0
        return [row for place, row in enumerate(self.rounds, 1) if row.tested or place == last]

    @property
    def metric(self) -> Metric:
        """The main metric."""
        return self.facts.objective.main

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the run, with balanced accuracy where it follows from the accuracy by class."""
        recorded = (*self.facts.objective.metrics, *self.facts.objective.extra)
        derived = BALANCED_ACCURACY.name not in [metric.name for metric in recorded] and self.totals.has_classes
        return (*recorded, BALANCED_ACCURACY) if derived else recorded

    @cached_property
    def totals(self) -> Totals:
        """Sums over the rounds, and the scores after each test."""
        if isinstance(self.rounds, StoredRounds):
            return self.rounds.totals
        objective = self.facts.objective
        derived = [BALANCED_ACCURACY] if any(row.class_accuracy for row in self.tested) else []
        names = dict.fromkeys(metric.name for metric in (*objective.metrics, *objective.extra, *derived))
        return Totals.of(self.rounds, self.tested, names)

    @property
    def last_test(self) -> RoundRow | None:
        """The last round after which the model was tested; None if it never was."""
        if not self.totals.tested:
            return None
        return self.rounds[-1] if self.rounds[-1].round == self.totals.tested[-1] else self.tested[-1]

    @property
    def lost_rounds(self) -> int:
        """The number of rounds that left the model as it was, because too few parties answered a secure sum."""
        return self.totals.lost

    @property
    def final(self) -> FinalFacts:
        """The final test; that of a run from before there was one is empty."""
        return self.rounds[-1].final if self.rounds else FinalFacts()

    def curve(self, metric: Metric | None = None) -> list[tuple[int, float]]:
        """Return the values of a metric by tested round, by default the main one; `metric.failure` if not finite."""
        return list(zip(self.totals.tested, self.scores(metric or self.metric), strict=True))

    def scores(self, metric: Metric) -> list[float]:
        """Return the values of a metric after each test; `metric.failure` if not finite."""
        scores = self.totals.scores.get(metric.name)
        if scores is None:
            scores = [row.score(metric.name) for row in self.tested]
        return [metric.failure if value is None else value for value in scores]

    def measured(self, name: str) -> dict[int, Mapping[str, Any]]:
        """Return what a measure found, by round, without rounds in which it found nothing.

        What a plugin found that has replaced a measure of silobench has another form, and is left out too.
        """
        if name not in self.totals.measures or name in self.label.replaced_measures:
            return {}
        return {row.round: row.measures[name] for row in self.rounds if row.measures.get(name)}


def read_run(path: Path) -> StoredRun:
    """Read and verify a run directory; a torn or altered file is refused by name."""
    return typed_run(path, *read_json(path))


def typed_run(path: Path, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> StoredRun:
    """Return a run from its verified JSON; a description with other types than a run's is refused."""
    try:
        run = StoredRun.from_json(path, facts, rows)
        _need_types(run)
    except (KeyError, TypeError, ValueError, AttributeError, SpecError) as error:
        raise _not_whole(path) from error
    return run


def _need_types(run: StoredRun) -> None:
    """Refuse values of other types than silobench writes: digests do not tell who wrote a record."""
    labels = (run.label, run.config)
    wrong = [key for key, kind in _CHOICES.items() if any(type(label.get(key)) is not kind for label in labels)]
    wrong += [name for record in (run.facts, *run.rounds) if (name := wrong_field(record)) is not None]
    if not wrong:
        replaced = run.label.replaced_measures
        reports = (wrong_report(row.measures, row.control, row.privacy, replaced) for row in run.rounds)
        wrong = [name for name in (*reports, wrong_length(run.facts, run.rounds)) if name is not None]
    if wrong:
        raise RecordError(f"{run.path} has no value of {wrong[0]} that silobench could have written: {REMEDY}")
    if run.complete and not run.tested:
        raise RecordError(f"{run.path} is marked as complete, but no round of it was tested: {REMEDY}")


def read_runs(root: Path) -> list[StoredRun]:
    """Read every run under a directory, in a stable order; one that is damaged is refused."""
    return [read_run(path) for path in run_paths(root)]


def interrupted_versions(path: Path) -> dict[str, str]:
    """Return the versions and the engine that an unfinished run was started with; empty where there is none."""
    if not (path / "run.json").exists() or read_header(path) is None:  # without a round there is nothing to continue
        return {}
    facts = read_facts(path)
    return {} if facts["status"] == "complete" else facts["made_by"]


# --- verified JSON -----------------------------------------------------------------------------------


def read_json(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read run.json and the committed lines of rounds.jsonl, verified, as they are stored."""
    facts, content = read_verified(path)
    return facts, rows_of(content, path / "rounds.jsonl")


def read_verified(path: Path) -> tuple[dict[str, Any], bytes]:
    """Read run.json and the committed bytes of rounds.jsonl, verified; who needs no rounds need not parse them."""
    facts = read_facts(path)
    try:
        return facts, _committed_lines(path, facts)
    except RecordError:
        now = read_facts(path)
        if now == facts:
            raise
        return now, _committed_lines(path, now)  # the run was finished between the two looks


def _committed_lines(path: Path, facts: Mapping[str, Any]) -> bytes:
    lines = path / "rounds.jsonl"
    if facts["status"] == "complete":
        size, digest = facts["records"]["bytes"], facts["records"]["sha256"]
    elif commit := read_header(path):
        size, digest = commit["bytes"], commit["sha256"]
    else:
        _need_no_rounds(path)
        size, digest = 0, sha256(b"")
    content = read_bytes(lines) if size or lines.exists() else b""
    return verified(content, size, digest, lines)


def _need_no_rounds(path: Path) -> None:
    """Refuse an unfinished run without a checkpoint, if it has more than the round that was under way."""
    lines = path / "rounds.jsonl"
    has_rounds = lines.exists() and read_bytes(lines).count(b"\n") > 1
    if has_rounds and not checkpoint_file(path).exists():  # a run that is being written may have got one meanwhile
        raise RecordError(f"{path / 'checkpoint'} is missing beside recorded rounds: {REMEDY}")


def verified(content: bytes, size: int, digest: str, file: Path) -> bytes:
    """Return the first `size` bytes of rounds.jsonl; other bytes than the digest's are refused."""
    if len(content) < size or sha256(content[:size]) != digest:
        raise RecordError(
            f"{file} is damaged (its first {size} bytes do not match the record, it has {len(content)}): {REMEDY}"
        )
    return content[:size]


def rows_of(content: bytes, file: Path) -> list[dict[str, Any]]:
    """Return the rows of verified lines as they are stored."""
    try:
        rows: list[dict[str, Any]] = parsed_json(b"[%s]" % b",".join(content.splitlines()))
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
        facts: dict[str, Any] = parsed_json(content)
        whole = all(isinstance(facts[key], kind) for key, kind in _FACTS.items())
        sealed = _SEAL.items() if facts["status"] == "complete" else ()
        whole &= all(type(facts["records"][key]) is kind for key, kind in sealed)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _not_whole(path) from error
    if not whole or facts["format"] != FORMAT:
        raise RecordError(f"{path / 'run.json'} is not a run description of format {FORMAT}: {REMEDY}")
    _need_unchanged(path, facts)
    return facts


def parsed_json(content: bytes) -> Any:
    """Return what JSON states; text with half a character (a lone surrogate), which nothing can write, is an error.

    It takes less than half of the time of `json.loads`, which takes such texts.
    """
    return from_json(content)


def _need_unchanged(path: Path, facts: Mapping[str, Any]) -> None:
    """Refuse a description that was edited. Earlier runs have no digest of it, but ids tell other configurations."""
    config, label = facts["config"], facts["label"]
    other = [key for key, value in label.items() if not isinstance(value, str) and config.get(key, value) != value]
    if run_id(config) != facts["id"]:
        what = f"its configuration is not that of the run {_shown(facts['id'])}"
    elif other:
        what = f"its label and its configuration have different values of {', '.join(other)}"
    elif "facts_sha256" in facts and facts["facts_sha256"] != facts_digest(facts):
        what = "it is not as silobench wrote it"
    else:
        return
    raise RecordError(f"{path / 'run.json'} was changed ({what}): {REMEDY}")


def facts_digest(facts: Mapping[str, Any]) -> str:
    """Return the digest of a run description, which it states itself under `facts_sha256`."""
    stated = {key: value for key, value in facts.items() if key != "facts_sha256"}
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
        whole = all(isinstance(header[key], kind) for key, kind in _HEADER.items())
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise damaged_checkpoint(file) from error
    if not whole or header.get("header_crc", header_crc(header)) != header_crc(header):  # earlier ones state none
        raise damaged_checkpoint(file)
    return header


def header_crc(header: Mapping[str, Any]) -> int:
    """Return the checksum of a checkpoint's header, which it states itself under `header_crc`."""
    stated = json.loads(json.dumps({key: value for key, value in header.items() if key != "header_crc"}))
    return zlib.crc32(json.dumps(stated, sort_keys=True).encode())


def damaged_checkpoint(file: Path) -> RecordError:
    return RecordError(f"{file} is damaged (it is not a whole checkpoint): {REMEDY}")


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path} cannot be read ({error.strerror}): {REMEDY}") from error


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
