"""Tables of vertical runs: who holds which columns, how rows were matched, scores by set of test rows, and leakage."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, accuracy_text, grouped
from silobench.analysis.measured import cells_with, known
from silobench.analysis.specs import arguments
from silobench.analysis.statistics import deviation
from silobench.analysis.tables import Table, entries, over_trials, shown, shown_choices, varying
from silobench.analysis.units import duration, size
from silobench.runs.stored import RowSet, StoredRun, VerticalFacts
from silobench.runs.vertical_facts import ColumnParty
from silobench.spec import Spec

LABELS, RECONSTRUCTION, DISTANCE = "label-leakage", "reconstruction", "distance-correlation"
LEAKS = (LABELS, RECONSTRUCTION, DISTANCE)  # measures of what crosses the cut
ATTACKS = {"norm": "label AUC, norm", "direction": "label AUC, direction", "directions": "label AUC, directions"}
_PARTY = "party "  # the start of the name of a set of test rows that a party has
_NO_LEAK = " ≈"  # behind a value that is within two standard errors of a guess
_ERRORS = 2  # standard errors
_REST = ("measure", "metric", "eval_every", "eval_on")  # keys that do not change who holds what


def vertical_tables(cells: Cells) -> list[Table]:
    """Return all tables of vertical runs that have rows."""
    return [
        table
        for table in (parties_table(cells), alignment_table(cells), *row_set_tables(cells), leakage_table(cells))
        if table.rows
    ]


def federations(cells: Cells) -> list[list[CellResult]]:
    """Return cells in which the same parties hold the same columns and rows, together."""
    vertical = [cell for cell in cells if cell.is_vertical]
    return grouped(vertical, lambda cell: (cell.label["dataset"], cell.label["partition"], cell.parties, cell.seeds[0]))


def facts_of(cell: CellResult) -> VerticalFacts:
    """Return who holds what in the first trial."""
    facts = cell.runs[0].facts.vertical
    assert facts is not None
    return facts


def _mean(cell: CellResult, number: Callable[[StoredRun, VerticalFacts], float]) -> str:
    """Return a mean over trials as a whole number."""
    each = [number(run, facts) for run in cell.runs if (facts := run.facts.vertical)]
    return f"{fmean(each):,.0f}"


def _with_columns(title: str, names: Sequence[str], lines: Sequence[tuple[CellResult, dict[str, str]]]) -> Table:
    """Return a table of lines by column, without columns that no line has."""
    order = dict.fromkeys(column for _, line in lines for column in line)
    used = [column for column in order if any(line.get(column) for _, line in lines)]
    cells = [cell for cell, _ in lines]
    rows = [
        [*shown_choices(cell, names, cells), *entries(*(line.get(column) or "-" for column in used))]
        for cell, line in lines
    ]
    return Table(title, [*names, *used], rows)


# --- parties and rows ---------------------------------------------------------------------------------


def parties_table(cells: Cells) -> Table:
    """Return the columns and rows of each party, by dataset and partition."""
    groups = federations(cells)
    lines = [(group[0], _party_line(group[0], name)) for group in groups for name in facts_of(group[0]).parties]
    table = _with_columns("Parties and columns", _choices(groups), lines)
    notes = ["rows: for training and for tests, in which the party has its columns"]
    if "features" in table.columns:
        notes.append("features: numbers that its columns are for a model; a category is one for each of its values")
    if "without a match" in table.columns:
        notes.append("without a match: rows of its file that no row of the party with the labels matches")
    return Table(table.title, table.columns, table.rows, "; ".join(notes))


def _choices(groups: Sequence[Cells]) -> list[str]:
    """Return the columns that tell federations apart."""
    names = ["dataset", "partition"]
    kinds = {(group[0].label["dataset"], group[0].label["partition"]) for group in groups}
    return names if len(kinds) == len(groups) else [*names, "parties"]


def _party_line(cell: CellResult, name: str) -> dict[str, str]:
    facts = facts_of(cell)
    party, alignment = facts.parties[name], facts.alignment
    line = {
        "party": name,
        "role": "labels" if name == facts.label else "",
        "columns": str(party.columns),
        "features": str(party.features or "") if any(map(_has_other_features, facts.parties.values())) else "",
        "rows": _mean(cell, lambda _, each: each.parties[name].rows),
        "test rows": _mean(cell, lambda _, each: each.parties[name].test_rows),
    }
    for column, key in (("in its file", "rows"), ("without a match", "unmatched")):
        count = alignment.get(key, {})
        line[column] = f"{count[name]:,}" if isinstance(count, Mapping) and name in count else ""
    return line


def _has_other_features(party: ColumnParty) -> bool:
    return party.features not in (None, party.columns)


def alignment_table(cells: Cells) -> Table:
    """Return how rows were matched, what became of the others, and whether absence tells about the label.

    Federations in which every party has every row are left out, unless rows were matched.
    """
    groups = [group for group in federations(cells) if _has_alignment(group[0])]
    lines = [(group[0], _alignment_line(group[0])) for group in groups]
    table = _with_columns("Alignment", _choices(groups), lines)
    notes = [
        "aligned: rows that every party has",
        "padded: rows that some party does not have, whose columns are replaced",
        "dropped: rows that are not used",
    ]
    if any("likely false" in column for column in table.columns):
        notes.append("likely false: matches of similar keys that are doubtful")
    if any("presence" in column for column in table.columns):
        notes.append(
            "by presence: a model that sees only which party has a row; better than a constant answer means that "
            "absence tells about the label"
        )
    return Table(table.title, table.columns, table.rows, "; ".join(notes))


def _has_alignment(cell: CellResult) -> bool:
    facts = facts_of(cell)
    return bool(facts.alignment or facts.mask) or facts.aligned_train < cell.dataset.train


def _alignment_line(cell: CellResult) -> dict[str, str]:
    first, metric = facts_of(cell), cell.metric
    line = {
        "matched by": str(first.alignment.get("match", "")),
        "aligned": _mean(cell, lambda _, each: each.aligned_train),
        "aligned, test": _mean(cell, lambda _, each: each.aligned_test),
        "absent": first.absent if first.mask or first.aligned_train < cell.dataset.train else "",
        "padded": _mean(cell, lambda _, each: max(0, each.rows - each.aligned_train)),
        "dropped": _mean(cell, lambda run, each: run.dataset.train - each.rows),
        "likely false": _likely_false(first.alignment),
        **_costs(first.alignment),
    }
    by_presence, constant = _presence(cell)
    if by_presence is not None and constant is not None:
        line[f"{metric.heading} by presence"] = metric.number(by_presence)
        line["by a constant answer"] = metric.number(constant)
    return line


def _costs(alignment: Mapping[str, Any]) -> dict[str, str]:
    """Return the time and the bytes of a private set intersection; empty for another match."""
    costs = (("time to match", "seconds", duration), ("sent to match", "bytes", size))
    return {column: text(alignment[key]) for column, key, text in costs if key in alignment}


def vertical_notes(cells: Cells) -> list[str]:
    """Return the notes on each federation: how rows were matched, and whether absence tells about the label."""
    notes = []
    for first, *_ in federations(cells):
        name = f"{shown(first, 'dataset', cells)} {first.label.text('partition')}"
        notes += [f"{name}: {note}" for note in (*first.runs[0].partition.notes, *_presence_notes(first))]
    return list(dict.fromkeys(notes))


def _presence_notes(cell: CellResult) -> list[str]:
    by_presence, constant = _presence(cell)
    if by_presence is None or constant is None:
        return []
    text = cell.metric.text
    return [
        f"{cell.metric.title} of a model that sees only which party has a row: {text(by_presence)}, and of one answer "
        f"to all rows: {text(constant)}; a large difference means that absence tells about the label"
    ]


def _presence(cell: CellResult) -> tuple[float | None, float | None]:
    """Return the main metric of a model that sees only which party has a row, and of a constant answer."""
    masks = [mask for run in cell.runs if (facts := run.facts.vertical) and (mask := facts.mask)]
    each = (known(mask.score for mask in masks), known(mask.constant for mask in masks))
    by_presence, constant = (fmean(values) if values else None for values in each)
    return by_presence, constant


def _likely_false(alignment: Mapping[str, Any]) -> str:
    """Return how many matches are doubtful; empty if keys were not matched by similarity."""
    counts = alignment.get("likely_false")
    if isinstance(counts, Mapping):
        return f"{sum(counts.values()):,}"
    return "" if counts is None else f"{counts:,}"


# --- scores by set of test rows ------------------------------------------------------------------------


def row_set_tables(cells: Cells) -> list[Table]:
    """Return the main metric of every method on the aligned, on all and on each party's test rows, by federation.

    One party by itself, all columns in one place and federated methods stand below each other, on the same rows. Cells
    in which every party has every row are left out: tables of scores have all of it.
    """
    tested = [cell for cell in cells if cell.is_vertical and _sets_differ(cell)]
    same = grouped(tested, lambda cell: cell.label.without(*_REST))  # runs that differ only in what they measure
    once = [max(group, key=lambda cell: len(cell.seeds)) for group in same]
    groups = grouped(once, lambda cell: (cell.metric.name, cell.metric.unit, tuple(cell.runs[0].final.by_rows)))
    return [_row_sets(group) for group in groups]


def _sets_differ(cell: CellResult) -> bool:
    return any(len({one.rows for one in run.final.by_rows.values()}) > 1 for run in cell.runs)


def _row_sets(cells: Cells) -> Table:
    names = [*(name for name in varying(cells) if name not in _REST), "algorithm"]
    sets, metric = list(cells[0].runs[0].final.by_rows), cells[0].metric
    same = len({(cell.label["dataset"], cell.label["partition"]) for cell in cells}) == 1
    lines = [[*shown_choices(cell, names, cells), *entries(*(_set_text(cell, one) for one in sets))] for cell in cells]
    sizes = cells[0].runs[0].final.by_rows
    columns = [_set_name(one) + (f" ({sizes[one].rows:,} rows)" if same else "") for one in sets]
    title = f"By set of test rows: {metric.heading} ({over_trials(cells)})"
    note = "aligned: the rows that every party has, by which methods are judged; a party's rows: those that it has"
    return Table(title, [*names, *columns], lines, note)


def _set_name(name: str) -> str:
    return f"rows of {name.removeprefix(_PARTY)}" if name.startswith(_PARTY) else name


def _set_text(cell: CellResult, name: str) -> str:
    scores = known(run.final.by_rows.get(name, RowSet(0, None)).score for run in cell.runs)
    return cell.metric.number(fmean(scores), deviation(scores)) if len(scores) == len(cell.runs) else "-"


# --- leakage ------------------------------------------------------------------------------------------


def leakage_table(cells: Cells) -> Table:
    """Return what attacks on the cut achieve, beside the main metric, by defence and party."""
    attacked = leaking(cells)
    names = [name for name in varying(attacked) if name not in _REST] if attacked else []
    lines = [(cell, _leakage_line(cell, party)) for cell in attacked for party in parties_attacked(cell)]
    table = _with_columns("Leakage", names, lines)
    notes = [over_trials(attacked)] if attacked else []
    notes += [text for name, text in _LEAK_NOTES.items() if any(name in column for column in table.columns)]
    if any(entry.text.endswith(_NO_LEAK) for row in table.rows for entry in row):
        notes.append(f"{_NO_LEAK.strip()} within two standard errors of the value in brackets: no visible leak")
    return Table(table.title, table.columns, table.rows, "; ".join(notes))


_LEAK_NOTES = {
    "label AUC": "label AUC: how well the party infers labels from the gradients that it gets; in brackets: the same "
    "attack on shuffled labels ± its standard error; far below it is a leak too, as the party can turn its guess round",
    "R²": "R²: how well the party with the labels reconstructs columns from activations; in brackets: from shuffled "
    "activations",
    "binary": "binary: columns of two values that it gets right, in percent; in brackets: by the more frequent value",
    "distance": "distance correlation: of a party's columns and its activations; in brackets: of shuffled rows ± its "
    "standard error",
}


def leaking(cells: Cells) -> list[CellResult]:
    """Return the cells in which what crosses the cut was attacked."""
    vertical = [cell for cell in cells if cell.is_vertical]
    return [cell for cell in vertical if any(cells_with([cell], name) for name in LEAKS)]


def defence_of(cell: CellResult) -> str:
    """Return what protects the cut of a cell: its defence, as labels have it; none without one."""
    defence = arguments(cell.config.algorithm).get("defence")
    if not isinstance(defence, Spec):
        return "none" if cell.label.text("algorithm") == cell.label.algorithm.name else cell.label.text("algorithm")
    return str(defence)


def last_of(run: StoredRun, measure: str) -> Mapping[str, Any]:
    """Return the last findings of a measure; empty if there are none."""
    return next(reversed(run.measured(measure).values()), {})


def parties_attacked(cell: CellResult) -> list[str]:
    """Return the names of the parties whose part of the cut was attacked."""
    return list(dict.fromkeys(p for name in LEAKS for run in cell.runs for p in last_of(run, name).get("parties", {})))


def leak_values(cell: CellResult, measure: str, party: str, *path: str) -> list[float]:
    """Return a number of a measure about a party, of each trial that has it."""
    values: list[float] = []
    for run in cell.runs:
        fact: Any = last_of(run, measure).get("parties", {}).get(party)
        for key in path:
            fact = fact.get(key) if isinstance(fact, Mapping) else None
        if isinstance(fact, int | float):
            values.append(float(fact))
    return values


@dataclass(frozen=True)
class Leak:
    """What an attack achieves, as a mean over trials, beside a guess. `error` is the standard error of that guess."""

    mean: float
    std: float | None  # over trials
    null: float | None
    error: float | None

    @property
    def is_visible(self) -> bool | None:
        """Whether the mean is more than two standard errors from the guess; None if the error is not known."""
        if self.null is None or self.error is None:
            return None
        return abs(self.mean - self.null) > _ERRORS * self.error

    def text(self, factor: float = 1, digits: int = 3) -> str:
        """Return the mean, the guess in brackets, and a mark if there is no visible leak.

        >>> Leak(0.52, None, 0.5, 0.02).text(), Leak(0.9, 0.1, 0.5, None).text()
        ('0.520 (0.500 ± 0.020) ≈', '0.900 ± 0.100 (0.500)')
        """

        def number(value: float, spread: float | None) -> str:
            more = "" if spread is None else f" ± {factor * spread:.{digits}f}"
            return f"{factor * value:z.{digits}f}{more}"

        guess = "" if self.null is None else f" ({number(self.null, self.error)})"
        return number(self.mean, self.std) + guess + (_NO_LEAK if self.is_visible is False else "")


def leak_of(cell: CellResult, measure: str, party: str, value: Sequence[str], null: Sequence[str]) -> Leak | None:
    """Return what an attack on a party achieves; None if no trial has it.

    `value` and `null` are where a party's facts have the number and that of a guess. The standard error of the guess is
    that of a mean over the trials.
    """
    values, nulls = (leak_values(cell, measure, party, *path) for path in (value, null))
    if not values:
        return None
    errors = leak_values(cell, measure, party, *null[:-1], f"{null[-1]}_se")
    error = math.hypot(*errors) / len(errors) if errors and len(errors) == len(values) else None
    return Leak(fmean(values), deviation(values), fmean(nulls) if nulls else None, error)


def _leakage_line(cell: CellResult, party: str) -> dict[str, str]:
    def text(measure: str, value: Sequence[str], null: Sequence[str], factor: float = 1, digits: int = 3) -> str:
        leak = leak_of(cell, measure, party, value, null)
        return leak.text(factor, digits) if leak else ""

    return {
        "algorithm": cell.label.algorithm.name,
        "defence": defence_of(cell),
        cell.metric.heading: accuracy_text(cell),
        "party": party,
        **{column: text(LABELS, (name, "auc"), (name, "null")) for name, column in ATTACKS.items()},
        "columns, R²": text(RECONSTRUCTION, ("r2",), ("null",)),
        "binary columns, %": text(RECONSTRUCTION, ("binary", "accuracy"), ("binary", "majority"), 100, 1),
        "distance correlation": text(DISTANCE, ("correlation",), ("null",)),
    }


# --- as plain values ----------------------------------------------------------------------------------


def vertical_json(cell: CellResult) -> dict[str, Any] | None:
    """Return who holds what, scores by set of test rows and leakage as plain values; None where parties hold rows."""
    if not cell.is_vertical:
        return None
    facts = facts_of(cell)
    sets = cell.runs[0].final.by_rows
    return {
        "parties": {
            name: {
                "columns": party.columns,
                "features": party.features,
                "rows": party.rows,
                "test_rows": party.test_rows,
            }
            for name, party in facts.parties.items()
        },
        "label": facts.label,
        "absent": facts.absent,
        "rows": facts.rows,
        "aligned": {"train": facts.aligned_train, "test": facts.aligned_test},
        "alignment": dict(facts.alignment) or None,
        "mask": facts.mask
        and {name: getattr(facts.mask, name) for name in ("metric", "score", "constant", "patterns")},
        "by_rows": {name: _set_json(cell, name) for name in sets},
        "leakage": {party: _leakage_json(cell, party) for party in parties_attacked(cell)} or None,
    }


def _set_json(cell: CellResult, name: str) -> dict[str, Any]:
    scores = known(run.final.by_rows.get(name, RowSet(0, None)).score for run in cell.runs)
    rows = fmean(run.final.by_rows[name].rows for run in cell.runs if name in run.final.by_rows)
    return {"rows": rows, "mean": fmean(scores) if scores else None, "std": deviation(scores)}


def _leakage_json(cell: CellResult, party: str) -> dict[str, Any]:
    paths = {
        **{f"label_auc_{name}": (LABELS, name, "auc") for name in ATTACKS},
        **{f"label_auc_{name}_null": (LABELS, name, "null") for name in ATTACKS},
        **{f"label_auc_{name}_null_se": (LABELS, name, "null_se") for name in ATTACKS},
        "r2": (RECONSTRUCTION, "r2"),
        "r2_null": (RECONSTRUCTION, "null"),
        "distance_correlation": (DISTANCE, "correlation"),
        "distance_correlation_null": (DISTANCE, "null"),
        "distance_correlation_null_se": (DISTANCE, "null_se"),
    }
    values = {key: leak_values(cell, path[0], party, *path[1:]) for key, path in paths.items()}
    return {key: fmean(each) for key, each in values.items() if each}
