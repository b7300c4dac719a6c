"""Details of a score: best and last round, steadiness, rounds and bytes to a target, classes and parties."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult, finite
from silobench.analysis.confusion import calibration, confusion
from silobench.analysis.groups import LAST_TESTS, SETTLED, by_metric, is_settled
from silobench.analysis.parties import own_test_summary, worst_party_text
from silobench.analysis.statistics import bytes_to, class_accuracy, party_accuracy, rounds_to, spread, stability
from silobench.analysis.tables import Table, entries, shown, varying
from silobench.analysis.units import size
from silobench.errors import ConfigError
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric

_PARTIES = ("parties", "worst party")  # the last columns


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
    is_calibrated, has_settled = any(calibration(cell) for cell in cells), any(map(_is_settled, cells))
    rows = [
        entries(*(shown(cell, name, cells) for name in names), *_texts(cell, target, is_calibrated, has_settled))
        for cell in cells
    ]
    has_parties = any(entry.text for row in rows for entry in row[-len(_PARTIES) :])
    if not has_parties:  # nobody has test rows of its own, as where parties hold columns
        rows = [row[: -len(_PARTIES)] for row in rows]
    reached = [f"{what} to {_target_text(metric, target)}" for what in ("rounds", "bytes") if target is not None]
    steady = f"std of last {LAST_TESTS} tests"
    classes = ["worst class"] if metric.name == ACCURACY.name else []
    calibrated = ["calibration error"] if is_calibrated else []
    steadiness = [steady] if has_settled else []
    columns = [
        "last round",
        "best round",
        *steadiness,
        *reached,
        *classes,
        *calibrated,
        *(_PARTIES if has_parties else ()),
    ]
    short = f"; {steady}: - for runs of fewer than {SETTLED} rounds or {LAST_TESTS} tests, which have not settled"
    note = f"{', '.join(filter(None, (metric.unit_text, 'mean ± std over trials')))}{short if has_settled else ''}"
    expected = ", or (expected) of the class accuracies by each party's own labels" if classes else ""
    parties = (
        f"; parties: mean ± std over parties of the {metric.title} on rows they hold out, or on their own test rows"
    )
    gap = "; calibration error: mean gap between confidence and accuracy, percentage points" if is_calibrated else ""
    note += (parties + expected if has_parties else "") + gap
    return Table(f"Behind the {metric.title}", [*names, *columns], rows, note)


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
        "stability": _facts(known for curve in curves if (known := stability(curve, LAST_TESTS)) is not None)
        if _is_settled(cell)
        else None,  # in a short run it would be the rise of the curve
        "class_accuracy": [_mean(column) for column in zip(*classes, strict=False)] if classes else None,
        "party_accuracy": {
            "mean": fmean(known.spread.mean for known in parties),
            "std": _mean([known.spread.std for known in parties]),
            "worst": fmean(known.spread.worst for known in parties),
            "kind": parties[0].kind,
        }
        if parties
        else None,
        "own_test": own_test_summary(cell),
        "confusion": confusion(cell),
        "calibration": calibration(cell),
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


def _texts(cell: CellResult, target: float | None, is_calibrated: bool, has_settled: bool) -> list[str]:
    facts, metric = details(cell, target), cell.metric
    reached: list[str] = []
    if target is not None:
        reached = [_until(facts["rounds_to_target"], "{:.0f}".format), _until(facts["bytes_to_target"], size)]
    error = (facts["calibration"] or {}).get("error")
    return [
        _number(facts["last"], metric),
        _number(facts["best"], metric),
        *([_number(facts["stability"], metric) if facts["stability"] else "-"] if has_settled else []),
        *reached,
        *([_worst_class(cell, facts["class_accuracy"])] if cell.is_accuracy else []),
        *([("" if error is None else f"{100 * error:.1f}")] if is_calibrated else []),
        *_party_texts(cell, facts),
    ]


def _worst_class(cell: CellResult, accuracies: Sequence[float | None] | None) -> str:
    """Return the accuracy on the worst class, and its name; test pairs have no classes by name."""
    known = {place: value for place, value in enumerate(accuracies or ()) if value is not None}
    if not known:
        return ""
    worst, classes = min(known, key=lambda place: known[place]), cell.dataset.classes
    name = f" ({classes[worst]})" if cell.dataset.task == "classification" and worst < len(classes) else ""
    return cell.metric.number(known[worst]) + name


def _party_texts(cell: CellResult, facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return the mean over parties, and the worst party: on rows they hold out, on their own test rows, or expected."""
    parties, tested, metric = facts["party_accuracy"], facts["own_test"], cell.metric
    if tested and (parties is None or parties["kind"] != "measured"):
        return metric.number(tested["mean"], tested["std"]), worst_party_text(cell)
    if parties is None:
        return "", ""
    name = _worst_names(cell)
    return _of_parties(parties, metric), metric.number(parties["worst"]) + (f" ({name})" if name else "")


def _worst_names(cell: CellResult) -> str:
    """Return the name of the worst party of each trial, each name once."""
    names: dict[str, None] = {}
    for run in cell.runs:
        known, parties = party_accuracy(run), run.partition.parties
        values = {place: value for place, value in enumerate(known.each if known else ()) if value is not None}
        if values and len(parties) >= len(values):
            names[parties[min(values, key=lambda place: run.metric.gain(values[place], 0.0))]] = None
    return ", ".join(names)


def _is_settled(cell: CellResult) -> bool:
    """Whether all trials are long enough for a deviation over their last tests."""
    return all(map(is_settled, cell.runs))


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
