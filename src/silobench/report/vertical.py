"""The parts of the page about vertical runs: parties and columns, alignment, sets of test rows, and leakage as bars."""

from collections.abc import Sequence
from typing import TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.methods import setting_name
from silobench.analysis.tables import Table, varying
from silobench.analysis.vertical import (
    ATTACKS,
    DISTANCE,
    LABELS,
    LEAKS,
    RECONSTRUCTION,
    alignment_table,
    defence_of,
    leak_of,
    leakage_table,
    leaking,
    parties_attacked,
    parties_table,
    row_set_tables,
)
from silobench.report.charts.values import Axis, BarChart, Bars, Panels, Value
from silobench.report.drawing import Drawing, Section

_MOST = 12  # figures; the table has all cells
_SCORE, _LEAK = 2, 1  # colours: green and red
_READING = (
    "A red bar is the largest value over parties and kinds of attack. Its black tick is what this attack achieves on "
    "shuffled labels, activations or rows; that of a green bar is a constant answer. The largest of several values is "
    "beyond two standard errors by chance more often than one value is: the table has each of them."
)
_METHOD = ("algorithm", "measure", "metric", "eval_every", "eval_on")  # what differs between the bars of a figure


def federation_tables(cells: Cells) -> list[Table]:
    """Return the tables about parties, rows and scores by set of test rows; empty without vertical runs."""
    tables = (parties_table(cells), alignment_table(cells), *row_set_tables(cells))
    return [table for table in tables if table.rows]


def leakage_sections(cells: Cells) -> list[Section]:
    """Return the section about what crosses the cut, with a figure for each setting; none if it was not attacked."""
    attacked, table = leaking(cells), leakage_table(cells)
    names = [name for name in varying(attacked) if name not in _METHOD] if attacked else []
    settings = grouped(attacked, lambda cell: cell.label.without(*_METHOD))
    drawings = [
        Drawing(setting_name(setting[0], names, attacked), leakage_chart(setting), _READING) for setting in settings
    ]
    return [Section(table.title, drawings[:_MOST], table)] if table.rows else []


def leakage_chart(cells: Sequence[CellResult]) -> Panels:
    """Return bars by defence in a panel for each number: the task's metric, then the most successful attacks.

    The tick of a bar is what the same attack achieves on shuffled labels, activations or rows.
    """
    panels = [_score_panel(cells), *(panel for measure in LEAKS if (panel := _leak_panel(cells, measure)))]
    return Panels("metric and leakage by defence", panels)


def _panel(
    cells: Sequence[CellResult],
    axis: Axis,
    values: Sequence[float | None],
    nulls: Sequence[float | None],
    texts: Sequence[str],
    colour: int,
) -> BarChart:
    """Return bars of one number: the value of each cell, and that of a guess, where it is known."""
    shown = [None if value is None else Value(value) for value in values]
    bars = Bars(axis.label, shown, colour, nulls, texts)
    return BarChart(axis.label, [defence_of(cell) for cell in cells], axis, [bars], horizontal=True)


def _score_panel(cells: Sequence[CellResult]) -> BarChart:
    metric, means = cells[0].metric, [cell.score.mean for cell in cells]
    constant = cells[0].baseline
    axis = Axis(metric.title, metric.unit_text, low=0.0, high=metric.factor if metric.is_share else None)
    null = None if constant is None else metric.factor * constant
    texts = [metric.number(mean) for mean in means]
    return _panel(cells, axis, [metric.factor * mean for mean in means], [null] * len(cells), texts, _SCORE)


_Path: TypeAlias = tuple[str, ...]  # the keys of a number in the facts of a party
_PANELS: dict[
    str, tuple[str, list[tuple[_Path, _Path]]]
] = {  # the title of a panel, and where a party's facts have its number and that of a guess
    LABELS: ("label leakage, AUC", [((name, "auc"), (name, "null")) for name in ATTACKS]),
    RECONSTRUCTION: ("reconstruction, R²", [(("r2",), ("null",))]),
    DISTANCE: ("distance correlation", [(("correlation",), ("null",))]),
}


def _leak_panel(cells: Sequence[CellResult], measure: str) -> BarChart | None:
    """Return the most successful attack on each cell, over parties and kinds of attack; None without a number."""
    title, paths = _PANELS[measure]
    best = []
    for cell in cells:
        each = [leak_of(cell, measure, party, *path) for party in parties_attacked(cell) for path in paths]
        best.append(max((leak for leak in each if leak), key=lambda leak: leak.mean, default=None))
    if not any(best):
        return None
    values, nulls = [leak.mean if leak else None for leak in best], [leak.null if leak else None for leak in best]
    texts = [f"{leak.mean:z.2f}" if leak else "" for leak in best]
    return _panel(cells, Axis(title, low=0.0, high=1.0), values, nulls, texts, _LEAK)
