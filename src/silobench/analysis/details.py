"""Details of a score: best and last round, steadiness, rounds and bytes to a target, classes and parties."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult, finite
from silobench.analysis.groups import SETTLED, by_metric
from silobench.analysis.statistics import (
    bytes_to,
    class_accuracy,
    party_accuracy,
    rounds_to,
    spread,
    stability,
)
from silobench.analysis.tables import Table, entries, shown, varying
from silobench.analysis.units import size
from silobench.errors import ConfigError
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric

_LAST = 10  # tests over which steadiness is measured


def checked_target(target: float | None, runs: Sequence[StoredRun]) -> None:
    """Refuse a target that no run can reach, as all are scored by shares and the target is not a share."""
    shares = all(run.metric.is_share for run in runs)
    if target is not None and (not math.isfinite(target) or (shares and not 0 <= target <= 1)):
        bounds = "a share from 0 to 1, such as 0.9" if shares else "a number"
        raise ConfigError(f"--target must be {bounds}, but {target} was given.")


def details_tables(cells: Sequence[CellResult], target: float | None = None) -> list[Table]:
    """Return one table per main metric."""
    return [details_table(group, target) for group in by_metric(cells)]


def details_table(cells: Sequence[CellResult], target: float | None = None) -> Table:
    """Return one row per cell; with a `target` score also the rounds and bytes until it was reached.

    All cells have the same main metric.
    """
    metric = cells[0].metric
    if metric.is_share and (target or 0.0) > 1:
        target = None  # it is meant for another metric
    names = [*varying(cells), "algorithm"]
    rows = [entries(*(shown(cell, name, cells) for name in names), *_texts(cell, target)) for cell in cells]
    reached = [f"{what} to {_target_text(metric, target)}" for what in ("rounds", "bytes") if target is not None]
    steady = f"std of last {_LAST} tests"
    classes = ["worst class"] if metric.name == ACCURACY.name else []
    columns = ["last round", "best round", steady, *reached, *classes, "parties", "worst party"]
    note = (
        f"{', '.join(filter(None, (metric.unit_text, 'mean ± std over trials')))}; {steady}: - for runs of fewer than "
        f"{SETTLED} rounds or {_LAST} tests, which have not settled; parties: mean ± std over parties of the "
        f"{metric.title} on rows they hold out"
    )
    expected = ", or (expected) of the class accuracies by each party's own labels" if classes else ""
    return Table(f"Behind the {metric.title}", [*names, *columns], rows, note + expected)


def _target_text(metric: Metric, target: float) -> str:
    unit = metric.unit if metric.is_share else f" {metric.unit}"
    return f"{metric.factor * target:g}{unit}".rstrip()


def details(cell: CellResult, target: float | None = None) -> dict[str, Any]:
    """Return the details of a cell as numbers, over trials."""
    metric, curves = cell.metric, [run.curve() for run in cell.runs]
    classes = [known for known in map(class_accuracy, cell.runs) if known]
    parties = [known for known in map(party_accuracy, cell.runs) if known]
    facts: dict[str, Any] = {
        "last": _facts(curve[-1][1] for curve in curves),
        "best": _facts(metric.best(score for _, score in curve) for curve in curves),
        "stability": _facts(known for known in (stability(curve, _LAST) for curve in curves) if known is not None),
        "class_accuracy": [_mean(column) for column in zip(*classes, strict=True)] if classes else None,
        "party_accuracy": {
            "mean": fmean(known.spread.mean for known in parties),
            "std": _mean([known.spread.std for known in parties]),
            "worst": fmean(known.spread.worst for known in parties),
            "kind": parties[0].kind,
        }
        if parties
        else None,
    }
    if target is not None:
        facts["rounds_to_target"] = [rounds_to(curve, target, metric) for curve in curves]
        facts["bytes_to_target"] = [bytes_to(run, target) for run in cell.runs]
    return facts


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _facts(values: Iterable[float]) -> dict[str, float | None] | None:
    over = spread(values)
    if over is None:
        return None
    return {"mean": finite(over.mean), "std": over.std, "least": finite(over.worst), "most": finite(over.best)}


def _texts(cell: CellResult, target: float | None) -> list[str]:
    facts, metric = details(cell, target), cell.metric
    reached: list[str] = []
    if target is not None:
        reached = [_until(facts["rounds_to_target"], "{:.0f}".format), _until(facts["bytes_to_target"], size)]
    classes = [accuracy for accuracy in facts["class_accuracy"] or [] if accuracy is not None]
    parties = facts["party_accuracy"]
    worst_class = [metric.number(min(classes)) if classes else ""] if cell.is_accuracy else []
    return [
        _number(facts["last"], metric),
        _number(facts["best"], metric),
        _number(facts["stability"], metric) if _is_settled(cell) else "-",
        *reached,
        *worst_class,
        _of_parties(parties, metric) if parties else "",
        metric.number(parties["worst"]) if parties else "",
    ]


def _is_settled(cell: CellResult) -> bool:
    """Whether all trials are long enough for a deviation over their last tests."""
    return all(len(run.rounds) >= SETTLED and len(run.tested) >= _LAST for run in cell.runs)


def _of_parties(parties: dict[str, Any], metric: Metric) -> str:
    return metric.number(parties["mean"], parties["std"]) + (" (expected)" if parties["kind"] != "measured" else "")


def _number(over: dict[str, float | None] | None, metric: Metric) -> str:
    if over is None:
        return ""
    return metric.number(metric.failure if over["mean"] is None else over["mean"], over["std"])


def _until(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    """Return the mean of the trials that reached the target, and how many did if not all."""
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    few = "" if len(known) == len(values) else f" ({len(known)} of {len(values)})"
    return text(fmean(known)) + few
