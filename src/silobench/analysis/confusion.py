"""Which classes a model takes for which others: confusion matrices and calibration, over trials."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult, finite
from silobench.analysis.statistics import judged_rows
from silobench.analysis.tables import Table, entries, shown_choices, varying

MOST_CLASSES = 10  # of a matrix that is shown in full
MOST_LINES = 60  # of all matrices in one table
_MOST_CONFUSIONS = 3  # of a cell


def confusion(cell: CellResult) -> list[list[int]] | None:
    """Return the rows by class and answer, summed over trials; None where runs do not have them."""
    tables = [run.final.confusion for run in cell.runs]
    if not all(tables):
        return None
    return [[sum(counts) for counts in zip(*rows, strict=True)] for rows in zip(*tables, strict=True)]


def calibration(cell: CellResult) -> dict[str, Any] | None:
    """Return the calibration error and the Brier score, as means over trials; None where runs do not have them."""
    known = [run.final.calibration for run in cell.runs if run.final.calibration]
    if len(known) < len(cell.runs):
        return None
    errors, squares = [one.error for one in known], [one.brier for one in known]
    return {name: _mean(values) for name, values in (("error", errors), ("brier", squares))}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return finite(fmean(known)) if len(known) == len(values) else None


def frequent_confusions(table: Sequence[Sequence[int]], most: int = _MOST_CONFUSIONS) -> list[tuple[int, int, int]]:
    """Return the most frequent wrong answers as (class, answer, rows).

    >>> frequent_confusions([[5, 1, 0], [3, 2, 0], [0, 0, 9]])
    [(1, 0, 3), (0, 1, 1)]
    """
    wrong = [
        (label, answer, count)
        for label, row in enumerate(table)
        for answer, count in enumerate(row)
        if count and label != answer
    ]
    return sorted(wrong, key=lambda one: -one[2])[:most]


def confusion_tables(cells: Sequence[CellResult]) -> list[Table]:
    """Return the confusion matrices in full if they are small and few, else the most frequent wrong answers."""
    known = [cell for cell in cells if confusion(cell)]
    if not known:
        return []
    datasets = dict.fromkeys(cell.dataset.classes for cell in known)
    groups = [[cell for cell in known if cell.dataset.classes == classes] for classes in datasets]
    return [_matrices(group) if _is_small(group) else _frequent(group) for group in groups]


def _is_small(cells: Sequence[CellResult]) -> bool:
    classes = len(cells[0].dataset.classes)
    return classes <= MOST_CLASSES and classes * len(cells) <= MOST_LINES


def _matrices(cells: Sequence[CellResult]) -> Table:
    """Return one line per cell and class: the share of its rows that get each answer."""
    names, classes, rows = [*varying(cells), "algorithm"], cells[0].dataset.classes, []
    for cell in cells:
        for label, counts in enumerate(confusion(cell) or ()):
            total = sum(counts)
            shares = [f"{100 * count / total:.1f}" if total else "" for count in counts]
            rows.append([*shown_choices(cell, names, cells), *entries(classes[label], _rows(cell, total), *shares)])
    columns = [*names, "class", "rows", *(f"→ {name}" for name in classes)]
    return Table("Confusion matrices: answers (→) by class, percent of its test rows", columns, rows)


def _rows(cell: CellResult, total: int) -> str:
    """Return how many test rows a class has: a confusion matrix counts them for each trial and model."""
    models = sum(map(sum, confusion(cell) or ())) / sum(map(judged_rows, cell.runs))
    rows = total / (models * len(cell.runs)) if models else 0
    return f"{rows:.0f}" if cell.is_vertical else f"{rows:g}"  # trials may have other aligned rows


def _frequent(cells: Sequence[CellResult]) -> Table:
    names, classes = [*varying(cells), "algorithm"], cells[0].dataset.classes
    rows = []
    for cell in cells:
        table = confusion(cell) or ()
        texts = [
            f"{classes[label]} → {classes[answer]} {100 * count / sum(table[label]):.0f}%"
            for label, answer, count in frequent_confusions(table)
        ]
        padded = [*texts, *[""] * (_MOST_CONFUSIONS - len(texts))]
        rows.append([*shown_choices(cell, names, cells), *entries(*padded)])
    columns = [*names, "most frequent", "second", "third"]
    note = (
        "class → answer, and the percentage of the rows of the class; `silobench report DIR` and "
        "`silobench show DIR --json` have the whole matrices"
    )
    return Table("Most frequent wrong answers", columns, rows, note)
