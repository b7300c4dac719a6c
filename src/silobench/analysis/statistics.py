"""Numbers of one run besides its last score: rounds and bytes to a target, steadiness, classes and parties."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Literal, TypeAlias

from silobench.analysis.exact import stdev
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric

Curve: TypeAlias = Sequence[tuple[int, float]]  # (round, score) of the rounds that were evaluated


@dataclass(frozen=True)
class Spread:
    """A summary of several numbers. The standard deviation is that of a sample; a single number has none."""

    mean: float
    std: float | None
    worst: float
    best: float


@dataclass(frozen=True)
class PartyAccuracy:
    """The main metric by party, usually accuracy, None where it is unknown, and the spread of the known ones."""

    each: tuple[float | None, ...]
    spread: Spread
    kind: Literal["measured", "expected from class accuracies"]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.spread), "kind": self.kind, "each": list(self.each)}


def spread(values: Iterable[float], metric: Metric = ACCURACY) -> Spread | None:
    """Return mean, deviation and extremes; None for no numbers. The metric tells which extreme is the best.

    >>> spread([0.5, 0.7, 0.9]).worst
    0.5
    """
    known = list(values)
    return Spread(fmean(known), deviation(known), metric.worst(known), metric.best(known)) if known else None


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample; None for a single number, or where some number is not finite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def judged_rows(run: StoredRun) -> int:
    """Return the number of test rows behind the scores of a run: where parties hold columns, those that all have."""
    facts = run.facts.vertical
    return run.dataset.test if facts is None else facts.aligned_test


def score_on_own_rows(run: StoredRun) -> float | None:
    """Return the mean over parties of the main metric on their own test rows; None where no party has it."""
    known = [result.score for result in run.final.parties.values() if result.score is not None]
    return fmean(known) if known else None


def rounds_to(curve: Curve, target: float, metric: Metric = ACCURACY) -> int | None:
    """Return the first evaluated round whose score reaches the target; None if there is none.

    >>> rounds_to([(5, 0.4), (10, 0.8), (15, 0.7)], 0.75)
    10
    """
    return next((round for round, score in curve if metric.reaches(score, target)), None)


def bytes_to(run: StoredRun, target: float) -> int | None:
    """Return the bytes, both ways and over all parties, until the score reaches the target; None if it never does."""
    last = rounds_to(run.curve(), target, run.metric)
    return None if last is None else bytes_until(run, last)


def bytes_until(run: StoredRun, last: int) -> int:
    """Return the bytes, both ways and over all parties, from the first round to this one."""
    if last >= len(run.rounds):
        return run.totals.bytes_up + run.totals.bytes_down
    return sum(row.bytes for row in run.rounds if row.round <= last)


def stability(curve: Curve, last: int = 10) -> float | None:
    """Return the standard deviation of the score over the last evaluated rounds, any trend included.

    >>> stability([(1, 0.2), (2, 0.8), (3, 0.8)], last=2)
    0.0
    """
    return deviation([score for _, score in curve[-last:]])


def class_accuracy(run: StoredRun) -> Sequence[float | None] | None:
    """Return the accuracy by class in the last evaluated round; None where the run has not recorded it."""
    last = run.last_test
    return last.class_accuracy if last else None


def party_accuracy(run: StoredRun) -> PartyAccuracy | None:
    """Return the last model's score at each party: measured on rows that the party held out, else expected.

    The expected accuracy weights the accuracy of each class by the party's share of that class. It depends on the
    labels that a party holds, but not on whether its images are noisier than those of others. Other metrics than
    accuracy have no expected value.
    """
    last = run.last_test
    if last is None:
        return None
    if last.party_accuracy is not None:
        return _summary(last.party_accuracy, "measured", run.metric)
    if run.metric.name != ACCURACY.name:
        return None
    if run.dataset.task == "verification":  # its classes are those of pairs, and parties hold no pairs
        return None
    by_class = last.class_accuracy
    if by_class is None or last.accuracy_std is not None:  # a sum over the parties' own models
        return None
    each = [_expected(counts, by_class) for counts in run.partition.counts]
    return _summary(each, "expected from class accuracies", run.metric)


def _expected(held: Sequence[int], by_class: Sequence[float | None]) -> float | None:
    """Return the expected accuracy of a party; None where it holds a class without test rows.

    A model may have more outputs than there are classes. Nobody holds rows of those.
    """
    pairs = [(count, accuracy) for count, accuracy in zip(held, by_class, strict=False) if count]
    known = [count * accuracy for count, accuracy in pairs if accuracy is not None]
    return sum(known) / sum(held) if pairs and len(known) == len(pairs) else None


def _summary(
    each: Sequence[float | None], kind: Literal["measured", "expected from class accuracies"], metric: Metric
) -> PartyAccuracy | None:
    over = spread((score for score in each if score is not None), metric)
    return None if over is None else PartyAccuracy(tuple(each), over, kind)
