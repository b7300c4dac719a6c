"""Pieces of evidence for claims, and the tests that decide them.

A test answers yes, no or None (undecided). What a paper calls a difference has to be larger than what matters (1 point
of accuracy, a tenth of any other number), and what it calls none has to be shown to be smaller than that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from silobench.analysis.bayes import DECIDED, Posterior, correlated_t
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Question, paired
from silobench.analysis.groups import Cells, accuracy_text
from silobench.runs.stored import StoredRun

POINT = 0.01  # of accuracy: smaller differences do not matter
TOO_FEW = "too few trials or rounds"  # for a test
_TENTH = 1.1  # times a number: what is larger by less does not matter
_LEARNT = 0.05  # of accuracy above a constant answer


@dataclass(frozen=True)
class Evidence:
    """One comparison: its cells, numbers and test."""

    part: str  # of the statement
    cells: str
    numbers: str
    test: str
    holds: bool | None  # None if undecided
    counts: bool = True  # whether it counts for the verdict, or is shown only


@dataclass(frozen=True)
class Gap:
    """A mean difference between two cells, as far as their trials show it."""

    posterior: Posterior | None  # None for fewer than two shared seeds
    decides: bool = True  # False where neither cell has learnt: that models at chance are equal says nothing

    def more_than(self, least: float, looks: int = 1) -> bool | None:
        """Whether it is above `least`; None if neither yes nor no has a probability above 0.95.

        `looks` is the number of differences from which this one was picked because it is large: for a yes, the
        probability of a no must then be below 0.05 / `looks` (Bonferroni). Otherwise enough looks at noise would find
        a difference.
        """
        if self.posterior is None or not self.decides:
            return None
        above = replace(self.posterior, mean=self.posterior.mean - least) if least else self.posterior
        probability = above.odds(0.0).better_a
        return True if 1 - probability < (1 - DECIDED) / looks else False if probability < 1 - DECIDED else None

    def at_most(self, most: float) -> bool | None:
        """Whether it is not above `most`; None if that is undecided."""
        return opposite(self.more_than(most))

    def within(self, rope: float) -> bool | None:
        """Whether it is at most `rope`, either way; no if it is shown to be larger, in one direction.

        A wide posterior has little mass inside a narrow region, and decides neither.
        """
        if self.posterior is None or not self.decides:
            return None
        above, equal, below = self.posterior.odds(rope)
        return True if equal > DECIDED else False if max(above, below) > DECIDED else None

    def text(self, unit: str = "points", factor: float = 100) -> str:
        """Return the difference with its 95% interval."""
        if self.posterior is None:
            return TOO_FEW
        low, high = self.posterior.interval()
        return f"{factor * self.posterior.mean:+z.1f} [{factor * low:+z.1f}, {factor * high:+z.1f}] {unit}"


def accuracy_gap(a: CellResult, b: CellResult, *references: CellResult) -> Gap:
    """Return the accuracy of `a` minus that of `b`. It decides nothing if none of the cells has learnt."""
    pairs = paired(a, b, Question())
    return Gap(pairs.posterior if pairs else None, any(map(has_learnt, (a, b, *references))))


def pair_text(a: CellResult, b: CellResult, between: str = " and ") -> str:
    """Return the accuracies of two cells, with their difference."""
    return f"{accuracy_text(a)}{between}{accuracy_text(b)}, {accuracy_gap(a, b).text()}"


def point_apart(
    part: str, names: str, higher: CellResult, lower: CellResult, words: str, *references: CellResult
) -> Evidence:
    """Return evidence that `higher` is more accurate than `lower` by more than a point; `words` describe the test."""
    holds = accuracy_gap(higher, lower, *references).more_than(POINT)
    return Evidence(part, names, pair_text(higher, lower), f"correlated t-test: accuracy {words}", holds)


def gap(a: Mapping[int, float], b: Mapping[int, float]) -> Gap:
    """Return a - b for any number by seed; trials count as independent."""
    differences = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    return Gap(correlated_t(differences, 0.0) if len(differences) > 1 else None)


def larger(a: Mapping[int, float], b: Mapping[int, float]) -> bool | None:
    """Whether positive numbers of `a`, by seed, are larger than those of `b` by more than a tenth."""
    return gap(a, {seed: _TENTH * value for seed, value in b.items()}).more_than(0)


def any_more_than(gaps: Sequence[Gap], least: float, looks: int) -> bool | None:
    """Whether one of several mean differences is above `least`, picked from `looks` in all; no if none of them is."""
    each = [one.more_than(least, looks) for one in gaps]
    return True if True in each else False if each and set(each) == {False} else None


def never_rises(ladder: Cells, least: float) -> bool | None:
    """Whether accuracy rises by more than `least` at no step from one cell to the next."""
    return opposite(any_holds(accuracy_gap(b, a).more_than(least) for a, b in pairwise(ladder)))


def opposite(holds: bool | None) -> bool | None:
    """Return the negation; None stays None."""
    return None if holds is None else not holds


def any_holds(each: Iterable[bool | None]) -> bool | None:
    """Whether at least one holds; None if none holds and some are undecided."""
    known = set(each)
    return True if True in known else None if None in known else False


def all_hold(each: Iterable[bool | None]) -> bool | None:
    """Whether every one holds; None if none fails and some are undecided.

    >>> all_hold([True, None]), all_hold([None, False]), all_hold([True, True])
    (None, False, True)
    """
    return opposite(any_holds(map(opposite, each)))


# --- equality needs models that have learnt ------------------------------------------------------------


def if_learnt(holds: bool | None, *cells: CellResult) -> bool | None:
    """Return what a test of equality says if one of the cells has learnt, else None.

    Models that have learnt nothing are all equal, which is not what a paper means by "as good as". A test that allows
    a loss names its reference only, a test that allows a difference in either direction names all of its cells.
    """
    return holds if any(map(has_learnt, cells)) else None


def nearly_equal(part: str, names: str, a: CellResult, b: CellResult, points: int = 1) -> Evidence:
    """Return evidence that the accuracies of two cells differ by at most some points, either way."""
    most = "1 point" if points == 1 else f"{points} points"
    test = f"correlated t-test: they differ by at most {most}, only if a model has learnt"
    holds = if_learnt(accuracy_gap(a, b).within(points / 100), a, b)
    return Evidence(part, names, pair_text(a, b), test, holds)


def has_learnt(cell: CellResult) -> bool:
    """Whether the mean accuracy is more than 5 points above that of the best constant answer."""
    constant = fmean(map(_constant_accuracy, cell.runs)) if cell.baseline is None else cell.baseline
    return cell.score.mean > constant + _LEARNT


def _constant_accuracy(run: StoredRun) -> float:
    """Estimate the accuracy of the best constant answer, for a run that does not state it.

    It is the share of the most frequent class in the rows of all parties, and one half where pairs are judged.
    """
    if run.dataset.task == "verification":
        return 0.5
    by_class = [sum(rows) for rows in zip(*run.partition.counts, strict=True)]
    return max(by_class) / sum(by_class) if by_class else 1 / len(run.dataset.classes)
