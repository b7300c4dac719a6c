"""What runs state about privacy: who is protected from whom, epsilon by round, and what attacks achieved beside it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells
from silobench.analysis.measured import known
from silobench.analysis.tables import BASELINES, Table, entries, shown_choices, varying
from silobench.runs.label import Label
from silobench.runs.stored import RoundRow, StoredRun

EXAMPLE, PARTY = "example", "party"
UNITS = (EXAMPLE, PARTY)
ATTACKS = ("membership", "canaries", "inversion")  # measures whose findings stand beside epsilon
_PROTECTED = {EXAMPLE: "each row", PARTY: "each party"}
_READERS = "readers of the model"
_NOT_SERVER = f"other parties, {_READERS}"
_EVERYBODY = f"server, {_NOT_SERVER}"
_TINY = "< 1e-6"  # an epsilon of 0, which holds where delta allows the rest; it would look like perfect privacy
_SECURE = "secure-sum"  # the transform, by its name in labels
_ACCOUNTANTS = {"rdp": "RDP", "zcdp": "zCDP"}
_COLUMNS = (
    "protected", "from", "epsilon", "epsilon (PLD)", "delta", "noise", "accountant", "guarantee", "ended", "warnings",
    "membership AUC", "audited epsilon", "inversion PSNR, dB",
)  # fmt: skip
_NOTES = {
    "protected": "single updates: the server learns only their sum, which has no epsilon of its own",
    "epsilon": "epsilon: the largest over parties and trials, by the accountant; ∞ is no protection",
    "epsilon (PLD)": "PLD: by privacy loss distributions, which is tighter",
    "noise": "noise: standard deviation over the largest contribution of one row or party",
    "guarantee": "guarantee: whether epsilon holds as it is stated",
    "ended": "ended: the run stopped there, because one more round would have exceeded its budget",
    "warnings": "warnings: what epsilon does not cover, as run.json and the notes before a run state it",
    "membership AUC": "membership AUC: 0.5 is a guess, with its interval of 95%",
    "audited epsilon": "audited epsilon: the true one is not below it, with 95% confidence",
    "inversion PSNR, dB": "inversion: the higher, the more of an image is seen; in brackets that of the mean image",
}


@dataclass(frozen=True)
class Spent:
    """What a run spent on the privacy of rows or of parties, up to a round."""

    unit: str  # EXAMPLE or PARTY
    epsilon: float  # infinity where there is no protection
    delta: float
    noise: tuple[float, ...]  # by party that trained, or one for all
    accountant: str
    reason: str  # why epsilon is no guarantee; empty if it is one
    epsilon_pld: float | None = None  # in the last round only, and where it is known

    def protects_from(self, label: Label) -> str:
        """Return from whom a unit is hidden. Noise that the server adds does not hide anything from the server."""
        if label.algorithm.name in BASELINES:  # nobody sends anything, and `combined` has all rows in one place
            return _READERS
        has_server = label.exchange.name == "star" and label.network.name != "mesh"
        is_from_server = has_server and (self.unit == EXAMPLE or self.accountant == "zcdp")
        return _EVERYBODY if is_from_server else _NOT_SERVER


def spent(row: RoundRow, unit: str) -> Spent | None:
    """Return what was spent until a round; None where the run does not protect these units."""
    facts: Mapping[str, Any] | None = row.privacy.get(unit)
    if not facts:
        return None
    epsilon, reason = facts["epsilon"], facts.get("reason", "")
    return Spent(
        unit, math.inf if epsilon is None else epsilon, facts["delta"], tuple(known(facts["noise"])),
        facts["accountant"], reason, facts.get("epsilon_pld"),
    )  # fmt: skip


def epsilon_of(run: StoredRun) -> float | None:
    """Return the epsilon of a whole run, of rows if it protects them, else of parties; None if it states none."""
    each = [spent(run.rounds[-1], unit) for unit in UNITS]
    return next((one.epsilon for one in each if one and math.isfinite(one.epsilon)), None)


def epsilon_curve(cell: CellResult, unit: str) -> list[tuple[int, float]]:
    """Return the largest epsilon over trials, by round, without rounds in which some trial protects nobody.

    It is empty where the cell does not protect these units.
    """
    by_round: dict[int, list[float]] = {}
    for run in cell.runs:
        for row in run.rounds if run.totals.has_privacy else ():
            if one := spent(row, unit):
                by_round.setdefault(row.round, []).append(one.epsilon)
    largest = {number: max(values) for number, values in sorted(by_round.items())}
    return [(number, value) for number, value in largest.items() if math.isfinite(value)]


def is_hidden(cell: CellResult) -> bool:
    """Whether the server of a cell learns only sums of messages; baselines send none."""
    label = cell.label
    return label.algorithm.name not in BASELINES and any(term.name == _SECURE for term in label.transforms)


# --- the table ----------------------------------------------------------------------------------------


def privacy_table(cells: Cells) -> Table:
    """Return who is protected from whom, by how much, and the success of attacks; cells with none of it are left out.

    A cell has a row for each unit that it protects. Columns that no cell has are left out.
    """
    names = [*varying(cells), "algorithm"]
    lines = [(cell, line) for cell in cells for line in _lines(cell)]
    used = [column for column in _COLUMNS if any(line.get(column) for _, line in lines)]
    rows = [
        [*shown_choices(cell, names, cells), *entries(*(line.get(column) or "-" for column in used))]
        for cell, line in lines
    ]
    is_explained = {"protected": any(map(is_hidden, cells))}
    note = "; ".join(text for column, text in _NOTES.items() if column in used and is_explained.get(column, True))
    return Table("Privacy", [*names, *used], rows, note)


def _lines(cell: CellResult) -> list[dict[str, str]]:
    """Return the texts of the rows of a cell, by column."""
    lines = [_line(cell.label, each) for each in _stated(cell)]
    if is_hidden(cell):
        lines.append({"protected": "single updates", "from": "server"})
    attacks = {name: text for name, text in _attacks(cell).items() if text}
    if not lines and not attacks:
        return []
    warnings = max(len(run.facts.warnings) for run in cell.runs)
    more = {**attacks, "ended": _ended(cell), "warnings": str(warnings) if warnings else ""}
    return [{**line, **more} for line in lines or [{"protected": "nobody"}]]


def _ended(cell: CellResult) -> str:
    """Return the rounds after which a budget ended the trials; empty if it ended none of them."""
    ended = [len(run.rounds) for run in cell.runs if "ended" in run.rounds[-1].privacy]
    return f"after round {_range(ended)} of {cell.label.rounds}" if ended else ""


def _line(label: Label, trials: Sequence[Spent]) -> dict[str, str]:
    first, reasons = trials[0], sorted({each.reason for each in trials} - {""})
    tighter = known(each.epsilon_pld for each in trials)
    return {
        "protected": _PROTECTED[first.unit],
        "from": first.protects_from(label),
        "epsilon": _number(max(each.epsilon for each in trials)),
        "epsilon (PLD)": _number(max(tighter)) if len(tighter) == len(trials) else "",
        "delta": f"{max(each.delta for each in trials):.3g}",
        "noise": _range([noise for each in trials for noise in each.noise]),
        "accountant": _ACCOUNTANTS[first.accountant],
        "guarantee": f"no: {reasons[0]}" if reasons else "yes",
    }


def _number(epsilon: float) -> str:
    """Return an epsilon with three digits, rounded up, because less would not be a bound.

    >>> _number(1.99983), _number(4.0321), _number(math.inf), _number(1e-6), _number(0.0)
    ('2', '4.04', '∞', '1e-06', '< 1e-6')
    """
    if not math.isfinite(epsilon) or epsilon <= 0:
        return "∞" if epsilon > 0 else _TINY
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"


def _range(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _attacks(cell: CellResult) -> dict[str, str]:
    """Return what attacks achieved in the last round, as text by column; empty where they were not measured."""
    membership, canaries, inversion = (_last_findings(cell, name) for name in ATTACKS)
    audited = known(each.get("epsilon") for each in canaries)
    refuted = any("is refuted" in str(each.get("verdict")) for each in canaries)
    psnr, guess = (known(each.get(name) for each in inversion) for name in ("psnr", "baseline_psnr"))
    compared = f" ({fmean(guess):.3g})" if guess else ""
    return {
        "membership AUC": _area(membership),
        "audited epsilon": f"≥ {max(audited):.3g}{': refutes the stated one' if refuted else ''}" if audited else "",
        "inversion PSNR, dB": f"{fmean(psnr):.3g}{compared}" if psnr else "",
    }


def _area(findings: Sequence[Mapping[str, Any]]) -> str:
    numbers = [[each[name] for name in ("auc", "low", "high")] for each in findings if each.get("auc") is not None]
    if not numbers:
        return ""
    area, low, high = map(fmean, zip(*numbers, strict=True))
    return f"{area:.3f} ({low:.3f} to {high:.3f})"


def _last_findings(cell: CellResult, measure: str) -> list[Mapping[str, Any]]:
    """Return the last findings of each trial that has any."""
    return [list(rows.values())[-1] for run in cell.runs if (rows := run.measured(measure))]


# --- in a sentence ------------------------------------------------------------------------------------


def privacy_sentence(cells: Cells) -> str:
    """Return the largest epsilon for rows and for parties, and how many runs have none; empty if no run states one."""
    stated = [(cell, _stated(cell)) for cell in cells]
    if not any(units for _, units in stated):
        return ""
    private = [(cell, finite) for cell, units in stated if (finite := [each for each in units if _is_finite(each)])]
    trials = [one for _, units in private for each in units for one in each]
    unprotected = sum(len(cell.runs) for cell in cells) - sum(len(cell.runs) for cell, _ in private)
    if not trials:
        return "The epsilon of every run is infinite or not stated, so no run has differential privacy."
    weak = sum(len(cell.runs) for cell, units in private if any(one.reason for each in units for one in each))
    facts = [
        f"The largest epsilon is {' and '.join(_largest(trials, unit) for unit in UNITS if _of(trials, unit))}",
        f"in {weak} of the runs it is not a guarantee" if weak else "",
        f"{unprotected} of {sum(len(cell.runs) for cell in cells)} runs have no differential privacy"
        if unprotected
        else "",
    ]
    return "; ".join(filter(None, facts)) + "."


def _stated(cell: CellResult) -> list[list[Spent]]:
    """Return what the trials of a cell spent, by unit, where all of them state it."""
    by_unit = ([spent(run.rounds[-1], unit) for run in cell.runs] for unit in UNITS)
    return [[one for one in each if one] for each in by_unit if all(each)]


def _is_finite(trials: Sequence[Spent]) -> bool:
    return all(math.isfinite(one.epsilon) for one in trials)


def _of(trials: Sequence[Spent], unit: str) -> list[Spent]:
    return [one for one in trials if one.unit == unit]


def _largest(trials: Sequence[Spent], unit: str) -> str:
    one = max(_of(trials, unit), key=lambda one: (one.epsilon, one.delta))
    return f"{_number(one.epsilon)} for {_PROTECTED[unit]} (delta {one.delta:.3g})"


# --- as plain values ----------------------------------------------------------------------------------


def privacy_json(cell: CellResult) -> dict[str, Any] | None:
    """Return what each trial states about privacy after its last round; None if the cell protects nobody."""
    trials = [dict(run.rounds[-1].privacy) for run in cell.runs]
    if not any(trials):
        return None
    units = {unit: [one for run in cell.runs if (one := spent(run.rounds[-1], unit))] for unit in UNITS}
    return {
        **{unit: _unit_json(cell, each) for unit, each in units.items() if each},
        "trials": {str(seed): trial for seed, trial in zip(cell.seeds, trials, strict=True)},
    }


def _unit_json(cell: CellResult, trials: Sequence[Spent]) -> dict[str, Any]:
    unit, tighter = trials[0].unit, known(each.epsilon_pld for each in trials)
    return {
        "epsilon": _finite(max(each.epsilon for each in trials)),
        "epsilon_pld": max(tighter) if len(tighter) == len(trials) else None,
        "delta": max(each.delta for each in trials),
        "protected": _PROTECTED[unit],
        "from": trials[0].protects_from(cell.label),
        "holds": not any(each.reason for each in trials),
        "rounds": [[number, value] for number, value in epsilon_curve(cell, unit)],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
