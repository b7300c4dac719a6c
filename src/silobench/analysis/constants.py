"""Does an algorithm beat the best constant answer by more than noise? docs/statistics.md explains the rule."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from silobench.analysis.bayes import DECIDED
from silobench.analysis.cells import CellResult
from silobench.analysis.student import quantile
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, AUC, BALANCED_ACCURACY

_NORMAL = 1.645  # the point of a normal distribution with a mass of 0.95 below it


def beats_constant(cell: CellResult) -> bool | None:
    """Whether the mean score is better than that of the constant answer by more than the noise of trials and test rows.

    None if that cannot be judged: the score of the constant answer is unknown, or there is one trial and its metric is
    not one of those whose noise over test rows is known.
    """
    if cell.baseline is None:
        return None
    gains = [_gain(run) for run in cell.runs]
    if not all(map(math.isfinite, gains)) or fmean(gains) <= 0:
        return False
    of_rows = _rows_noise(cell.runs, fmean(gains))
    if len(gains) == 1:
        return None if of_rows is None else gains[0] > _NORMAL * of_rows
    of_trials = quantile(len(gains) - 1, DECIDED) * stdev(gains) / math.sqrt(len(gains))
    return fmean(gains) > of_trials + _NORMAL * (of_rows or 0.0)


def _gain(run: StoredRun) -> float:
    assert run.metric.constant is not None  # `beats_constant` has seen it
    return run.metric.gain(run.curve()[-1][1], run.metric.constant)


def _rows_noise(runs: Sequence[StoredRun], gain: float) -> float | None:
    """Return the standard error of a gain that comes from the choice of test rows; None for other metrics."""
    variances = [_rows_variance(run, gain) for run in runs]
    known = [variance for variance in variances if variance is not None]
    return math.sqrt(fmean(known)) if len(known) == len(variances) else None


def _rows_variance(run: StoredRun, gain: float) -> float | None:
    table, rows, metric = run.final.confusion, run.dataset.test, run.metric
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
    largest = max(range(len(table)), key=lambda label: sum(table[label]))
    won = sum(row[label] for label, row in enumerate(table) if label != largest)
    lost = sum(table[largest]) - table[largest][largest]
    return (won + lost) / sum(map(sum, table))
