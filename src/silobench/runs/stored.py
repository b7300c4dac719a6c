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
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from safetensors import SafetensorError, safe_open

from silobench.errors import RecordError
from silobench.runs.label import Label
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


# --- run.json ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """The data of a run."""

    name: str
    train: int  # rows
    test: int
    classes: tuple[str, ...]
    task: str = "classification"
    checksum: str = ""
    licence: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "DatasetFacts":
        get = facts.get
        return cls(
            facts["name"],
            facts["train"],
            facts["test"],
            tuple(facts["classes"]),
            get("task", "classification"),
            get("checksum", ""),
            get("licence", ""),
            tuple(get("notes", ())),
        )


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows that all parties have in common (Zhao et al., 2018, section 4)."""

    rows: int
    each: int  # how many of them a party gets
    bytes: int  # sent to all parties before the first round
    emd_weighted_before: float  # of the parties' own rows
    warmup: int = 0  # epochs of training on these rows before the first round

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "SharedRows":
        return cls(facts["rows"], facts["each"], facts["bytes"], facts["emd_weighted_before"], facts.get("warmup", 0))


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """Who has which data, in numbers."""

    sizes: tuple[int, ...] = ()  # rows by party; empty where parties do not hold rows of their own
    counts: tuple[tuple[int, ...], ...] = ()  # rows by party and class
    parties: tuple[str, ...] = ()  # names
    fingerprint: str = ""
    emd: tuple[float, ...] = ()  # earth mover's distance of labels, by party
    emd_weighted: float = 0.0
    jensen_shannon: float = 0.0
    gini: float = 0.0
    feature_shift: float = 0.0
    notes: tuple[str, ...] = ()
    shared: SharedRows | None = None
    wasserstein: float | None = None  # of a numeric target, in its standard deviations

    @property
    def party_count(self) -> int:
        return max(len(self.sizes), len(self.parties))

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "PartitionFacts":
        get, shared = facts.get, facts.get("shared")
        return cls(
            tuple(facts["sizes"] if "parties" not in facts else get("sizes", ())),
            tuple(map(tuple, get("counts", ()))),
            tuple(get("parties", ())),
            get("fingerprint", ""),
            tuple(get("emd", ())),
            get("emd_weighted", 0.0),
            get("jensen_shannon", 0.0),
            get("gini", 0.0),
            get("feature_shift", 0.0),
            tuple(get("notes", ())),
            SharedRows.from_json(shared) if shared else None,
            get("wasserstein"),
        )


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The numeric target of a regression."""

    name: str
    mean: float | None = None
    std: float | None = None
    bins: tuple[float, ...] = ()  # edges of the bins in which rows are counted by party

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "TargetFacts":
        return cls(facts["name"], facts.get("mean"), facts.get("std"), tuple(facts.get("bins") or ()))


@dataclass(frozen=True, slots=True)
class ObjectiveFacts:
    """The objective of a run: its name, and the metrics by which its models are scored."""

    name: str = "cross-entropy"
    main: Metric = ACCURACY
    metrics: tuple[Metric, ...] = (ACCURACY,)  # all of them, with the main one
    reason: str = ""  # how it was detected; empty if the user set it
    spec: str = ""
    target: TargetFacts | None = None
    extra: tuple[Metric, ...] = ()  # metrics that only the final test has
    constant_answer: str = ""  # the best one, whose scores are the metrics' constants; empty if it is unknown

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "ObjectiveFacts":
        get, metrics = facts.get, tuple(map(Metric.from_json, facts["metrics"]))
        target = get("target")
        return cls(
            facts["name"],
            {metric.name: metric for metric in metrics}[facts["main"]],
            metrics,
            get("reason", ""),
            get("spec", ""),
            TargetFacts.from_json(target) if target else None,
            tuple(map(Metric.from_json, get("extra", ()))),
            get("constant_answer", ""),
        )


@dataclass(frozen=True, slots=True)
class Records:
    """The seal of a finished rounds.jsonl."""

    rounds: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The content of run.json. Keys that an older run lacks have defaults; unknown keys are ignored."""

    id: str
    status: str
    config: Label  # every argument of every choice; it names the run
    label: Label  # only what was chosen
    dataset: DatasetFacts
    partition: PartitionFacts
    created: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)  # versions, CPU and engine; key `made_by`
    parameters: int = 0  # numbers of the model
    warnings: tuple[str, ...] = ()
    records: Records | None = None  # of a finished run
    model_sha256: str = ""
    state_sha256: str = ""
    objective: ObjectiveFacts = field(default_factory=ObjectiveFacts)

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "RunFacts":
        get, seal, objective = facts.get, facts.get("records"), facts.get("objective")
        facts["config"]["seed"]  # every reader of a run asks for it
        return cls(
            facts["id"],
            facts["status"],
            Label(facts["config"]),
            Label(facts["label"]),
            DatasetFacts.from_json(facts["dataset"]),
            PartitionFacts.from_json(facts["partition"]),
            get("created", ""),
            get("made_by", {}),
            get("parameters", 0),
            tuple(get("warnings", ())),
            Records(seal["rounds"], seal["bytes"], seal["sha256"]) if seal else None,
            get("model_sha256", ""),
            get("state_sha256", ""),
            ObjectiveFacts.from_json(objective) if objective else ObjectiveFacts(),
        )


# --- rounds.jsonl ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CalibrationFacts:
    """How well a network's confidence agrees with its accuracy, over bins of equal width from 0 to 1."""

    error: float | None  # expected calibration error
    brier: float | None
    rows: Sequence[int]  # by bin
    confidence: Sequence[float]  # mean by bin; 0 without rows
    accuracy: Sequence[float]

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "CalibrationFacts":
        return cls(facts["error"], facts["brier"], facts["rows"], facts["confidence"], facts["accuracy"])


@dataclass(frozen=True, slots=True)
class PartyResult:
    """The main metric of a party's model, or of the shared one, on the party's own test rows and on all of them."""

    rows: int  # its own test rows
    score: float | None  # on these (key `own`); None where the metric is undefined, as without rows
    score_on_all: float | None = None  # on all test rows (key `all`); None where parties share one model

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "PartyResult":
        return cls(facts["rows"], facts["own"], facts.get("all"))


@dataclass(frozen=True, slots=True)
class FinalFacts:
    """The final test of a run, in its last record. Earlier runs have none, and all fields are then empty."""

    confusion: Sequence[Sequence[int]] = ()  # rows by class and answer, over all models; empty above 100 classes
    calibration: CalibrationFacts | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    parties: Mapping[str, PartyResult] = field(default_factory=dict)  # by name

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "FinalFacts":
        get, calibration = facts.get, facts.get("calibration")
        return cls(
            get("confusion", ()),
            CalibrationFacts.from_json(calibration) if calibration else None,
            get("metrics", {}),
            {name: PartyResult.from_json(result) for name, result in get("parties", {}).items()},
        )


_NOT_TESTED = FinalFacts()


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One line of rounds.jsonl. The fields are those of `RoundRecord`, without its state."""

    round: int
    accuracy: float | None = None  # None in a round that was not tested, and where there are no classes
    loss: float | None = None  # None also where it is not finite
    train_loss: float | None = None
    class_accuracy: Sequence[float | None] | None = None  # None for a class without test rows
    accuracy_std: float | None = None  # over parties' own models
    validation: float | None = None  # the main metric on validation rows
    party_accuracy: Sequence[float | None] | None = None  # the main metric by party
    cohort: Sequence[int] = ()
    steps: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    clock: float = 0.0  # virtual seconds
    knobs: Mapping[str, float] = field(default_factory=dict)
    engine: str = ""
    workers: int = 1
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
    measures: Mapping[str, Any] = field(default_factory=dict)  # findings by name of the measure
    control: Mapping[str, Any] = field(default_factory=dict)  # the controller's report
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # None where it is not finite
    validation_loss: float | None = None
    reports: Mapping[str, float] = field(default_factory=dict)  # of transforms and the pace: means over parties
    replied: Sequence[int] | None = None  # parties that answered; None if all of the cohort did
    computing: float | None = None  # virtual seconds that the slowest party computed; None if that is measured
    final: FinalFacts = _NOT_TESTED

    @property
    def tested(self) -> bool:
        """Whether the model was tested after this round."""
        return self.accuracy is not None or bool(self.metrics)

    def score(self, metric: str) -> float | None:
        """Return the value of a metric; None where it is not finite or not recorded.

        Balanced accuracy follows from the accuracy by class where it is not recorded.
        """
        for metrics in (self.metrics, self.final.metrics):
            if metric in metrics:
                return metrics[metric]
        if metric == ACCURACY.name:
            return self.accuracy
        if metric == BALANCED_ACCURACY.name:
            classes = [accuracy for accuracy in self.class_accuracy or () if accuracy is not None]
            return fmean(classes) if classes else None
        return None

    @property
    def bytes(self) -> int:
        return self.bytes_up + self.bytes_down

    @property
    def total_seconds(self) -> float:
        """Seconds of all phases, loading and recording included."""
        return sum(spent for phase, spent in self.seconds.items() if phase != "slowest")  # a part of "train"

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "RoundRow":
        get = row.get
        return cls(
            row["round"],
            get("accuracy"),
            get("loss"),
            get("train_loss"),
            get("class_accuracy"),
            get("accuracy_std"),
            get("validation"),
            get("party_accuracy"),
            get("cohort", ()),
            get("steps", 0),
            get("bytes_up", 0),
            get("bytes_down", 0),
            get("clock", 0.0),
            get("knobs", {}),
            get("engine", ""),
            get("workers", 1),
            get("seconds", {}),
            get("measures") or {},
            get("control") or {},
            get("metrics") or {},
            get("validation_loss"),
            get("reports") or {},
            get("replied"),
            get("computing"),
            FinalFacts.from_json(row["final"]) if row.get("final") else _NOT_TESTED,
        )


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
    def final(self) -> FinalFacts:
        """The final test; that of a run from before there was one is empty."""
        return self.rounds[-1].final if self.rounds else _NOT_TESTED

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
    facts, rows = read_json(path)
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
    if len(content) < size or sha256(content[:size]) != digest:
        raise RecordError(
            f"{lines} is damaged (its first {size} bytes do not match the record, it has {len(content)}): {REMEDY}"
        )
    rows: list[dict[str, Any]] = json.loads(b"[%s]" % b",".join(content[:size].splitlines()))
    return facts, rows


def read_facts(path: Path) -> dict[str, Any]:
    """Read run.json as it is stored; one that is not a whole description is refused."""
    if not (path / "run.json").exists():
        raise RecordError(f"{path} has no run.json beside its recorded rounds: {REMEDY}")
    content = read_bytes(path / "run.json")
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
