"""Bar charts, dot charts, heatmaps and pictures in files."""

import base64
import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from silobench.report.charts.files.style import (
    HEAT,
    HEAT_LOW,
    INK,
    SOFT,
    WIDTH,
    Legend,
    colour,
    draw_levels,
    figure_of,
    marker,
    set_axis,
    set_grid,
    strength,
)
from silobench.report.charts.page.bars import bar_ruler, boxes, is_lying
from silobench.report.charts.page.bars import colour_of as bar_colour
from silobench.report.charts.page.dots import colour_of as dot_colour
from silobench.report.charts.page.dots import dot_ruler
from silobench.report.charts.shades import DARK, fields, words
from silobench.report.charts.values import BarChart, DotChart, Heatmap, Pictures

_PNG = "data:image/png;base64,"
_MOST_LABELLED = 60  # rows or columns with a name
_TALLEST = 12.0  # inches
_LINE = 0.14  # inches of a line of a name
_GROUP_LETTERS, _ROW_LETTERS = 30, 26  # of a line of the name of a group of bars, and of a row of dots


def bar_figure(chart: BarChart) -> Figure:
    """Return a figure of bars, upright or lying as on the page."""
    lying = is_lying(chart)
    legend = Legend.of([bars.name for bars in chart.bars] if len(chart.bars) > 1 else [], WIDTH)
    each = max(0.16 * (1 if chart.stacked else len(chart.bars)) + 0.1, _name_height(chart.groups, _GROUP_LETTERS))
    size = (
        (WIDTH + 0.8, min(_TALLEST, 0.7 + each * len(chart.groups)) + legend.height)
        if lying
        else (WIDTH, 2.5 + legend.height)
    )
    figure = figure_of(*size)
    axes = figure.add_subplot()
    draw_bars(axes, chart)
    shades = [bar_colour(bars, place) for place, bars in enumerate(chart.bars)]
    patches = [axes.bar([0], [0], color=(colour(shade), strength(shade))) for shade in shades] if legend.names else []
    legend.draw(figure, patches)
    return figure


def _name_height(names: Sequence[str], letters: int) -> float:
    """Return the inches that the longest name needs, or 0 where so many rows have no names."""
    lines = max((len(textwrap.wrap(name, letters)) for name in names), default=1)
    return _LINE * lines if len(names) <= _MOST_LABELLED else 0.0


def draw_bars(axes: Axes, chart: BarChart) -> None:
    """Draw the bars of a chart, with whiskers, ticks and texts."""
    lying = is_lying(chart)
    for box in boxes(chart):
        at, shade = box.group + box.start + box.share / 2 - 0.5, bar_colour(chart.bars[box.series], box.series)
        look: dict[str, Any] = {"color": (colour(shade), strength(shade)), "edgecolor": "white", "linewidth": 0.4}
        spread: dict[str, Any] = {"error_kw": {"elinewidth": 0.8, "capsize": 2, "ecolor": INK}}
        if box.spread:
            spread["xerr" if lying else "yerr"] = box.spread
        if lying:
            axes.barh(at, box.high - box.low, 0.94 * box.share, left=box.low, **look, **spread)
        else:
            axes.bar(at, box.high - box.low, 0.94 * box.share, bottom=box.low, **look, **spread)
        if box.mark is not None:
            line = axes.vlines if lying else axes.hlines
            line(box.mark, at - box.share / 2, at + box.share / 2, color=INK, linewidth=1.4)
        if box.words and lying:
            axes.annotate(
                box.words, (max(box.high, box.mark or box.high), at), xytext=(3, 0), textcoords="offset points",
                va="center", fontsize=6.5,
            )  # fmt: skip
    set_axis(axes, "x" if lying else "y", bar_ruler(chart))
    names = (
        [textwrap.fill(group, _GROUP_LETTERS) for group in chart.groups] if len(chart.groups) <= _MOST_LABELLED else []
    )
    if lying:
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(chart.groups) - 0.5, -0.5)
        axes.set_ylabel(chart.group_title)
    else:
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-0.5, len(chart.groups) - 0.5)
        axes.set_xlabel(chart.group_title)
    set_grid(axes, "x" if lying else "y")
    draw_levels(axes, chart.levels, is_upright=lying)


def dot_figure(chart: DotChart) -> Figure:
    """Return a figure of dots, a band per row and in it a line per method."""
    legend = Legend.of([dots.name for dots in chart.dots] if len(chart.dots) > 1 else [], WIDTH)
    step = 0.7 / max(1, len(chart.dots))
    each = max(0.18, 0.08 * len(chart.dots), _name_height(chart.rows, _ROW_LETTERS))
    figure = figure_of(WIDTH, min(_TALLEST, 0.7 + each * len(chart.rows)) + legend.height)
    axes, handles = figure.add_subplot(), []
    for place, dots in enumerate(chart.dots):
        shade = dot_colour(dots, place)
        known = [(row, value) for row, value in enumerate(dots.values) if value and math.isfinite(value.mean)]
        y = [row + step * (place - (len(chart.dots) - 1) / 2) for row, _ in known]
        spreads = [value.spread or 0.0 for _, value in known]
        handles.append(
            axes.errorbar(
                [value.mean for _, value in known], y, xerr=spreads if any(spreads) else None,
                color=colour(shade), linestyle="", marker=marker(shade), markersize=3.5, elinewidth=0.8,
            )
        )  # fmt: skip
    for row in range(1, len(chart.rows), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f5f7f9", zorder=0)
    set_axis(axes, "x", dot_ruler(chart))
    names = [textwrap.fill(row, _ROW_LETTERS) for row in chart.rows] if len(chart.rows) <= _MOST_LABELLED else []
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(chart.rows) - 0.5, -0.5)
    axes.set_ylabel(chart.row_title)
    set_grid(axes, "x")
    draw_levels(axes, chart.levels, is_upright=True)
    legend.draw(figure, handles if legend.names else [])
    return figure


def heatmap_figure(chart: Heatmap) -> Figure:
    """Return a figure of a heatmap, with a text in each field where there are few."""
    rows, columns = len(chart.rows), len(chart.columns)
    every = list(fields(chart))
    has_texts = rows * columns <= 400
    longest = max((len(words(chart, field)) for field in every), default=1) if has_texts else 1
    wide = max(0.32, 0.055 * longest + 0.08) if has_texts else 0.14
    names = max(map(len, chart.rows), default=0)
    figure = figure_of(
        min(_TALLEST, 1.3 + 0.05 * names + wide * columns), min(_TALLEST, 1.0 + (0.22 if has_texts else 0.12) * rows)
    )
    axes = figure.add_subplot()
    shades = [[math.nan] * columns for _ in range(rows)]
    for field in every:
        shades[field.row][field.column] = -field.shade if field.is_low else field.shade
    is_diverging = chart.scale == "diverging"
    ends = [HEAT_LOW, "#ffffff", HEAT] if is_diverging else ["#ffffff", HEAT]
    shading = LinearSegmentedColormap.from_list("silobench", ends)
    axes.imshow(shades, cmap=shading, aspect="auto", vmin=-1 if is_diverging else 0, vmax=1)
    for field in every if has_texts else ():
        ink = "white" if field.shade >= DARK else "black"
        label = words(chart, field)
        axes.text(field.column, field.row, label, ha="center", va="center", fontsize=5.5, color=ink)
    for row, column in chart.frames:
        axes.add_patch(_frame(row, column))
    turned = columns * wide < 0.06 * sum(map(len, chart.columns)) + 0.1 * columns
    labels = chart.columns if columns <= _MOST_LABELLED else []
    turn: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    axes.set_xticks(range(len(labels)), labels, **turn)
    axes.set_yticks(range(rows) if rows <= _MOST_LABELLED else [], chart.rows if rows <= _MOST_LABELLED else [])
    axes.tick_params(length=0)
    axes.set_xlabel(chart.column_title)
    axes.set_ylabel(chart.row_title)
    if chart.unit:
        axes.set_title(chart.unit, fontsize=7, loc="right", color=SOFT)
    return figure


def _frame(row: int, column: int) -> Any:
    return Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, edgecolor=INK, linewidth=1.2)


def pictures_figure(chart: Pictures) -> Figure:
    """Return a figure of lines of pictures."""
    most = max((len(addresses) for _, addresses, _ in chart.rows), default=1) or 1
    figure = figure_of(max(3.0, 0.9 * most), 1.25 * max(1, len(chart.rows)))
    grid = figure.add_gridspec(max(1, len(chart.rows)), most)
    for row, (title, addresses, texts) in enumerate(chart.rows):
        for column, address in enumerate(addresses):
            axes = figure.add_subplot(grid[row, column])
            axes.set(xticks=[], yticks=[])
            if address.startswith(_PNG):
                with Image.open(io.BytesIO(base64.b64decode(address.removeprefix(_PNG)))) as picture:
                    axes.imshow(picture.convert("RGB"), interpolation="nearest")
            if texts:
                axes.set_xlabel(texts[column], fontsize=6)
            if column == 0:
                axes.set_title(textwrap.fill(title, 22 * most), fontsize=6.5, loc="left")
    return figure
