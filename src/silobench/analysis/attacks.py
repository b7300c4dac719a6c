"""Findings of the measures `membership` and `canaries`: what attacks on the rows of parties achieve."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.measured import cells_with, choices_of
from silobench.analysis.tables import Entry, Table, entries, shown_choices

MEMBERSHIP, CANARIES = "membership", "canaries"
_MOST_PARTIES = 10  # in a table; of more, only the one whose rows are recognised best
_MEMBERSHIP = ("rows", "AUC", "recognised, %", "AUC of the difference", "recognised by it, %")
_MEMBERSHIP_NOTE = (
    "AUC: the probability that a training row has a lower loss than a test row, with its interval of 95%; 0.5 is a "
    "guess; recognised: training rows that an attacker recognises with false alarms on 1% of test rows; difference: an "
    "attack by how much the loss fell since the initial model"
)
_CANARIES = ("seed", "claimed epsilon", "audited epsilon", "confidence, %", "canaries", "guesses", "correct", "verdict")
_CANARIES_NOTE = (
    "audited epsilon: a lower bound, by how many canaries an observer of the training recognises; above the claim, it "
    "refutes it; below, it proves nothing"
)


def attack_tables(cells: Cells) -> list[Table]:
    """Return tables of membership inference on all rows and of audits; empty if no cell was attacked."""
    return [table for table in (_membership(cells), _canaries(cells)) if table.rows]


def party_attack_tables(cells: Cells) -> list[Table]:
    """Return the table of membership inference on the rows of each party; empty if no cell was attacked."""
    attacked = cells_with(cells, MEMBERSHIP)
    choices = choices_of(attacked)
    rows = [
        [*shown_choices(cell, choices, attacked), *entries(party, *numbers)]
        for cell in attacked
        for party, numbers in _by_party(cell)
    ]
    columns = [*choices, "party", *_MEMBERSHIP]
    return [Table("Membership inference by party", columns, rows, _MEMBERSHIP_NOTE)] if rows else []


def _membership(cells: Cells) -> Table:
    attacked = cells_with(cells, MEMBERSHIP)
    choices = choices_of(attacked)
    rows = [
        [*shown_choices(cell, choices, attacked), *entries(*_numbers(_last(cell, MEMBERSHIP)))] for cell in attacked
    ]
    return Table("Membership inference", [*choices, *_MEMBERSHIP], rows, _MEMBERSHIP_NOTE)


def _by_party(cell: CellResult) -> list[tuple[str, list[str]]]:
    """Return the numbers of each party by its name; of many parties, only those of the one that is attacked best."""
    trials, names = _last(cell, MEMBERSHIP), cell.runs[0].partition.parties
    parties = [
        [each for each in of_party if each]
        for of_party in zip(*(one.get("parties", []) for one in trials), strict=False)
    ]
    if len(parties) > _MOST_PARTIES:
        best = max(range(len(parties)), key=lambda place: fmean([0, *(each["auc"] for each in parties[place])]))
        return [(f"{names[best]}, the highest", _numbers(parties[best]))]
    return [(names[place], _numbers(some)) for place, some in enumerate(parties)]


def _numbers(trials: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the means over trials, as text; empty where no row could be attacked."""
    if not trials:
        return [""] * len(_MEMBERSHIP)
    rows = f"{fmean(each['rows'] for each in trials):.0f}"
    return [rows, *_success(trials), *_success([each["difference"] for each in trials])]


def _success(attempts: Sequence[Mapping[str, Any]]) -> list[str]:
    trials = [each for each in attempts if each]
    if not trials:
        return ["", ""]
    area, low, high, rate = (fmean(each[name] for each in trials) for name in ("auc", "low", "high", "tpr"))
    return [f"{area:.3f} ({low:.3f} to {high:.3f})", f"{100 * rate:.1f}"]


def _canaries(cells: Cells) -> Table:
    audited = cells_with(cells, CANARIES)
    choices = choices_of(audited)
    rows = [
        [*shown_choices(cell, choices, audited), *_audit(seed, findings)]
        for cell in audited
        for seed, findings in zip(cell.seeds, _last(cell, CANARIES), strict=True)
    ]
    return Table("Audit with canaries", [*choices, *_CANARIES], rows, _CANARIES_NOTE)


def _audit(seed: int, findings: Mapping[str, Any]) -> list[Entry]:
    claimed = findings["claimed"]
    counts = [str(findings[name]) for name in ("canaries", "guesses", "correct")]
    bounds = ["-" if claimed is None else f"{claimed:.4g}", f"≥ {findings['epsilon']:.3g}"]
    return entries(str(seed), *bounds, f"{100 * findings['confidence']:g}", *counts, findings["verdict"])


def _last(cell: CellResult, measure: str) -> list[Mapping[str, Any]]:
    """Return the last findings of each trial."""
    return [list(run.measured(measure).values())[-1] for run in cell.runs]
