"""Runs that differ only in their seed are trials of one cell; a cell is what a table shows."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, TypeAlias

from silobench.analysis.statistics import deviation, score_on_own_rows
from silobench.runs.label import Label
from silobench.runs.stored import DatasetFacts, StoredRun
from silobench.tasks.metrics import ACCURACY, Metric


@dataclass(frozen=True)
class Result:
    """A metric over trials: mean and standard deviation in the last round, and the mean of each trial's best round."""

    mean: float  # infinite if some trial has no finite value
    std: float | None  # None for a single trial
    best: float
    last: float

    def as_json(self) -> dict[str, float | None]:
        return {name: finite(value) for name, value in asdict(self).items()}


def finite(value: float | None) -> float | None:
    """Return a number for JSON, which has neither infinities nor NaN: None in place of them."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Published:
    """An accuracy that a paper prints, or an independent replication of it, as a fraction."""

    mean: float
    std: float | None
    table: str
    setting: str = ""  # the table in full, with the rounds and epochs behind it
    by: str = "paper"  # who prints it: the paper, or the short name of a replication

    def as_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std, "table": self.table}


@dataclass(frozen=True)
class PublishedCost:
    """The cost of one round, as a paper prints it."""

    seconds: float
    bytes: float


FindAccuracy: TypeAlias = Callable[[Label, int], Published | None]  # (label, number of parties)
FindCost: TypeAlias = Callable[[Label, int], PublishedCost | None]


def no_number(label: Label, parties: int) -> None:
    """Find no published number."""


def _no_replications(label: Label, parties: int) -> Sequence[Published]:
    return ()


@dataclass(frozen=True)
class References:
    """Published numbers and replications of a setting, looked up by its label and its number of parties."""

    accuracy: FindAccuracy = no_number
    cost: FindCost = no_number
    replications: Callable[[Label, int], Sequence[Published]] = _no_replications


NO_REFERENCES = References()


@dataclass(frozen=True)
class CellResult:
    """One setting, over its finished trials."""

    label: Label  # every choice but the seed
    seeds: list[int]
    parties: int
    metric: Metric  # the main one, by which the cell is judged
    score: Result  # of the main metric
    metrics: dict[str, tuple[Metric, Result]]  # all of them by name, the main one included
    diverged: bool  # whether the loss of some trial was not finite at the end
    bytes_up: float  # per trial, whole run
    bytes_down: float
    seconds: float
    round_seconds: float  # per round, parties and server
    clock: float
    emd_weighted: float
    paper: Published | None
    replications: Sequence[Published]  # what others got who repeated the paper's experiment
    paper_cost: PublishedCost | None
    cohort: int  # parties per round
    runs: list[StoredRun]

    @cached_property
    def curve(self) -> list[tuple[int, float]]:
        """The main metric by round, as a mean over trials."""
        return _mean_curve([run.curve() for run in self.runs])

    @property
    def config(self) -> Label:
        """The choices with every argument, also those at their defaults."""
        return self.runs[0].config

    @property
    def dataset(self) -> DatasetFacts:
        return self.runs[0].dataset

    @property
    def accuracy(self) -> Result | None:
        """The accuracy; None where there are no classes."""
        return self.metrics[ACCURACY.name][1] if ACCURACY.name in self.metrics else None

    @property
    def published(self) -> list[Published]:
        """All published accuracies: the paper's first, then those of replications."""
        return [*([self.paper] if self.paper else []), *self.replications]

    @property
    def baseline(self) -> float | None:
        """The main metric of the best constant answer, as a mean over trials; None if it is unknown."""
        constants = [run.metric.constant for run in self.runs]
        known = [constant for constant in constants if constant is not None]
        return fmean(known) if len(known) == len(constants) else None

    @property
    def constant_answer(self) -> str:
        """The constant answer behind `baseline`; empty if it is unknown, or differs between trials."""
        answers = {run.facts.objective.constant_answer for run in self.runs}
        return answers.pop() if len(answers) == 1 else ""

    @property
    def on_own_rows(self) -> tuple[float, float | None] | None:
        """The main metric on the parties' own test rows as a mean over parties: mean and deviation over trials.

        None where some trial does not have it.
        """
        known = [score for score in map(score_on_own_rows, self.runs) if score is not None]
        return (fmean(known), deviation(known)) if len(known) == len(self.runs) else None

    @property
    def has_party_models(self) -> bool:
        """Whether parties have models of their own, which were tested on all test rows too."""
        return any(result.score_on_all is not None for result in self.runs[0].final.parties.values())

    @property
    def is_accuracy(self) -> bool:
        """Whether the cell is judged by accuracy, as the papers' cells are."""
        return self.metric.name == ACCURACY.name

    @property
    def is_vertical(self) -> bool:
        """Whether parties hold columns."""
        return self.runs[0].facts.vertical is not None

    @property
    def rounds(self) -> float:
        """How many rounds a trial had: those that were planned, unless a schedule ended it."""
        return fmean(len(run.rounds) for run in self.runs)

    @property
    def virtual_seconds(self) -> float | None:
        """How long a run takes parties that compute side by side: network and computing, set by `clock` or measured.

        None for runs from before the slowest party was timed.
        """
        each = [_virtual_seconds(run) for run in self.runs]
        known = [seconds for seconds in each if seconds is not None]
        return fmean(known) if len(known) == len(each) else None

    def as_json(self) -> dict[str, Any]:
        names = ("parties", "bytes_up", "bytes_down", "seconds", "clock", "virtual_seconds")
        return {
            **self.label,
            **({"clock_spec": self.label["clock"]} if "clock" in self.label else {}),
            **{name: getattr(self, name) for name in names},
            "trials": len(self.seeds),
            "seeds": self.seeds,
            "accuracy": self.accuracy and self.accuracy.as_json(),
            "metric": {
                "name": self.metric.name,
                "higher_is_better": self.metric.higher_is_better,
                "unit": self.metric.unit,
                **self.score.as_json(),
            },
            "metrics": {
                name: {"mean": finite(result.mean), "std": finite(result.std)}
                for name, (_, result) in self.metrics.items()
            },
            "own": self.on_own_rows and dict(zip(("mean", "std"), self.on_own_rows, strict=True)),
            "baseline": self.baseline,
            "constants": {name: metric.constant for name, (metric, _) in self.metrics.items()},
            "constant_answer": self.constant_answer or None,
            "diverged": self.diverged,
            "emd_weighted": self.emd_weighted,
            "total_variation": self.emd_weighted / 2,
            "paper": self.paper and self.paper.as_json(),
            "replications": {other.by: other.as_json() for other in self.replications},
            **({"malicious": malicious} if any(malicious := [run.facts.malicious for run in self.runs]) else {}),
            "runs": [str(run.path) for run in self.runs],
        }


def _virtual_seconds(run: StoredRun) -> float | None:
    last = run.rounds[-1]
    if last.computing is not None:  # the clock includes it
        return last.clock
    slowest = run.totals.slowest
    return None if slowest is None else last.clock + slowest


def collect(runs: Iterable[StoredRun], references: References = NO_REFERENCES) -> list[CellResult]:
    """Return the cells of all finished runs, in the order in which they were planned; a copy of a run counts once."""
    trials: dict[Label, list[StoredRun]] = {}
    for run in {run.facts.id: run for run in runs if run.complete}.values():
        trials.setdefault(run.config.without("seed"), []).append(run)
    cells = [_cell(sorted(group, key=lambda run: run.seed), references) for group in trials.values()]
    return _with_origins(sorted(cells, key=lambda cell: cell.runs[0].facts.created))


def _with_origins(cells: list[CellResult]) -> list[CellResult]:
    """Add data and plugins to labels that are equal: these are what such cells differ in."""
    labels = Counter(cell.label for cell in cells)
    return [
        replace(cell, label=cell.label.replace(origin=_origin(cell))) if labels[cell.label] > 1 else cell
        for cell in cells
    ]


def _origin(cell: CellResult) -> str:
    return " ".join([f"data {cell.config['checksum'][:8]}", *cell.config.get("plugins", [])])


def _cell(runs: list[StoredRun], references: References) -> CellResult:
    label, parties = runs[0].label.without("seed"), runs[0].partition.party_count
    main, metrics = runs[0].metric, _results(runs)
    is_accuracy = main.name == ACCURACY.name
    return CellResult(
        label=label,
        seeds=[run.seed for run in runs],
        parties=parties,
        metric=main,
        score=metrics[main.name][1],
        metrics=metrics,
        diverged=any(run.last_test is None or run.last_test.loss is None for run in runs),
        bytes_up=fmean(run.totals.bytes_up for run in runs),
        bytes_down=fmean(run.totals.bytes_down for run in runs),
        seconds=fmean(run.totals.seconds for run in runs),
        round_seconds=sum(run.totals.computing for run in runs) / sum(len(run.rounds) for run in runs),
        clock=fmean(run.rounds[-1].clock for run in runs),
        emd_weighted=fmean(run.partition.emd_weighted for run in runs),
        paper=references.accuracy(label, parties) if is_accuracy else None,
        replications=references.replications(label, parties) if is_accuracy else (),
        paper_cost=references.cost(label, parties),
        cohort=max(1, len(runs[0].rounds[-1].cohort)),
        runs=runs,
    )


def _results(runs: Sequence[StoredRun]) -> dict[str, tuple[Metric, Result]]:
    """Return the main metric, and all others that every trial has recorded, over trials."""
    results = {}
    for metric in dict.fromkeys((runs[0].metric, *runs[0].metrics)):
        if metric == runs[0].metric or all(_has(run, metric) for run in runs):
            curves = [run.scores(metric) for run in runs]
            last = [curve[-1] for curve in curves]
            mean, best = fmean(last), fmean(metric.best(curve) for curve in curves)
            results[metric.name] = (metric, Result(mean, deviation(last), best, mean))
    return results


def _has(run: StoredRun, metric: Metric) -> bool:
    return any(score is not None for score in run.totals.scores.get(metric.name, ()))


def _mean_curve(curves: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Return the mean over trials, in the rounds that all of them have."""
    trials = [dict(curve) for curve in curves]
    return [
        (round, fmean(trial[round] for trial in trials))
        for round in trials[0]
        if all(round in trial for trial in trials)
    ]
