"""How much of the differences between trials each argument explains."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from silobench.tuning.ranges import Choices, Interval
from silobench.tuning.study import Outcome

FEWEST = 8  # finished trials


def importances(outcome: Outcome) -> dict[str, float]:
    """Return shares of the variance by argument, which sum to one; empty for one argument, or for too few trials.

    A random forest learns the scores from the values, and its impurities say what it used.
    """
    space, finished = outcome.study.definition.space, outcome.finished
    trials = [trial for trial in finished if math.isfinite(trial.score)]
    if len(space) < 2 or len(trials) < FEWEST:
        return {}
    from sklearn.ensemble import RandomForestRegressor

    owners, rows = [], []
    for key, each in space.items():
        columns = _columns(each, [trial.trial.values.get(key) for trial in trials])
        owners += [key] * len(columns)
        rows += columns
    forest = RandomForestRegressor(n_estimators=100, random_state=0, n_jobs=1)
    forest.fit(list(zip(*rows, strict=True)), [trial.score for trial in trials])
    return _summed(owners, forest.feature_importances_)


def _columns(each: Choices | Interval, values: Sequence[Any]) -> list[list[float]]:
    """Return the features of an argument: one column per choice, or the number on its scale.

    The number is -1 where there is none on the scale: the argument is absent, or its default is None or the zero of a
    logarithmic range.
    """
    if isinstance(each, Choices):
        return [[float(value == choice) for value in values] for choice in each.values]
    scale = math.log if each.is_log else float
    low = scale(each.low)
    return [[scale(value) - low if each.has_on_scale(value) else -1.0 for value in values]]


def _summed(owners: Sequence[str], shares: Sequence[float]) -> dict[str, float]:
    total: Mapping[str, list[float]] = {key: [] for key in owners}
    for key, share in zip(owners, shares, strict=True):
        total[key].append(float(share))
    whole = sum(map(sum, total.values()))
    return {key: sum(parts) / whole for key, parts in total.items()} if whole else {}
