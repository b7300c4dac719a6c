"""Heatmaps on a page. Fields of one shade are one path, so that a field costs a few letters."""

from collections.abc import Sequence
from typing import Any

from silobench.report.charts.page.axes import TOP
from silobench.report.charts.page.frame import Frame, framed
from silobench.report.charts.page.texts import LETTER, coordinate, names_below, names_left, percent, reach_left, text
from silobench.report.charts.rulers import number, rounded
from silobench.report.charts.shades import DARK, STEPS, Field, ends, fields, words
from silobench.report.charts.values import Heatmap
from silobench.report.escaping import escape

_MOST_NUMBERED = 400  # fields with a text in them
_MOST_COLUMNS = 24
_PHONE = 160  # pixels of a plot beside the names of rows on a phone
_TALL = 420  # pixels of the rows of a heatmap without texts, at most
_GAP = 0.3  # of a field, before columns that stand apart


def heatmap_markup(chart: Heatmap) -> str:
    """Return a heatmap as HTML."""
    every, columns = list(fields(chart)), len(chart.columns)
    is_numbered = len(chart.rows) * columns <= _MOST_NUMBERED and columns <= _MOST_COLUMNS
    longest = max((len(words(chart, field)) for field in every), default=1) if is_numbered else 0
    least = LETTER * longest + 6 if is_numbered else max(5.0, min(16.0, _PHONE / max(1, columns)))
    natural = max(44.0, least + 14) if is_numbered else max(6.0, min(26.0, 600 / max(1, columns)))
    tall = 26.0 if is_numbered else max(3.0, min(18.0, _TALL / max(1, len(chart.rows))))
    across, height = columns + (_GAP if chart.apart else 0), round(tall * len(chart.rows))
    starts = [place + (_GAP if place >= columns - chart.apart else 0) for place in range(columns)]
    left, left_width = names_left(chart.rows, tall, [TOP + tall * (row + 0.5) for row in range(len(chart.rows))])
    shares = [(start + 0.5) / across for start in starts]
    below, below_height = names_below(chart.columns, shares, TOP + height, least * columns)
    texts = _texts(chart, every, shares, tall) if is_numbered else []
    return framed(
        chart,
        Frame(
            "heatmap", height, [_blank(chart, starts), *_shades(every, starts), *_frames(chart, starts)], (), left,
            left_width, heads=[chart.row_title] if chart.row_title else [], above=texts, below=below,
            below_height=below_height, foot=chart.column_title, data=_data(chart, starts, across),
            natural=natural * across, least=least * across, view=f"0 0 {across:g} {max(1, len(chart.rows))}",
            tail=_scale(chart), below_reach=reach_left(chart.columns, shares, least * columns),
        ),
    )  # fmt: skip


def _blank(chart: Heatmap, starts: Sequence[float]) -> str:
    """Return the ground of all fields, which those without a number show."""
    parts = [(starts[0], len(starts) - chart.apart), (starts[-1] - chart.apart + 1, chart.apart)] if starts else []
    boxes = "".join(f"M{start:g} 0h{wide}v{len(chart.rows)}h{-wide}z" for start, wide in parts if wide)
    return f'<path class="blank" d="{boxes}"/>'


def _shades(every: Sequence[Field], starts: Sequence[float]) -> list[str]:
    """Return a path for each shade."""
    paths: dict[tuple[bool, float], list[str]] = {}
    for field in every:
        if field.shade:
            box = f"M{starts[field.column]:g} {field.row}h1v1h-1z"
            paths.setdefault((field.is_low, field.shade), []).append(box)
    return [
        f'<path class="{"heat low" if is_low else "heat"}" fill-opacity="{shade:g}" d="{"".join(boxes)}"/>'
        for (is_low, shade), boxes in sorted(paths.items())
    ]


def _frames(chart: Heatmap, starts: Sequence[float]) -> list[str]:
    if not chart.frames:
        return []
    return [f'<path class="own" d="{"".join(f"M{starts[column]:g} {row}h1v1h-1z" for row, column in chart.frames)}"/>']


def _texts(chart: Heatmap, every: Sequence[Field], shares: Sequence[float], tall: float) -> list[str]:
    return [
        text(
            percent(shares[field.column]), TOP + tall * (field.row + 0.5) + 4, label,
            "field over" if field.shade >= DARK else "field", "middle",
        )
        for field in every
        if (label := words(chart, field))
    ]  # fmt: skip


def _scale(chart: Heatmap) -> str:
    """Return the legend of shades: the numbers at its ends."""
    faint, strong = ends(chart)
    shades = [(place / STEPS, False) for place in range(2, STEPS + 1, 2)]
    if chart.scale == "diverging":
        shades = [(shade, True) for shade, _ in reversed(shades)] + shades
        faint = -strong
    boxes = "".join(
        f'<rect class="{"heat low" if is_low else "heat"}" x="{coordinate(9 * place)}" width="9" height="10" '
        f'fill-opacity="{shade:g}"/>'
        for place, (shade, is_low) in enumerate(shades)
    )
    unit = f" {chart.unit}" if chart.unit else ""
    return (
        f'<p class="chart-scale"><span>{number(faint)}</span><svg width="{9 * len(shades)}" height="10" '
        f'aria-hidden="true">{boxes}</svg><span>{number(strong)}{escape(unit)}</span></p>'
    )


def _data(chart: Heatmap, starts: Sequence[float], across: float) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "rows": list(chart.rows),
        "columns": list(chart.columns),
        "starts": [rounded(start / across) for start in starts],
        "unit": chart.unit,
        "row": chart.row_title,
        "column": chart.column_title,
    }
    if chart.details or chart.texts:
        return facts | {"texts": [list(row) for row in chart.details or chart.texts]}
    known = {(field.row, field.column): rounded(field.value) for field in fields(chart)}
    table = [[known.get((row, column)) for column in range(len(chart.columns))] for row in range(len(chart.rows))]
    return facts | {
        "values": [[int(one) if one is not None and one == int(one) else one for one in row] for row in table]
    }
