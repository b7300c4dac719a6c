"""The axis of a metric."""

import math
from collections.abc import Iterable
from statistics import median

from silobench.report.charts.values import Axis
from silobench.tasks.metrics import Metric

_FAR = 10  # times the distance from the best score to the median: scores beyond are cut off


def metric_axis(
    metric: Metric, scores: Iterable[float] = (), constant: float | None = None, prefix: str = "test "
) -> Axis:
    """Return the axis of a metric for stored scores: from 0 to 100 for shares, else without scores far worse than most.

    >>> from silobench.tasks.metrics import ACCURACY
    >>> axis = metric_axis(ACCURACY, [0.7, 0.9])
    >>> axis.label, axis.low, axis.high
    ('test accuracy, percent', 0.0, 100.0)
    """
    low, high = _ends(metric, [*scores, *([] if constant is None else [constant])], constant)
    factor = metric.factor
    ends = [None if end is None else factor * end for end in (low, high)]
    return Axis(f"{prefix}{metric.title}", metric.unit_text, low=ends[0], high=ends[1])


def _ends(metric: Metric, scores: list[float], constant: float | None) -> tuple[float | None, float | None]:
    finite = [score for score in scores if math.isfinite(score)]
    if metric.is_share:
        return 0.0, 1.0
    if not finite:
        return None, None
    best, worst = metric.best(finite), metric.worst(finite)
    reach = max(_FAR * abs(median(finite) - best), abs(best - constant) if constant is not None else 0.0)
    limit = best - reach if metric.higher_is_better else best + reach
    if not reach or metric.reaches(worst, limit):
        return None, None
    low, high = sorted((best, limit))
    margin = 0.05 * (high - low)
    return (0.0 if low >= 0 and not metric.higher_is_better else low - margin), high + margin
