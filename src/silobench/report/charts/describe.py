"""Text alternatives of charts, computed from their data: what a reader who does not see the chart is told."""

import math
from collections.abc import Sequence

from silobench.report.charts.rulers import amount, number
from silobench.report.charts.values import (
    Axis,
    BarChart,
    Chart,
    DensityChart,
    DotChart,
    Heatmap,
    Line,
    LineChart,
    Panels,
    Pictures,
    ScatterChart,
    Value,
    pareto,
)

_MOST = 8  # series that are described one by one


def describe(chart: Chart) -> str:
    """Return what a chart shows, in a few sentences."""
    match chart:
        case Panels():
            return " ".join(f"{panel.title}: {describe(panel)}" for panel in chart.charts)
        case Heatmap():
            return _heatmap(chart)
        case DensityChart():
            parts = ", ".join(f"{name} {mass:.3f}" for name, mass in chart.parts)
            return f"Posterior of {chart.x.label}. Probabilities: {parts}."
        case Pictures():
            return " ".join(f"{title}: {len(pictures)} pictures." for title, pictures, _ in chart.rows)
        case LineChart():
            return _listed([_line(line, chart) for line in chart.lines], _levels(chart))
        case ScatterChart():
            return _scatter(chart)
        case BarChart():
            return _rows([(bars.name, bars.values) for bars in chart.bars], chart.groups, chart.y, _levels(chart))
        case DotChart():
            return _rows([(dots.name, dots.values) for dots in chart.dots], chart.rows, chart.x, _levels(chart))


def _listed(sentences: Sequence[str], ends: Sequence[str] = ()) -> str:
    more = [f"{len(sentences) - _MOST} more."] if len(sentences) > _MOST else []
    return " ".join((*sentences[:_MOST], *more, *ends)) or "No data."


def _levels(chart: LineChart | BarChart | DotChart | ScatterChart) -> list[str]:
    return [f"A line marks {level.name} at {number(level.value)}." for level in chart.levels]


def _line(line: Line, chart: LineChart) -> str:
    """Return where a line starts and ends, and its extremes where they are elsewhere."""
    points = [point for point in line.points if math.isfinite(point.x) and math.isfinite(point.y)]
    axis = chart.right if line.right and chart.right else chart.y
    if not points:
        return f"{line.name} has no values."
    first, last = points[0], points[-1]
    if len(points) == 1:
        return f"{line.name} is {amount(first.y, axis)} at {_at(first.x, chart.x)}."
    verb = "rises" if last.y > first.y else "falls" if last.y < first.y else "stays"
    way = f"{verb} from {number(first.y)} to" if verb != "stays" else "stays at"
    low, high = min(point.y for point in points), max(point.y for point in points)
    inner = [f"its smallest value is {number(low)}"] if low < min(first.y, last.y) else []
    inner += [f"its largest value is {number(high)}"] if high > max(first.y, last.y) else []
    more = f"; {' and '.join(inner)}" if inner else ""
    span = f"from {_at(first.x, chart.x)} to {_at(last.x, chart.x, bare=True)}"
    return f"{line.name} {way} {amount(last.y, axis)} {span}{more}."


def _at(x: float, axis: Axis, bare: bool = False) -> str:
    if axis.names and 0 <= round(x) < len(axis.names):
        return axis.names[round(x)]
    return number(x) if bare else f"{axis.title} {number(x)}"


def _rows(
    series: Sequence[tuple[str, Sequence[Value | None]]], rows: Sequence[str], axis: Axis, ends: Sequence[str]
) -> str:
    """Return the values of few rows, or the smallest and the largest of many."""
    sentences = []
    for name, values in series:
        known = [(row, value.mean) for row, value in zip(rows, values, strict=True) if value and _finite(value)]
        if not known:
            sentences.append(f"{name} has no values.")
        elif len(known) <= _MOST:
            sentences.append(f"{name}: {', '.join(f'{row} {amount(mean, axis)}' for row, mean in known)}.")
        else:
            low, high = (way(known, key=lambda pair: pair[1]) for way in (min, max))
            span = f"from {number(low[1])} ({low[0]}) to {amount(high[1], axis)} ({high[0]})"
            sentences.append(f"{name}: {span} in {len(known)} rows.")
    return _listed(sentences, ends)


def _finite(value: Value) -> bool:
    return math.isfinite(value.mean)


def _heatmap(chart: Heatmap) -> str:
    known = [
        (value, row, column)
        for row, line in zip(chart.rows, chart.values, strict=True)
        for column, value in zip(chart.columns, line, strict=True)
        if value is not None and math.isfinite(value)
    ]
    size = f"{len(chart.rows)} rows by {len(chart.columns)} columns."
    if not known:
        return f"{size} No data."
    low, high = min(known), max(known)
    smallest, largest = (f"{number(value)} ({row}, {column})" for value, row, column in (low, high))
    unit = f" {chart.unit}" if chart.unit else ""
    return f"{size} From {smallest} to {largest}{unit}."


def _scatter(chart: ScatterChart) -> str:
    known = [mark for mark in chart.marks if math.isfinite(mark.x) and math.isfinite(mark.y)]
    sentences = [f"{mark.name}: {amount(mark.x, chart.x)}, {amount(mark.y, chart.y)}." for mark in known]
    front = [mark.name for mark in pareto(known, chart.better)] if chart.better else []
    ends = [f"Pareto front: {', '.join(front[:_MOST])}{' and more' if len(front) > _MOST else ''}."] if front else []
    return _listed(sentences, [*ends, *_levels(chart)])
