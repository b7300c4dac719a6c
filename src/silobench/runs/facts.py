"""The typed content of a run directory: facts of run.json, and rows of rounds.jsonl. Nothing here needs torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NotRequired, TypedDict

from silobench.runs.label import Label
from silobench.runs.vertical_facts import RowSet, VerticalFacts
from silobench.tasks.metrics import ACCURACY, BALANCED_ACCURACY, Metric

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

    @property
    def total_variation(self) -> float:
        """The mean distance of the parties' labels from all labels, from 0 to 1; older runs store only the EMD."""
        return self.emd_weighted / 2

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
    malicious: tuple[int, ...] = ()  # parties that did what the adversary of the run wants
    vertical: VerticalFacts | None = None  # None where parties hold rows

    @property
    def complete(self) -> bool:
        return self.status == "complete"

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], typed: Mapping[str, Any] | None = None) -> "RunFacts":
        """Return typed facts; `typed` has parts that are typed already, by their keys, because runs share them."""
        get, seal, objective, typed = facts.get, facts.get("records"), facts.get("objective"), typed or {}
        vertical, config = get("vertical"), typed.get("config") or Label(facts["config"])
        config["seed"]  # every reader of a run asks for it
        return cls(
            facts["id"],
            facts["status"],
            config,
            typed.get("label") or Label(facts["label"]),
            typed.get("dataset") or DatasetFacts.from_json(facts["dataset"]),
            typed.get("partition") or PartitionFacts.from_json(facts["partition"]),
            get("created", ""),
            get("made_by", {}),
            get("parameters", 0),
            tuple(get("warnings", ())),
            Records(seal["rounds"], seal["bytes"], seal["sha256"]) if seal else None,
            get("model_sha256", ""),
            get("state_sha256", ""),
            typed.get("objective") or (ObjectiveFacts.from_json(objective) if objective else ObjectiveFacts()),
            tuple(get("malicious", ())),
            VerticalFacts.from_json(vertical) if vertical else None,
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
class CrossFacts:
    """The cross-test of a run: the main metric of each model on the test rows of every party, and on all test rows."""

    models: Sequence[str]  # names of the parties that they belong to, or "shared"
    tests: Sequence[str]  # names of the parties, and "all"
    scores: Sequence[Sequence[float | None]]  # by model and test rows; None without rows, or where it is undefined

    @property
    def has_party_models(self) -> bool:
        """Whether every party has its own model."""
        return list(self.models) == list(self.tests[:-1])

    def items(self) -> Iterator[tuple[str, str, float | None]]:
        """Yield (model, test rows, score)."""
        for model, scores in zip(self.models, self.scores, strict=True):
            for test, score in zip(self.tests, scores, strict=True):
                yield model, test, score

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "CrossFacts":
        return cls(facts["models"], facts["tests"], facts["scores"])


@dataclass(frozen=True, slots=True)
class FinalFacts:
    """The final test of a run, in its last record. Earlier runs have none, and all fields are then empty."""

    confusion: Sequence[Sequence[int]] = ()  # rows by class and answer, over all models; empty above 100 classes
    calibration: CalibrationFacts | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    parties: Mapping[str, PartyResult] = field(default_factory=dict)  # by name
    cross: CrossFacts | None = None  # None with more than 32 parties
    by_rows: Mapping[str, RowSet] = field(default_factory=dict)  # by set of test rows, in vertical runs

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "FinalFacts":
        get, calibration, cross = facts.get, facts.get("calibration"), facts.get("cross")
        return cls(
            get("confusion", ()),
            CalibrationFacts.from_json(calibration) if calibration else None,
            get("metrics", {}),
            {name: PartyResult.from_json(result) for name, result in get("parties", {}).items()},
            CrossFacts.from_json(cross) if cross else None,
            {name: RowSet.from_json(rows) for name, rows in get("by_rows", {}).items()},
        )


_NOT_TESTED = FinalFacts()
LOST = "lost rounds"  # the report of a round that was given up


class RoundTime(TypedDict):
    """Virtual seconds of a round."""

    total: float
    core: NotRequired[float | None]
    server: NotRequired[Mapping[str, float]]  # by part
    parties: NotRequired[Mapping[str, float]]  # by part, of a mean party


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
    reports: Mapping[str, float | None] = field(default_factory=dict)  # of transforms and the pace; None as in `loss`
    replied: Sequence[int] | None = None  # parties that answered; None if all of the cohort did
    computing: float | None = None  # virtual seconds that the slowest party computed; None if that is measured
    final: FinalFacts = _NOT_TESTED
    rows: int | None = None  # row visits of training; None in earlier runs, like the next two and `time`
    dense_up: int | None = None  # bytes of the same messages without transforms
    dense_down: int | None = None
    converged: bool = False  # whether its schedule ended the run after this round
    time: RoundTime | None = None
    privacy: Mapping[str, Any] = field(default_factory=dict)  # what was spent until now; `ended` if its budget ended it
    phases: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # messages by phase

    @property
    def is_lost(self) -> bool:
        """Whether too few parties answered a secure sum, so that the round left the model as it was."""
        return LOST in self.reports

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
            get("rows"),
            get("dense_up"),
            get("dense_down"),
            get("converged", False),
            get("time") or None,
            get("privacy") or {},
            get("phases") or {},
        )
