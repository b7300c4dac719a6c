"""Findings of measures, over rounds and trials."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, by_seed
from silobench.analysis.statistics import Spread, spread
from silobench.analysis.tables import Table, entries, method_choices, shown, shown_choices
from silobench.runs.label import distinguishing
from silobench.runs.stored import StoredRun

Findings: TypeAlias = Mapping[str, Any]  # of one measure after one round
Pick: TypeAlias = Callable[[Findings], float | None]


def known(values: Iterable[float | None]) -> list[float]:
    """Return the numbers that are not None."""
    return [value for value in values if value is not None]


def cells_with(cells: Cells, measure: str) -> list[CellResult]:
    """Return the cells of which every trial has a measure."""
    return [cell for cell in cells if all(run.measured(measure) for run in cell.runs)]


def choices_of(cells: Cells) -> list[str]:
    """Return the columns for a table with a line per cell: the algorithm and whatever makes no two lines look alike.

    Transforms are shown wherever they differ.
    """
    names = list(dict.fromkeys((*method_choices(cells), "algorithm")))
    others = distinguishing([cell.label for cell in cells], but=names)
    for name in sorted(others, key=lambda name: (name != "transforms", name != "solver")):
        lines = {tuple(shown(cell, each, cells) for each in names) for cell in cells}
        if name == "transforms" or len(lines) < len(cells):
            names.append(name)
    return names


def measured_rounds(cell: CellResult, measure: str) -> list[int]:
    """Return the rounds after which every trial was measured."""
    return sorted(set.intersection(*(set(run.measured(measure)) for run in cell.runs)))


def over_rounds(cell: CellResult, measure: str, pick: Pick) -> list[tuple[int, Spread]]:
    """Return a number over trials, after every round in which all of them were measured."""
    trials = [run.measured(measure) for run in cell.runs]
    every = ((at, spread(known(pick(rows[at]) for rows in trials))) for at in measured_rounds(cell, measure))
    return [(at, over) for at, over in every if over]


def averages(cell: CellResult, measure: str, pick: Pick) -> dict[int, float]:
    """Return the mean of a number over all measured rounds, by seed."""

    def average(run: StoredRun) -> float | None:
        values = known(pick(row) for row in run.measured(measure).values())
        return fmean(values) if values else None

    return by_seed(cell, average)


# --- any measure --------------------------------------------------------------------------------------

_WIDE = 4  # findings that fit into the columns of one table; more of them are rows


def flattened(findings: Any, parties: Sequence[str], name: str = "") -> dict[str, float | str]:
    """Return findings of any form as numbers and texts by name; a list with an entry per party has their names.

    >>> flattened({"length": 2, "by party": [1.0, None], "layers": {"bias": 3.0}}, ("Bern", "Oslo"))
    {'length': 2.0, 'by party, Bern': 1.0, 'layers, bias': 3.0}
    """
    if isinstance(findings, Mapping):
        inner: Iterable[tuple[str, Any]] = findings.items()
    elif isinstance(findings, list | tuple):
        numbers = [str(place + 1) for place in range(len(findings))]
        names = list(map(_party, parties)) if len(parties) == len(findings) else numbers
        inner = zip(names, findings, strict=True)
    elif findings is None:
        return {}
    else:
        return {name: findings if isinstance(findings, bool | str) else float(findings)}
    return {
        key: value
        for title, each in inner
        for key, value in flattened(each, parties, f"{name}, {title}" if name else str(title)).items()
    }


def _party(name: str) -> str:
    """Return the name of a party; one that is a number is not clear without "party"."""
    return f"party {name}" if name.isdigit() else name


def measures_of(cells: Cells, but: Collection[str] = ()) -> list[str]:
    """Return the names of the measures that these cells have findings of, in the order in which they were asked for."""
    names = dict.fromkeys(term.name for cell in cells for term in cell.label.measure)
    return [name for name in names if name not in but and cells_with(cells, name)]


def findings_of(cell: CellResult, measure: str) -> list[str]:
    """Return the names of all findings of a measure, in their order."""
    rows = [row for run in cell.runs for row in run.measured(measure).values()]
    return list(dict.fromkeys(name for row in rows for name in flattened(row, cell.runs[0].partition.parties)))


def finding_text(cell: CellResult, measure: str, name: str) -> str:
    """Return the last value of a finding: the mean and the deviation over trials; a text if all trials have it."""
    values = [_last(run, measure, name) for run in cell.runs]
    numbers = [value for value in values if isinstance(value, float)]
    if not numbers or len(numbers) < len(values):
        return str(values[0]) if values[0] is not None and len(set(values)) == 1 else ""
    over = spread(numbers)
    assert over is not None
    return f"{over.mean:.4g}" + (f" ± {over.std:.2g}" if over.std is not None else "")


def _last(run: StoredRun, measure: str, name: str) -> float | str | None:
    rows = (flattened(row, run.partition.parties) for row in reversed(run.measured(measure).values()))
    return next((row[name] for row in rows if name in row), None)


def finding_curve(cell: CellResult, measure: str, name: str) -> list[tuple[int, Spread]]:
    """Return a finding over rounds and trials; empty for a text."""

    def pick(row: Findings) -> float | None:
        value = flattened(row, cell.runs[0].partition.parties).get(name)
        return value if isinstance(value, float) else None

    return over_rounds(cell, measure, pick)


def measure_tables(cells: Cells, but: Collection[str] = ()) -> list[Table]:
    """Return a table of the last findings of each measure, except those in `but`, which other tables show."""
    return [measure_table(cells_with(cells, name), name) for name in measures_of(cells, but)]


def measure_table(cells: Cells, measure: str) -> Table:
    """Return the last findings of a measure: few of them in columns, many in rows."""
    choices = choices_of(cells)
    findings = list(dict.fromkeys(name for cell in cells for name in findings_of(cell, measure)))
    title = f"Measure {measure}, last values (mean ± std over trials)"
    if len(findings) <= _WIDE:
        rows = [
            [*shown_choices(cell, choices, cells), *entries(*(finding_text(cell, measure, name) for name in findings))]
            for cell in cells
        ]
        return Table(title, [*choices, *findings], rows)
    rows = [
        [*shown_choices(cell, choices, cells), *entries(name, finding_text(cell, measure, name))]
        for cell in cells
        for name in findings_of(cell, measure)
    ]
    return Table(title, [*choices, "finding", "value"], rows)


def measures_json(cell: CellResult) -> dict[str, dict[str, Any]]:
    """Return the last findings of each measure as they were recorded, by measure and seed."""
    names = [term.name for term in cell.label.measure if cells_with([cell], term.name)]
    return {
        name: {
            str(seed): list(run.measured(name).values())[-1] for seed, run in zip(cell.seeds, cell.runs, strict=True)
        }
        for name in names
    }
