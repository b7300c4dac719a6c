"""Studies as they are stored: what is searched, and the settings that were tried. Nothing here needs torch or Optuna.

    study.json   the definition of the study, and the values and run ids of each trial
    tuned.toml   the experiment with the best values
    trials/      runs on validation rows: the trials, and repeats of the best few and of the defaults
    confirm/     runs of both with all training rows, on test rows

No score is stored in study.json: all scores are read from the runs, so that nothing can disagree with them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from silobench.analysis.statistics import deviation
from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.runs.folders import files_under
from silobench.runs.stored import StoredRun, facts_digest, parsed_json, read_bytes, read_run
from silobench.tasks.metrics import Metric
from silobench.tuning.ranges import Range, Value, range_of

STUDY = "study.json"
TRIALS, CONFIRM = "trials", "confirm"
FORMAT = 1
RUNG_SHARES = (4, 2)  # a run may be pruned after a quarter and after half of its rounds


@dataclass(frozen=True)
class Definition:
    """What makes a study what it is: with the same definition, the same trials follow. Their number is not in it."""

    choices: Mapping[str, Any]  # of the experiment
    space: Mapping[str, Range]
    sampler: str = "tpe"
    seed: int = 0  # of the sampler
    seeds: int = 3  # per trial, counted from that of the experiment
    validation: str = "4:1"  # training rows, and rows that trials are scored on
    prune: bool = False
    batch: int = 4  # trials that are suggested together and run side by side

    @property
    def first_seed(self) -> int:
        return int(self.choices.get("seed", 0))

    @property
    def split(self) -> str:
        return str(self.choices.get("split", "given"))

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "choices": dict(self.choices), "space": {k: v.text() for k, v in self.space.items()}}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Definition":
        wrong = [name for name, kind in _TYPES.items() if type(facts[name]) is not kind]
        if wrong:
            raise TypeError(f"{wrong[0]} has another type")
        space = {key: range_of(key, text) for key, text in facts["space"].items()}
        return cls(**{**{name: facts[name] for name in cls.__dataclass_fields__}, "space": space})


_TYPES = {
    "choices": dict, "space": dict, "sampler": str, "seed": int, "seeds": int, "validation": str, "prune": bool,
    "batch": int,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One point of the search space: its values, and the ids of its runs, one per seed."""

    number: int
    values: Mapping[str, Value]
    runs: tuple[str, ...]
    pruned: int | None = None  # the round after which it was given up

    def as_json(self) -> dict[str, Any]:
        pruned = {} if self.pruned is None else {"pruned": self.pruned}
        return {"number": self.number, "values": dict(self.values), "runs": list(self.runs), **pruned}


@dataclass(frozen=True)
class Pairs:
    """Ids of runs of the defaults and of a trial with the same seeds."""

    trial: int  # the number of the trial that was the best
    default: tuple[str, ...]
    tuned: tuple[str, ...]


@dataclass(frozen=True)
class Study:
    """A definition and its trials. Trial 0 is the experiment as it is written: the defaults."""

    definition: Definition
    trials: tuple[Trial, ...] = ()
    repeats: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # further runs of finalists, by trial
    confirm: Pairs | None = None  # on test rows

    def with_trial(self, trial: Trial) -> "Study":
        """Return the study with a trial added, or replaced if it has a trial of this number.

        Another trial may be the best, so repeats and runs on test rows no longer count.
        """
        if trial in self.trials:
            return self
        trials = {**{each.number: each for each in self.trials}, trial.number: trial}
        return Study(self.definition, tuple(trials[number] for number in sorted(trials)))

    def with_repeats(self, repeats: Mapping[int, tuple[str, ...]]) -> "Study":
        """Return the study with repeats; other repeats may use the seeds of runs on test rows, which are left out."""
        return self if repeats == self.repeats else replace(self, repeats=repeats, confirm=None)

    @property
    def fresh_seed(self) -> int:
        """The first seed that is neither of the trials nor of their repeats."""
        repeats = max(map(len, self.repeats.values()), default=0)
        return self.definition.first_seed + self.definition.seeds + repeats

    def write(self, out: Path) -> None:
        facts = {
            "format": FORMAT,
            "definition": self.definition.as_json(),
            "trials": [trial.as_json() for trial in self.trials],
            **({"repeats": {str(number): list(ids) for number, ids in self.repeats.items()}} if self.repeats else {}),
            **({"confirm": vars(self.confirm)} if self.confirm else {}),
        }
        out.mkdir(parents=True, exist_ok=True)
        content = json.dumps({**facts, "facts_sha256": facts_digest(facts)}, indent=1, ensure_ascii=False)
        replace_atomically(out / STUDY, content.encode())


def read_study(out: Path) -> Study:
    """Read the study of a directory; one that is damaged is refused."""
    file = out / STUDY
    content = read_bytes(file)
    try:
        facts = parsed_json(content)
        if facts["format"] != FORMAT:
            raise RecordError(f"{file} has another format than {FORMAT}: read it with the version that wrote it.")
        if facts.get("facts_sha256", facts_digest(facts)) != facts_digest(facts):  # earlier studies state none
            raise ValueError("it is not as silobench wrote it")
        if _has_nan(facts):  # silobench writes none, and it would not be equal to itself
            raise ValueError("a value of it is no number")
        trials = [
            Trial(each["number"], each["values"], tuple(each["runs"]), each.get("pruned")) for each in facts["trials"]
        ]
        repeats = {int(number): tuple(ids) for number, ids in facts.get("repeats", {}).items()}
        pairs = facts.get("confirm", {})  # without a trial, it is not known whether they are of the best one
        confirm = Pairs(pairs["trial"], tuple(pairs["default"]), tuple(pairs["tuned"])) if "trial" in pairs else None
        return Study(Definition.from_json(facts["definition"]), tuple(trials), repeats, confirm)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"{file} is damaged (it is not a whole study): its runs are untouched, so delete this file, and the same "
            "command builds it again from them."
        ) from error


def _has_nan(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (isinstance(value, float) and math.isnan(value)) or any(map(_has_nan, inner))


def study_directories(root: Path) -> list[Path]:
    """Return the directories of all studies under a directory, sorted."""
    return sorted(path.parent for path in files_under(root, STUDY))


# --- scores, from the runs -----------------------------------------------------------------------------


def final_score(run: StoredRun) -> float:
    """Return the main metric of a run in its last tested round; the metric's failure if it has none."""
    curve = run.curve()
    return curve[-1][1] if curve else run.metric.failure


def score_at(run: StoredRun, round: int) -> float:
    """Return the main metric of a run in the last tested round up to this one."""
    values = [value for tested, value in run.curve() if tested <= round]
    return values[-1] if values else run.metric.failure


def rungs_of(rounds: int) -> tuple[int, ...]:
    """Return the rounds after which a run may be pruned.

    >>> rungs_of(50), rungs_of(2), rungs_of(1)
    ((12, 25), (1,), ())
    """
    return tuple(sorted({rounds // share for share in RUNG_SHARES} - {0, rounds}))


@dataclass(frozen=True)
class TrialResult:
    """A trial with its runs, of which not all need be finished; a finalist has repeats on further seeds."""

    trial: Trial
    runs: tuple[StoredRun, ...]
    repeats: tuple[StoredRun, ...] = ()

    @property
    def is_complete(self) -> bool:
        return len(self.runs) == len(self.trial.runs) and all(run.complete for run in self.runs)

    @property
    def scores(self) -> list[float]:
        return [final_score(run) for run in self.runs]

    @cached_property
    def score(self) -> float:
        """The mean of the main metric over the seeds of the search, by which samplers judge it."""
        return fmean(self.scores)

    @property
    def std(self) -> float | None:
        return deviation(self.scores)

    @cached_property
    def overall(self) -> float:
        """The mean of the main metric over all seeds, those of repeats included."""
        return fmean(map(final_score, (*self.runs, *self.repeats)))

    def at(self, round: int) -> float:
        """Return the mean of the main metric over seeds after a round."""
        return fmean(score_at(run, round) for run in self.runs)

    @property
    def state(self) -> str:
        return "pruned" if self.trial.pruned is not None else "finished" if self.is_complete else "unfinished"


@dataclass(frozen=True)
class Cost:
    """What runs cost."""

    runs: int = 0
    rounds: int = 0
    bytes: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, runs: Sequence[StoredRun]) -> "Cost":
        """Add up the cost of runs; a run that several trials share counts once."""
        rows = [row for run in {run.facts.id: run for run in runs}.values() for row in run.rounds]
        spent = sum(row.bytes for row in rows), sum(row.total_seconds for row in rows)
        return cls(len({run.facts.id for run in runs}), len(rows), *spent)


@dataclass(frozen=True)
class Outcome:
    """A study with everything that its runs say."""

    study: Study
    trials: tuple[TrialResult, ...]
    confirm: tuple[list[StoredRun], list[StoredRun]]  # of the defaults and of the best trial, on test rows

    @property
    def metric(self) -> Metric:
        return self.trials[0].runs[0].metric

    @property
    def finished(self) -> list[TrialResult]:
        return [trial for trial in self.trials if trial.is_complete]

    @property
    def default(self) -> TrialResult:
        return self.trials[0]

    @property
    def ranked(self) -> list[TrialResult]:
        """The finished trials, the best score of the search first; of equal ones the earlier one."""
        sign = -1 if self.metric.higher_is_better else 1
        return sorted(self.finished, key=lambda trial: (sign * trial.score, trial.trial.number))

    @property
    def best(self) -> TrialResult:
        """The finalist with the best mean over all its seeds; without repeats, the trial with the best score."""
        finalists = [trial for trial in self.ranked if trial.repeats] or self.ranked
        sign = -1 if self.metric.higher_is_better else 1
        return min(finalists, key=lambda trial: sign * trial.overall)

    @property
    def cost(self) -> Cost:
        """What the search cost: trials and repeats, without the runs on test rows."""
        return Cost.of([run for trial in self.trials for run in (*trial.runs, *trial.repeats)])

    @property
    def confirm_cost(self) -> Cost:
        return Cost.of([*self.confirm[0], *self.confirm[1]])


def read_outcome(study: Study, out: Path) -> Outcome:
    """Read the runs of a study; runs that were not started yet are left out."""
    folder = out / TRIALS
    trials = [
        TrialResult(trial, _runs(folder, trial.runs), _runs(folder, study.repeats.get(trial.number, ())))
        for trial in study.trials
    ]
    outcome = Outcome(study, tuple(trial for trial in trials if trial.runs), ([], []))
    pairs = study.confirm
    if pairs is None or not outcome.finished or outcome.best.trial.number != pairs.trial:
        return outcome
    confirm = list(_runs(out / CONFIRM, pairs.default)), list(_runs(out / CONFIRM, pairs.tuned))
    return replace(outcome, confirm=confirm)


def _runs(folder: Path, ids: Sequence[str]) -> tuple[StoredRun, ...]:
    return tuple(read_run(folder / id) for id in ids if (folder / id / "run.json").exists())
