"""Line charts on a page."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from silobench.report.charts.page.axes import (
    TOP,
    WIDE,
    axis_data,
    levels_across,
    tick_reach,
    x_axis,
    x_of,
    y_axis,
    y_grid,
    y_of,
)
from silobench.report.charts.page.frame import Frame, Key, colour_class, framed
from silobench.report.charts.page.texts import LETTER, LINE, coordinate, path, reach_left, shortened, text
from silobench.report.charts.rulers import Ruler, ruler, thinned
from silobench.report.charts.values import Line, LineChart, Point
from silobench.report.escaping import escape

HEIGHT = 200
_SQUARE = 240  # pixels of a chart whose axes have the same unit
FEW = 14  # points of a line with a dot at each of them, and with bars in place of a band
_MOST_ENDS = 8  # lines with a name at their end


def line_markup(chart: LineChart) -> str:
    """Return a line chart as HTML."""
    height = _SQUARE if chart.diagonal else HEIGHT
    x, y, right = line_rulers(chart)
    drawn = [Line(line.name, thinned(line.points), line.colour, line.published, line.right) for line in chart.lines]
    marks, level_names = levels_across(chart.levels, y, height, _is_left_free(chart, x, y, height))
    if chart.diagonal:
        marks.append(f'<path class="level" d="M0 {height}L{WIDE} 0"/>')
    marks += [_series(place, line, x, right if line.right and right else y, height) for place, line in enumerate(drawn)]
    left, left_width = y_axis(y, height)
    ends, ends_width = ("", 0.0) if right or chart.diagonal else _ends(drawn, y, height)
    side, side_width = y_axis(right, height, is_right=True) if right else (ends, ends_width)
    below, below_height = x_axis(x, height)
    return framed(
        chart,
        Frame(
            "line", height, marks, _keys(drawn), left, left_width, side, side_width,
            "chart-right chart-y" if right else "chart-ends",
            [y.label, *([right.label] if right else [])], [y_grid(y, height)], level_names, below, below_height,
            x.label, _data(drawn, x, y, right), _SQUARE + 40 if chart.diagonal else None,
            below_reach=reach_left(chart.x.names, [x.share(at) for at, _ in x.ticks]),
            below_right=0.0 if right else tick_reach(x)[1] - ends_width,
        ),
    )  # fmt: skip


def line_rulers(chart: LineChart) -> tuple[Ruler, Ruler, Ruler | None]:
    """Return the rulers of x, y and the axis on the right."""
    points = [point for line in chart.lines for point in line.points]
    x = ruler(chart.x, [point.x for point in points])
    y = ruler(chart.y, [*_reach(chart, False), *(level.value for level in chart.levels)])
    right = ruler(chart.right, _reach(chart, True), from_zero=True) if chart.right else None
    return x, y, right


def _reach(chart: LineChart, is_right: bool) -> list[float]:
    """Return the values of the lines of one axis, with the ends of their spreads."""
    points = [
        point for line in chart.lines if (line.right and chart.right is not None) == is_right for point in line.points
    ]
    return [point.y + sign * (point.spread or 0.0) for point in points for sign in (-1, 0, 1)]


def _is_left_free(chart: LineChart, x: Ruler, y: Ruler, height: float) -> bool:
    """Whether the names of levels meet lines at the right end of the chart, and none at the left one."""
    near = [
        x.share(point.x) < 0.5
        for level in chart.levels
        for line in chart.lines
        for point in thinned(line.points)
        if math.isfinite(point.y)
        and not 0.4 < x.share(point.x) < 0.6
        and -8 < y_of(y, level.value, height) - y_of(y, point.y, height) < 20
    ]
    return bool(near) and not any(near)


def colour_of(line: Line, place: int) -> int:
    """Return a line's place in the palette."""
    return place if line.colour is None else line.colour


def _keys(lines: Sequence[Line]) -> list[Key]:
    if len(lines) < 2:
        return []
    return [
        Key(line.name, colour_of(line, place), "paper" if line.published else "line", place)
        for place, line in enumerate(lines)
    ]


def _series(place: int, line: Line, x: Ruler, y: Ruler, height: float) -> str:
    """Return the band or the bars of spreads, the line and its dots."""
    stretches = list(_stretches(line.points, x, y))
    colour, dash = colour_class(colour_of(line, place))
    spots = [(x_of(x, point.x), y_of(y, point.y, height), point) for part in stretches for point in part]
    has_dots = len(line.points) <= FEW or line.published or not any(len(part) > 1 for part in stretches)
    kind = "paper" if line.published else dash
    parts = [f'<g class="series {colour}" data-series="{place}"><title>{escape(line.name)}</title>']
    parts += _spreads(stretches, x, y, height, is_band=len(line.points) > FEW)
    if joined := "".join(_path(part, x, y, height) for part in stretches if len(part) > 1):
        parts.append(f'<path class="line {kind}" d="{joined}"/>')
    if has_dots and spots:
        places = "".join(f"M{coordinate(at)} {coordinate(above)}h.01" for at, above, _ in spots)
        parts.append(f'<path class="dots {dash}" d="{places}"/>')
        parts += [f'<path class="dots hollow" d="{places}"/>'] if line.published else []
    return "".join(parts) + "</g>"


def _stretches(points: Sequence[Point], x: Ruler, y: Ruler) -> Iterator[list[Point]]:
    """Yield runs of points without a gap: one that is not finite, or not positive on a logarithmic axis, is a gap."""
    part: list[Point] = []
    for point in points:
        if math.isfinite(point.y) and (not y.is_log or point.y > 0) and (not x.is_log or point.x > 0):
            part.append(point)
        elif part:
            yield part
            part = []
    if part:
        yield part


def _path(points: Sequence[Point], x: Ruler, y: Ruler, height: float) -> str:
    return path([(x_of(x, point.x), _cut(y_of(y, point.y, height), height)) for point in points])


def _cut(at: float, height: float) -> float:
    """Return a coordinate that is not far outside: a line leaves the chart, but does not cross the page."""
    return min(max(at, -4.0), height + 4.0)


def _spreads(stretches: Sequence[Sequence[Point]], x: Ruler, y: Ruler, height: float, is_band: bool) -> list[str]:
    band, bars = [], []
    for part in stretches:
        known = [point for point in part if point.spread and math.isfinite(point.spread)]
        if is_band and len(known) > 1:
            outline = [  # whole units are enough for the edge of a pale area
                (round(x_of(x, point.x)), round(_cut(_edge(point, sign, y, height), height)))
                for sign, side in ((1, known), (-1, known[::-1]))
                for point in side
            ]
            band.append(f"{path(outline)}z")
        else:
            bars += [
                f"M{coordinate(x_of(x, point.x))} {coordinate(_cut(_edge(point, -1, y, height), height))}"
                f"V{coordinate(_cut(_edge(point, 1, y, height), height))}"
                for point in known
            ]
    shapes = (("band", band), ("whisker", bars))
    return [f'<path class="{name}" d="{"".join(path)}"/>' for name, path in shapes if path]


def _edge(point: Point, sign: int, y: Ruler, height: float) -> float:
    value = point.y + sign * (point.spread or 0.0)
    return y_of(y, max(value, y.low) if y.is_log else value, height)


def _ends(lines: Sequence[Line], y: Ruler, height: float) -> tuple[str, float]:
    """Return the names of lines beside their ends, moved apart, and the width that they need; empty for many lines."""
    ends = []
    for place, line in enumerate(lines):
        known = [point for point in line.points if math.isfinite(point.y) and (not y.is_log or point.y > 0)]
        if known and not line.published:
            ends.append((min(max(y_of(y, known[-1].y, height), 0.0), height), place, line.name))
    if not 1 < len(ends) <= _MOST_ENDS:
        return "", 0.0
    ends.sort()
    places = apart([at for at, _, _ in ends], LINE - 1, height)
    names = [
        text(7, TOP + at + 4, shortened(name, 18), f"end {colour_class(colour_of(lines[place], place))[0]}").replace(
            "<text", f'<text data-of="{place}"', 1
        )
        for at, (_, place, name) in zip(places, ends, strict=True)
    ]
    return "".join(names), round(LETTER * max(len(shortened(name, 18)) for _, _, name in ends) + 10)


def apart(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Return sorted places moved apart as little as needed, inside of the height where there is room.

    >>> apart([10, 12, 50], 10, 100), apart([95, 99], 10, 100)
    ([6.0, 16.0, 50.0], [90.0, 100.0])
    """
    groups: list[tuple[float, int]] = []  # the sum of the places of texts that touch, and their number

    def middle(group: tuple[float, int]) -> float:
        half = gap * (group[1] - 1) / 2
        return min(max(group[0] / group[1], half), max(half, height - half))

    for place in places:
        groups.append((float(place), 1))
        while len(groups) > 1:
            above, below = groups[-2:]
            if middle(below) - middle(above) >= gap * (above[1] + below[1]) / 2:
                break
            groups[-2:] = [(above[0] + below[0], above[1] + below[1])]
    starts = [(middle(group) - gap * (group[1] - 1) / 2, group[1]) for group in groups]
    return [start + gap * place for start, count in starts for place in range(count)]


def _data(lines: Sequence[Line], x: Ruler, y: Ruler, right: Ruler | None) -> dict[str, Any]:
    """Return the data for the script: x once if all lines share it; None where a line has no value."""
    columns = [[x.shown(point.x) for point in line.points] for line in lines]
    shared = all(column == columns[0] for column in columns)
    series = []
    for line, column in zip(lines, columns, strict=True):
        scale = right if line.right and right else y
        facts: dict[str, Any] = {
            "name": line.name,
            "y": [scale.shown(point.y) if math.isfinite(point.y) else None for point in line.points],
        }
        if any(point.spread for point in line.points):
            facts["s"] = [
                scale.shown(point.spread, 2) if point.spread and math.isfinite(point.spread) else 0
                for point in line.points
            ]
        facts |= {} if shared else {"x": column}
        facts |= {"right": 1} if line.right and right else {}
        series.append(facts)
    data = {"axis": axis_data(x), "value": axis_data(y), "series": series}
    return (
        data | ({"x": columns[0] if columns else []} if shared else {}) | ({"right": axis_data(right)} if right else {})
    )
