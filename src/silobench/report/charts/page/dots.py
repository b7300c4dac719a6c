"""Dot charts on a page: a band per row, and in it a line per method, so that equal values do not hide each other."""

import math
from typing import Any

from silobench.report.charts.page.axes import TOP, WIDE, axis_data, narrow_ruler, tick_reach, x_axis, x_grid, x_of
from silobench.report.charts.page.bars import lying_levels
from silobench.report.charts.page.frame import Frame, Key, colour_class, framed
from silobench.report.charts.page.texts import LINE, coordinate, names_left, wrapped
from silobench.report.charts.rulers import Ruler
from silobench.report.charts.values import DotChart, Dots
from silobench.report.escaping import escape

_DOT = 9.0  # pixels from a dot to the one below it
_FEW = 20  # rows whose names may have several lines
_TALL = 900  # pixels of all rows, beyond which dots overlap a little


def dot_markup(chart: DotChart) -> str:
    """Return a dot chart as HTML."""
    x, count = dot_ruler(chart), max(1, len(chart.rows))
    step = max(1.5, min(_DOT, _TALL / (count * max(1, len(chart.dots)))))
    lines = max((len(wrapped(name)) for name in chart.rows), default=1) if count <= _FEW else 1
    band = max(18.0 if count <= 50 else 10.0, 4.0 + LINE * lines, step * len(chart.dots) + 7)
    height = round(band * len(chart.rows))
    marks = [f'<path class="stripe" d="{_stripes(count, band)}"/>'] if count > 1 else []
    levels, level_names = lying_levels(chart.levels, x, height)
    marks += levels
    for place, dots in enumerate(chart.dots):
        below_middle = step * (place - (len(chart.dots) - 1) / 2)
        marks.append(_series(place, dots, x, [band * (row + 0.5) + below_middle for row in range(len(chart.rows))]))
    left, left_width = names_left(chart.rows, band, [TOP + band * (row + 0.5) for row in range(len(chart.rows))])
    below, below_height = x_axis(x, height)
    keys = [Key(dots.name, colour_of(dots, place), "dot", place) for place, dots in enumerate(chart.dots)]
    return framed(
        chart,
        Frame(
            "dot", height, marks, keys if len(keys) > 1 else (), left, left_width, grid=[x_grid(x, height)],
            heads=[chart.row_title] if chart.row_title else [], above=level_names, below=below,
            below_height=below_height, foot=x.label, data=_data(chart, x), below_right=tick_reach(x)[1],
        ),
    )  # fmt: skip


def dot_ruler(chart: DotChart) -> Ruler:
    """Return the ruler of the values, with room for spreads."""
    known = [value for dots in chart.dots for value in dots.values if value]
    reach = [value.mean + sign * (value.spread or 0.0) for value in known for sign in (-1, 0, 1)]
    return narrow_ruler(chart.x, [*reach, *(level.value for level in chart.levels)])


def colour_of(dots: Dots, place: int) -> int:
    """Return the place of dots in the palette."""
    return place if dots.colour is None else dots.colour


def _stripes(count: int, band: float) -> str:
    """Return every other band."""
    return "".join(f"M0 {coordinate(band * row)}h{WIDE}v{coordinate(band)}h{-WIDE}z" for row in range(1, count, 2))


def _series(place: int, dots: Dots, x: Ruler, middles: list[float]) -> str:
    spots, whiskers = [], []
    for value, middle in zip(dots.values, middles, strict=True):
        if value is None or not math.isfinite(value.mean) or (x.is_log and value.mean <= 0):
            continue
        y = coordinate(middle)
        spots.append(f"M{coordinate(x_of(x, value.mean))} {y}h.01")
        if value.spread and math.isfinite(value.spread):
            ends = [x_of(x, max(value.mean + sign * value.spread, x.low)) for sign in (-1, 1)]
            whiskers.append(f"M{coordinate(ends[0])} {y}H{coordinate(ends[1])}")
    colour, dash = colour_class(colour_of(dots, place))
    lines = f'<path class="whisker" d="{"".join(whiskers)}"/>' if whiskers else ""
    body = f'<path class="dots large {dash}" d="{"".join(spots)}"/>' if spots else ""
    title = f"<title>{escape(dots.name)}</title>"
    return f'<g class="series {colour}" data-series="{place}">{title}{lines}{body}</g>'


def _data(chart: DotChart, x: Ruler) -> dict[str, Any]:
    series = []
    for dots in chart.dots:
        values = [None if value is None or not math.isfinite(value.mean) else value for value in dots.values]
        facts: dict[str, Any] = {"name": dots.name, "y": [value and x.shown(value.mean) for value in values]}
        spreads = [value.spread if value and value.spread and math.isfinite(value.spread) else 0.0 for value in values]
        if any(spreads):
            facts["s"] = [x.shown(spread, 2) for spread in spreads]
        series.append(facts)
    names = {"title": chart.row_title, "names": list(chart.rows), "low": -0.5, "high": len(chart.rows) - 0.5}
    return {"axis": names, "value": axis_data(x), "x": list(range(len(chart.rows))), "series": series}
