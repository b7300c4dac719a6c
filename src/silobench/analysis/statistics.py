"""Numbers of one run beyond its last accuracy: how soon, at what cost, how steady, and how fair to its parties."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, Literal, TypeAlias

from silobench.runs.record import StoredRun

Curve: TypeAlias = Sequence[tuple[int, float]]  # (round, accuracy) of the rounds that were evaluated


@dataclass(frozen=True)
class Spread:
    """Several numbers in short; the standard deviation is of a sample, and a single number has none."""

    mean: float
    std: float | None
    worst: float
    best: float


@dataclass(frozen=True)
class PartyAccuracy:
    """One accuracy a party, None where it cannot be known, and the spread of those that are."""

    each: tuple[float | None, ...]
    spread: Spread
    kind: Literal["measured", "expected from class accuracies"]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.spread), "kind": self.kind, "each": list(self.each)}


def spread(values: Iterable[float]) -> Spread | None:
    """Mean, deviation and extremes; None of nothing.

    >>> spread([0.5, 0.7, 0.9]).worst
    0.5
    """
    known = list(values)
    if not known:
        return None
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None, min(known), max(known))


def curve_of(run: StoredRun) -> list[tuple[int, float]]:
    """The accuracies of a run, by round."""
    return [(row["round"], row["accuracy"]) for row in run.rounds if row["accuracy"] is not None]


def rounds_to(curve: Curve, target: float) -> int | None:
    """The first evaluated round whose accuracy reaches the target; None if none does.

    >>> rounds_to([(5, 0.4), (10, 0.8), (15, 0.7)], 0.75)
    10
    """
    return next((round for round, accuracy in curve if accuracy >= target), None)


def bytes_to(run: StoredRun, target: float) -> int | None:
    """Bytes up and down, over all parties, until the accuracy reaches the target; None if it never does."""
    last = rounds_to(curve_of(run), target)
    return None if last is None else bytes_until(run, last)


def bytes_until(run: StoredRun, last: int) -> int:
    """Bytes up and down, over all parties, from the first round to this one."""
    return sum(row["bytes_up"] + row["bytes_down"] for row in run.rounds if row["round"] <= last)


def stability(curve: Curve, last: int = 10) -> float | None:
    """Standard deviation of the accuracy over the last evaluated rounds, any trend included; small is steady.

    >>> stability([(1, 0.2), (2, 0.8), (3, 0.8)], last=2)
    0.0
    """
    tail = [accuracy for _, accuracy in curve[-last:]]
    return stdev(tail) if len(tail) > 1 else None


def class_accuracy(run: StoredRun) -> list[float | None] | None:
    """Accuracy by class in the last evaluated round; None where the run has not recorded it."""
    return _last(run).get("class_accuracy")


def party_accuracy(run: StoredRun) -> PartyAccuracy | None:
    """How the last model serves each party: measured on rows that the party kept aside, else expected.

    What is expected of a party is the accuracy of each class, weighted by the party's own share of that class. It sees
    who holds which labels, but not that a party's pictures may be noisier than those of others.
    """
    measured = _last(run).get("party_accuracy")
    if measured is not None:
        return _of_parties(measured, "measured")
    by_class = class_accuracy(run)
    if run.facts["dataset"].get("task") == "verification":  # classes of pairs are none of a party's
        return None
    if by_class is None or _last(run).get("accuracy_std") is not None:  # parties' own models, added up
        return None
    counts = run.facts["partition"]["counts"]
    return _of_parties([_expected(held, by_class) for held in counts], "expected from class accuracies")


def _last(run: StoredRun) -> dict[str, Any]:
    return next((row for row in reversed(run.rounds) if row["accuracy"] is not None), {})


def _expected(held: Sequence[int], by_class: Sequence[float | None]) -> float | None:
    """None where a party holds a class that no test row has."""
    pairs = [(count, accuracy) for count, accuracy in zip(held, by_class, strict=True) if count]
    known = [count * accuracy for count, accuracy in pairs if accuracy is not None]
    return sum(known) / sum(held) if pairs and len(known) == len(pairs) else None


def _of_parties(
    each: Sequence[float | None], kind: Literal["measured", "expected from class accuracies"]
) -> PartyAccuracy | None:
    over = spread(accuracy for accuracy in each if accuracy is not None)
    return None if over is None else PartyAccuracy(tuple(each), over, kind)
