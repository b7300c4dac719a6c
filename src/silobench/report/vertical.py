"""The parts of the page about vertical runs: parties and columns, alignment, sets of test rows, and leakage as bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, grouped
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
from silobench.report.drawing import Drawing, Section, caption
from silobench.report.svg import GREY, LETTER, svg, text

_MOST = 12  # figures; the table has all cells
_BAR, _GAP, _LINE = 12, 6, 14  # pixels of a bar, between two bars, and of a line of text
_WIDTH, _BETWEEN = 120, 46  # pixels of a panel, and between two panels
_ACROSS = 2  # panels side by side
_SCORE, _LEAK, _NULL = "#2e933c", "#d1495b", "#1c2733"  # colours
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
    drawings = [Drawing(caption(setting[0], names, attacked), leakage_svg(setting), _READING) for setting in settings]
    return [Section(table.title, drawings[:_MOST], table)] if table.rows else []


@dataclass(frozen=True)
class Panel:
    """Bars of one number, from 0 to `limit`: the value of each cell, and that of a guess, where it is known."""

    title: str
    values: Sequence[float | None]
    nulls: Sequence[float | None]
    limit: float
    colour: str
    texts: Sequence[str]


def leakage_svg(cells: Sequence[CellResult]) -> str:
    """Return bars by defence in a panel for each number: the task's metric, then the most successful attacks.

    A black tick is what the same attack achieves on shuffled labels, activations or rows.
    """
    names = [defence_of(cell) for cell in cells]
    panels = [_score_panel(cells), *(panel for measure in LEAKS if (panel := _leak_panel(cells, measure)))]
    left, height = 12 + LETTER * max(map(len, names)), (_BAR + _GAP) * len(cells) + 3.5 * _LINE
    marks, lines = [], -(-len(panels) // _ACROSS)
    for at, panel in enumerate(panels):
        line, column = divmod(at, _ACROSS)
        top = line * height + 1.5 * _LINE
        if column == 0:
            marks += [
                text(left - 8, top + (_BAR + _GAP) * place + _BAR - 2, name, anchor="end")
                for place, name in enumerate(names)
            ]
        marks += _panel(panel, left + column * (_WIDTH + _BETWEEN), top, top + (_BAR + _GAP) * len(cells))
    return svg(left + min(len(panels), _ACROSS) * (_WIDTH + _BETWEEN), lines * height, marks)


def _panel(panel: Panel, x: float, top: float, bottom: float) -> list[str]:
    scale = _WIDTH / panel.limit
    marks = [text(x, top - 8, panel.title)]
    for share in (0.0, 0.5, 1.0):
        marks.append(f'<path d="M{x + share * _WIDTH:g} {top - 3:g}V{bottom:g}" stroke="{GREY}"/>')
        marks.append(text(x + share * _WIDTH, bottom + _LINE - 3, f"{share * panel.limit:.3g}", anchor="middle"))
    for place, (value, null, words) in enumerate(zip(panel.values, panel.nulls, panel.texts, strict=True)):
        y = top + (_BAR + _GAP) * place
        if value is not None:
            wide = max(0.0, min(value, panel.limit)) * scale
            title = f"<title>{escape(f'{panel.title}: {words}')}</title>"
            bar = f'<rect x="{x:g}" y="{y:g}" width="{wide:.1f}" height="{_BAR}" fill="{panel.colour}">{title}</rect>'
            marks += [bar, text(x + wide + 4, y + _BAR - 2, words)]
        if null is not None:
            mark = x + max(0.0, min(null, panel.limit)) * scale
            marks.append(f'<path d="M{mark:.1f} {y - 2:g}v{_BAR + 4}" stroke="{_NULL}" stroke-width="1.5"/>')
    return marks


def _score_panel(cells: Sequence[CellResult]) -> Panel:
    metric, means = cells[0].metric, [cell.score.mean for cell in cells]
    constant = cells[0].baseline
    limit = metric.factor if metric.is_share else metric.factor * max([*means, constant or 0.0]) or 1.0
    shown = [metric.factor * mean for mean in means]
    null = None if constant is None else metric.factor * constant
    return Panel(metric.heading, shown, [null] * len(cells), limit, _SCORE, [metric.number(mean) for mean in means])


_Path: TypeAlias = tuple[str, ...]  # the keys of a number in the facts of a party
_PANELS: dict[
    str, tuple[str, list[tuple[_Path, _Path]]]
] = {  # the title of a panel, and where a party's facts have its number and that of a guess
    LABELS: ("label leakage, AUC", [((name, "auc"), (name, "null")) for name in ATTACKS]),
    RECONSTRUCTION: ("reconstruction, R²", [(("r2",), ("null",))]),
    DISTANCE: ("distance correlation", [(("correlation",), ("null",))]),
}


def _leak_panel(cells: Sequence[CellResult], measure: str) -> Panel | None:
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
    return Panel(title, values, nulls, 1.0, _LEAK, texts)
