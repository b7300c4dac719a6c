"""Line charts, scatter charts and posteriors in files."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from silobench.report.charts.files.style import (
    INK,
    PALETTE,
    SOFT,
    WIDTH,
    Legend,
    colour,
    dash,
    draw_levels,
    figure_of,
    marker,
    set_axis,
    set_grid,
)
from silobench.report.charts.page.density import density_ruler, finite_points
from silobench.report.charts.page.lines import FEW, colour_of, line_rulers
from silobench.report.charts.page.scatter import is_drawn, named_marks, scatter_rulers
from silobench.report.charts.page.texts import fit_below, shortened
from silobench.report.charts.rulers import thinned
from silobench.report.charts.values import DensityChart, Line, LineChart, ScatterChart, pareto


def line_figure(chart: LineChart) -> Figure:
    """Return a figure of a line chart."""
    legend = Legend.of([line.name for line in chart.lines] if len(chart.lines) > 1 else [], WIDTH)
    turned = not fit_below(chart.x.names)
    figure = figure_of(*((3.0, 2.8 + legend.height) if chart.diagonal else (WIDTH, 2.5 + legend.height + 0.5 * turned)))
    axes = figure.add_subplot()
    x, y, right = line_rulers(chart)
    other = axes.twinx() if right else axes
    handles = []
    for place, line in enumerate(chart.lines):
        handles.append(_draw_line(other if line.right and right else axes, line, place))
    set_axis(axes, "x", x, turned)
    set_axis(axes, "y", y)
    if right:
        set_axis(other, "y", right)
        other.spines["right"].set_visible(True)
    if chart.diagonal:
        axes.axline((0, 0), slope=1, color=SOFT, linewidth=0.9, linestyle=":")
        axes.set_aspect("equal")
    set_grid(axes, "y")
    draw_levels(axes, chart.levels)
    legend.draw(figure, handles if legend.names else [])
    return figure


def _draw_line(axes: Axes, line: Line, place: int) -> Any:
    """Draw a line with a band, or with bars if it has few points."""
    points, shade = thinned(line.points), colour_of(line, place)
    x = [point.x for point in points]
    y = [point.y if math.isfinite(point.y) else math.nan for point in points]
    spreads = [point.spread or 0.0 for point in points]
    look: dict[str, Any] = {
        "color": colour(shade),
        "linestyle": (0, (3, 2)) if line.published else dash(shade),
        "linewidth": 1.3,
        "marker": ("s" if line.right else "o") if len(points) <= FEW or line.published else "",
        "markersize": 3.5,
        "markerfacecolor": "white" if line.published else colour(shade),
    }
    if len(points) <= FEW:
        return axes.errorbar(x, y, yerr=spreads if any(spreads) else None, elinewidth=0.8, capsize=2, **look)
    if any(spreads):
        low, high = ([at + sign * by for at, by in zip(y, spreads, strict=True)] for sign in (-1, 1))
        axes.fill_between(x, low, high, color=colour(shade), alpha=0.16, linewidth=0)
    return axes.plot(x, y, **look)[0]


def scatter_figure(chart: ScatterChart) -> Figure:
    """Return a figure of a scatter chart, with names beside few marks."""
    groups = chart.groups
    legend = Legend.of(list(groups) if len(groups) > 1 else [], WIDTH)
    turned = not fit_below(chart.x.names)
    figure = figure_of(WIDTH, 2.9 + legend.height + 0.5 * turned)
    axes = figure.add_subplot()
    x, y = scatter_rulers(chart)
    handles = []
    for group, shade in groups.items():
        marks = [mark for mark in chart.marks if mark.group == group]
        handles.append(
            axes.errorbar(
                [mark.x for mark in marks], [mark.y for mark in marks], xerr=[mark.x_spread or 0.0 for mark in marks],
                yerr=[mark.y_spread or 0.0 for mark in marks], color=colour(shade), linestyle="",
                marker=marker(shade), markersize=4, elinewidth=0.8,
            )
        )  # fmt: skip
    set_axis(axes, "x", x, turned)
    set_axis(axes, "y", y)
    if chart.better:
        best = pareto([mark for mark in chart.marks if not x.is_log or mark.x > 0], chart.better)
        xs, ys = [mark.x for mark in best], [mark.y for mark in best]
        lower = chart.better[0] == "lower"
        xs, ys = ([*xs, x.high], [*ys, *ys[-1:]]) if lower else ([x.low, *xs], [*ys[:1], *ys])
        if best:
            axes.step(xs, ys, where="post" if lower else "pre", color=SOFT, linewidth=0.9, linestyle="--", zorder=0)
    for mark, (right, down, anchor) in named_marks([mark for mark in chart.marks if is_drawn(mark, chart)], x, y):
        axes.annotate(
            shortened(mark.name), (mark.x, mark.y), xytext=(right / 2, -down / 2), textcoords="offset points",
            fontsize=6.5, ha={"": "left", "end": "right", "middle": "center"}[anchor],
        )  # fmt: skip
    set_grid(axes, "both")
    draw_levels(axes, chart.levels)
    legend.draw(figure, handles)
    return figure


def density_figure(chart: DensityChart) -> Figure:
    """Return a figure of a posterior."""
    figure = figure_of(3.6, 2.0)
    draw_density(figure.add_subplot(), chart)
    return figure


def draw_density(axes: Axes, chart: DensityChart) -> None:
    """Draw the density, the region of practical equivalence, and the probabilities of its three parts."""
    points, (low, high) = finite_points(chart), chart.rope
    ends = ((-math.inf, low), (low, high), (high, math.inf))
    for place, ((start, end), shade, (name, mass)) in enumerate(zip(ends, chart.colours, chart.parts, strict=True)):
        part = [point for point in points if start <= point.x <= end]
        axes.fill_between(
            [point.x for point in part], [point.y for point in part], color=colour(shade), alpha=0.4, lw=0
        )
        align = ("left", "center", "right")[place]
        words = f"p({name}) = {mass:.3f}"
        axes.text(place / 2, 1.02, words, color=colour(shade), ha=align, va="bottom", transform=axes.transAxes)
    if points:
        axes.plot([point.x for point in points], [point.y for point in points], color=INK, linewidth=1.2)
        axes.set_ylim(0, 1.08 * max(point.y for point in points) or 1.0)
    if chart.atom is not None:
        axes.axvline(chart.atom, color=INK, linewidth=1.6)
    for edge in chart.rope:
        axes.axvline(edge, color=PALETTE[3], linewidth=1.3)
    set_axis(axes, "x", density_ruler(chart))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
