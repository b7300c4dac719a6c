"""Numbers of trials that OARF's findings compare, by seed, and tests on them."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist, fmean
from typing import TypeAlias, TypeVar

from silobench.analysis.bayes import DECIDED, correlated_t
from silobench.analysis.cells import CellResult
from silobench.analysis.costs import PARTIES, SERVER, convergence, decomposition
from silobench.analysis.evidence import TOO_FEW, Gap, gap, has_learnt
from silobench.analysis.groups import by_seed
from silobench.analysis.units import percent
from silobench.runs.stored import StoredRun

POINT = 0.01  # of accuracy: the paper's region of equivalence
OVERHEAD = 0.1  # of overhead: the paper's region of equivalence
BySeed: TypeAlias = Mapping[int, float]
Key = TypeVar("Key")


# --- scores of single models --------------------------------------------------------------------------


def solo_scores(cell: CellResult) -> dict[str, dict[int, float]]:
    """Return the score of each party's model on all test rows, by party and seed."""
    return _turned(cell, lambda run: {name: result.score_on_all for name, result in run.final.parties.items()})


def cross_scores(cell: CellResult) -> dict[tuple[str, str], dict[int, float]]:
    """Return the score of each model on each party's test rows, by (model, party) and seed; empty without them."""
    return _turned(cell, _cross)


def _cross(run: StoredRun) -> dict[tuple[str, str], float | None]:
    cross = run.final.cross
    return {(model, test): score for model, test, score in cross.items()} if cross else {}


def _turned(cell: CellResult, scores: Callable[[StoredRun], Mapping[Key, float | None]]) -> dict[Key, dict[int, float]]:
    """Return scores by key and seed, where each run has them by key."""
    by_key: dict[Key, dict[int, float]] = {}
    for seed, run in zip(cell.seeds, cell.runs, strict=True):
        for key, score in scores(run).items():
            if score is not None:
                by_key.setdefault(key, {})[seed] = score
    return by_key


def score_gap(a: BySeed, b: BySeed, cell: CellResult, *references: CellResult) -> Gap:
    """Return a - b for scores on test rows; it decides nothing if none of the cells has learnt.

    Trials share rows, so their differences are correlated, as in a comparison of cells.
    """
    differences = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
    rows = cell.dataset
    rho = rows.test / (rows.train + rows.test)
    posterior = correlated_t(differences, rho, 1 / rows.test) if len(differences) > 1 else None
    return Gap(posterior, any(map(has_learnt, (cell, *references))))


# --- rounds -------------------------------------------------------------------------------------------


def has_converged(cell: CellResult) -> bool:
    """Whether the schedule ended every trial."""
    return all(convergence(run) is not None for run in cell.runs)


def rounds_of(cell: CellResult) -> dict[int, float]:
    """Return the rounds of each trial: those until convergence, or all of them, which is then a lower bound."""
    return by_seed(cell, lambda run: float(len(run.rounds)))


def more_rounds(slow: CellResult, fast: CellResult) -> tuple[Gap, bool | None]:
    """Return the rounds to convergence of two cells as a difference, and whether `slow` needs more of them.

    More means by more than 10 rounds, the paper's region of equivalence, or by a tenth where `fast` needs fewer than
    100. A cell that did not converge has a lower bound only: that of `slow` can show more, that of `fast` cannot.
    """
    difference = gap(rounds_of(slow), rounds_of(fast))
    holds = difference.more_than(min(10.0, 0.1 * fast.rounds))
    bounded = (holds and not has_converged(fast)) or (holds is False and not has_converged(slow))
    return difference, None if bounded else holds


def rounds_text(cell: CellResult) -> str:
    """Return the mean rounds to convergence, or more than all rounds."""
    return f"{'' if has_converged(cell) else '>'}{cell.rounds:.0f}"


# --- time ---------------------------------------------------------------------------------------------


def share_of_overhead(run: StoredRun, part: str) -> float | None:
    """Return the share of a part, such as idle, in the overhead: time in which the mean party does not train or test.

    Parties idle while the server tests. That is testing, as in `costs.overhead`, and no part of the overhead. None if
    the run does not record its time, or has no overhead to speak of: less than a thousandth of its time.
    """
    bars = decomposition(run)
    parts = bars.get(PARTIES, {})
    tested = bars.get(SERVER, {}).get("test", 0.0)
    overhead = {name: seconds for name, seconds in parts.items() if name not in ("train", "test")}
    if overhead:
        overhead["idle"] = max(0.0, overhead["idle"] - tested)
    rest = sum(overhead.values())
    return overhead[part] / rest if rest > 0.001 * sum(parts.values()) else None


# --- correlation --------------------------------------------------------------------------------------


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 where all numbers of a side are equal.

    >>> correlation([0.2, 0.2, 1.0, 1.0], [3.0, 4.0, 1.0, 2.0])
    -0.8944271909999159
    """
    a, b = _ranks(xs), _ranks(ys)
    mean = (len(a) + 1) / 2
    over = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    under = math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return over / under if under else 0.0


def is_weak(correlation: float, n: int, strong: float) -> bool | None:
    """Whether a rank correlation of n pairs is shown to be weaker than `strong`, either way.

    The test is Fisher's: atanh of the correlation has a standard error of 1.03 / sqrt(n - 3).

    >>> is_weak(0.05, 15, strong=0.7), is_weak(0.6, 15, strong=0.7), is_weak(0.95, 15, strong=0.7)
    (True, None, False)
    """
    if n < 5:
        return None
    place = math.atanh(min(abs(correlation), 1 - 1e-12))
    half = NormalDist().inv_cdf(DECIDED) * 1.03 / math.sqrt(n - 3)
    return True if place + half < math.atanh(strong) else False if place - half > math.atanh(strong) else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1, with equal numbers at the mean of their ranks."""
    order = sorted(values)
    return [fmean(place for place, other in enumerate(order, 1) if other == value) for value in values]


# --- texts --------------------------------------------------------------------------------------------


def mean_of(values: BySeed) -> float:
    return fmean(values.values())


def two_text(a: BySeed, b: BySeed, unit: str, factor: float = 1) -> str:
    """Return the means of two cells with their unit."""
    return f"{factor * mean_of(a):.4g} and {factor * mean_of(b):.4g} {unit}{too_few_text(a, b)}"


def two_shares_text(a: BySeed, b: BySeed, difference: Gap | None = None) -> str:
    """Return the means of two shares in percent, with their difference if there is one to show."""
    more = f", {difference.text()}" if difference else too_few_text(a, b)
    return f"{percent(mean_of(a))}% and {percent(mean_of(b))}%{more}"


def share_text(shares: BySeed) -> str:
    """Return the mean of a share in percent."""
    return f"{percent(mean_of(shares))}%{too_few_text(shares)}"


def too_few_text(*values: BySeed) -> str:
    """Return the end of a text about numbers that share too few seeds for a test; empty if there are enough.

    >>> too_few_text({0: 1.0, 1: 1.5}, {0: 2.0}), too_few_text({0: 1.0, 1: 1.5})
    (', too few trials or rounds', '')
    """
    return "" if len(set.intersection(*map(set, values))) > 1 else f", {TOO_FEW}"
