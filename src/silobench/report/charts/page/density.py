"""Posteriors on a page: the density, with the region of practical equivalence between two lines."""

import math
from collections.abc import Sequence

from silobench.report.charts.page.axes import tick_reach, x_axis, x_of
from silobench.report.charts.page.frame import Frame, Key, colour_class, framed
from silobench.report.charts.page.texts import coordinate, path
from silobench.report.charts.rulers import Ruler, ruler
from silobench.report.charts.values import DensityChart, Point

_HEIGHT = 130


def density_markup(chart: DensityChart) -> str:
    """Return a posterior as HTML; its legend has the probabilities of the three parts."""
    x, points = density_ruler(chart), list(finite_points(chart))
    top = max((point.y for point in points), default=1.0) or 1.0
    places = [(point.x, x_of(x, point.x), _HEIGHT * (1 - point.y / (1.06 * top))) for point in points]
    marks = []
    low, high = chart.rope
    for colour, (start, end) in zip(chart.colours, ((-math.inf, low), (low, high), (high, math.inf)), strict=True):
        part = [(at, above) for value, at, above in places if start <= value <= end]
        if len(part) > 1:
            outline = path([(part[0][0], _HEIGHT), *part, (part[-1][0], _HEIGHT)])
            marks.append(f'<path class="area {colour_class(colour)[0]}" d="{outline}z"/>')
    if places:
        marks.append(f'<path class="line ink" d="{path([(at, above) for _, at, above in places])}"/>')
    marks += [f'<path class="rope" d="M{coordinate(x_of(x, edge))} 0V{_HEIGHT}"/>' for edge in chart.rope]
    if chart.atom is not None:
        marks.append(f'<path class="line ink" d="M{coordinate(x_of(x, chart.atom))} 0V{_HEIGHT}"/>')
    below, below_height = x_axis(x, _HEIGHT)
    left, right = tick_reach(x)
    return framed(
        chart,
        Frame(
            "density", _HEIGHT, marks, density_keys(chart), below=below, below_height=below_height, foot=x.label,
            below_reach=left, below_right=right,
        ),
    )  # fmt: skip


def density_keys(chart: DensityChart) -> Sequence[Key]:
    """Return the legend: the probabilities of the parts, from left to right."""
    return [
        Key(f"p({name}) = {mass:.3f}", colour, "box")
        for (name, mass), colour in zip(chart.parts, chart.colours, strict=True)
    ]


def density_ruler(chart: DensityChart) -> Ruler:
    """Return the ruler of the differences, which ends where the points end."""
    values = [*(point.x for point in finite_points(chart)), *chart.rope, *([] if chart.atom is None else [chart.atom])]
    low, high = min(values), max(values)
    margin = 0.0 if len(chart.points) > 1 else 0.1 * (high - low) or 1.0
    axis = chart.x
    return ruler(type(axis)(axis.title, axis.unit, axis.scale, axis.names, low - margin, high + margin), values)


def finite_points(chart: DensityChart) -> list[Point]:
    """Return the points that can be drawn."""
    return [point for point in chart.points if math.isfinite(point.x) and math.isfinite(point.y)]
