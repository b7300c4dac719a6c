"""Details of an accuracy: best and last round, steadiness, rounds and bytes to a target, classes and parties."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import SETTLED
from silobench.analysis.statistics import (
    bytes_to,
    class_accuracy,
    curve_of,
    party_accuracy,
    rounds_to,
    spread,
    stability,
)
from silobench.analysis.tables import Table, entries, shown, varying
from silobench.analysis.units import percent, size

_LAST = 10  # tests over which steadiness is measured


def details_table(cells: Sequence[CellResult], target: float | None = None) -> Table:
    """Return one row per cell; with a `target` accuracy also the rounds and bytes until it was reached."""
    names = [*varying(cells), "algorithm"]
    rows = [entries(*(shown(cell, name, cells) for name in names), *_texts(cell, target)) for cell in cells]
    reached = [f"rounds to {100 * target:g}%", f"bytes to {100 * target:g}%"] if target is not None else []
    steady = f"std of last {_LAST} tests"
    columns = ["last round", "best round", steady, *reached, "worst class", "parties", "worst party"]
    note = (
        f"percent, mean ± std over trials; {steady}: - for runs of fewer than {SETTLED} rounds or {_LAST} tests, which "
        "have not settled; parties: mean ± std over parties of the accuracy on rows they hold out, "
        "or (expected) of the class accuracies by each party's own labels"
    )
    return Table("Behind the accuracy", [*names, *columns], rows, note)


def details(cell: CellResult, target: float | None = None) -> dict[str, Any]:
    """Return the details of a cell as numbers, over trials."""
    curves = [curve_of(run) for run in cell.runs]
    classes = [known for known in map(class_accuracy, cell.runs) if known]
    parties = [known for known in map(party_accuracy, cell.runs) if known]
    facts: dict[str, Any] = {
        "last": _facts(curve[-1][1] for curve in curves),
        "best": _facts(max(accuracy for _, accuracy in curve) for curve in curves),
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
        facts["rounds_to_target"] = [rounds_to(curve, target) for curve in curves]
        facts["bytes_to_target"] = [bytes_to(run, target) for run in cell.runs]
    return facts


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _facts(values: Iterable[float]) -> dict[str, float | None] | None:
    over = spread(values)
    return None if over is None else {"mean": over.mean, "std": over.std, "least": over.worst, "most": over.best}


def _texts(cell: CellResult, target: float | None) -> list[str]:
    facts = details(cell, target)
    reached: list[str] = []
    if target is not None:
        reached = [_until(facts["rounds_to_target"], "{:.0f}".format), _until(facts["bytes_to_target"], size)]
    classes = [accuracy for accuracy in facts["class_accuracy"] or [] if accuracy is not None]
    parties = facts["party_accuracy"]
    return [
        _percent(facts["last"]),
        _percent(facts["best"]),
        _percent(facts["stability"]) if _is_settled(cell) else "-",
        *reached,
        f"{100 * min(classes):.1f}" if classes else "",
        _of_parties(parties) if parties else "",
        f"{100 * parties['worst']:.1f}" if parties else "",
    ]


def _is_settled(cell: CellResult) -> bool:
    """Whether all trials are long enough for a deviation over their last tests."""
    return all(len(run.rounds) >= SETTLED and len(curve_of(run)) >= _LAST for run in cell.runs)


def _of_parties(parties: dict[str, Any]) -> str:
    return percent(parties["mean"], parties["std"]) + (" (expected)" if parties["kind"] != "measured" else "")


def _percent(over: dict[str, float | None] | None) -> str:
    if over is None or over["mean"] is None:
        return ""
    return percent(over["mean"], over["std"])


def _until(values: Sequence[float | None], text: Callable[[float], str]) -> str:
    """Return the mean of the trials that reached the target, and how many did if not all."""
    known = [value for value in values if value is not None]
    if not known:
        return "never"
    few = "" if len(known) == len(values) else f" ({len(known)} of {len(values)})"
    return text(fmean(known)) + few
