"""Does an algorithm beat the best constant answer by more than noise? docs/statistics.md explains the rule."""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist, fmean
from typing import Literal, TypeAlias

from silobench.analysis.bayes import DECIDED
from silobench.analysis.cells import CellResult
from silobench.analysis.exact import stdev
from silobench.analysis.statistics import judged_rows
from silobench.analysis.student import quantile
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, AUC, BALANCED_ACCURACY

Verdict: TypeAlias = Literal["better", "unclear", "not better"]


def beats_constant(cell: CellResult, rivals: int = 1) -> bool | None:
    """Whether an algorithm is better than the constant answer by more than noise; None if that cannot be judged."""
    verdict = versus_constant(cell, rivals)
    return None if verdict is None else verdict == "better"


def versus_constant(cell: CellResult, rivals: int = 1) -> Verdict | None:
    """Compare the mean score with that of the constant answer, given the noise of trials and of test rows.

    It is "unclear" if the gain is larger than the noise of test rows, and the spread over trials is too large. Of
    several `rivals` the best one is looked at, so the error of each must be smaller (Bonferroni). None if the score of
    the constant answer is unknown, or there is one trial of a metric whose noise over test rows is unknown.
    """
    if cell.baseline is None:
        return None
    gains = [_gain(run) for run in cell.runs]
    if not all(map(math.isfinite, gains)) or fmean(gains) <= 0:
        return "not better"
    level = 1 - (1 - DECIDED) / rivals
    error = _rows_error(cell.runs, fmean(gains))
    of_rows = NormalDist().inv_cdf(level) * (error or 0.0)
    if fmean(gains) <= of_rows:
        return "not better"
    if len(gains) == 1:
        return None if error is None else "better"
    of_trials = _quantile(len(gains) - 1, level) * stdev(gains) / math.sqrt(len(gains))
    return "better" if fmean(gains) > of_trials + of_rows else "unclear"


_quantile = functools.cache(quantile)


def _gain(run: StoredRun) -> float:
    assert run.metric.constant is not None  # `beats_constant` has seen it
    return run.metric.gain(run.scores(run.metric)[-1], run.metric.constant)


def _rows_error(runs: Sequence[StoredRun], gain: float) -> float | None:
    """Return the standard error of a gain that comes from the choice of test rows; None for other metrics."""
    variances = [_rows_variance(run, gain) for run in runs]
    known = [variance for variance in variances if variance is not None]
    return math.sqrt(fmean(known)) if len(known) == len(variances) else None


def _rows_variance(run: StoredRun, gain: float) -> float | None:
    table, rows, metric = run.final.confusion, judged_rows(run), run.metric
    if metric.name == ACCURACY.name:
        return max(0.0, _disputed(run) - gain**2) / rows
    if not table or metric.name not in (BALANCED_ACCURACY.name, AUC.name):
        return None
    models = sum(map(sum, table)) / rows  # confusions are those of all models, if parties have their own
    sizes = [sum(row) / models for row in table]
    if metric.name == AUC.name:  # of ranks without any relation to the class
        return (rows + 1) / (12 * math.prod(sizes)) if all(sizes) else None
    shares = [(row[place] / sum(row), size) for place, (row, size) in enumerate(zip(table, sizes, strict=True)) if size]
    return sum(share * (1 - share) / size for share, size in shares) / len(shares) ** 2


def _disputed(run: StoredRun) -> float:
    """Return the share of rows that either the model or the constant answer has right, but not both.

    Without a confusion matrix it is the largest share that the two accuracies allow.
    """
    table = run.final.confusion
    if not table:
        return min(1.0, run.curve()[-1][1] + (run.metric.constant or 0.0))
    sums = list(map(sum, table))
    largest = sums.index(max(sums))
    won = sum(row[label] for label, row in enumerate(table)) - table[largest][largest]
    lost = sums[largest] - table[largest][largest]
    return (won + lost) / sum(sums)
