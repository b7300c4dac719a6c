"""Figures by matplotlib, as files or as SVG text. The same data give the same bytes."""

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import matplotlib

matplotlib.use("Agg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from silobench.errors import ConfigError
from silobench.tasks.metrics import ACCURACY, Metric

STYLE: Any = {
    "text.parse_math": False,
    "svg.hashsalt": "silobench",
    "svg.fonttype": "none",
    "font.size": 8,
    "font.family": "sans-serif",
}
COLOURS = ["#1b6ca8", "#d1495b", "#2e933c", "#8d5fd3", "#e09f3e", "#5c6b73", "#00a6a6", "#9c6644"]
_LINES = ["-", "--", ":"]
_LEGEND_COLUMNS = 3  # at most
_LEGEND_SIZE = 7  # points of its letters
_LETTER, _MARK, _LEGEND_LINE = (
    0.06,
    0.5,
    0.15,
)  # inches of a letter, of a line's mark and of a line of text, in a legend
_MOST_LABELLED = 30
_MOST_LETTERS = 45  # below an axis
_FAR = 10  # times the distance from the best score to the median: scores beyond are cut off

Point: TypeAlias = tuple[float, float, float | None]  # x, y, and the standard deviation of y where there is one


@dataclass(frozen=True)
class Line:
    """Points with error bars, joined by a line."""

    name: str
    points: Sequence[Point]
    colour: int
    paper: bool = False  # published numbers: dashed, with hollow points
    right: bool = False  # uses the axis on the right


@dataclass(frozen=True)
class Bars:
    """One bar per group; None where a group has no bar."""

    name: str
    heights: Sequence[tuple[float, float | None] | None]  # and their standard deviation, where there is one
    colour: int


@dataclass(frozen=True)
class Legend:
    """The legend above a figure: names in as many columns as fit into its width, and long names on several lines."""

    names: Sequence[str]  # with line breaks
    columns: int
    width: float  # inches of the figure

    @classmethod
    def of(cls, names: Sequence[str], width: float) -> "Legend":
        """Return the legend of a figure.

        >>> Legend.of(["fedavg", "solo"], 3.4).columns, Legend.of(["split(noise(deviation=1.0, at=both))"], 3.4).columns
        (2, 1)
        """
        longest = max(map(len, names))
        fit = int(width / (_MARK + _LETTER * longest))
        wrapped = [textwrap.fill(name, int((width - _MARK) / _LETTER)) for name in names]
        return cls(wrapped, max(1, min(fit, _LEGEND_COLUMNS, len(names))), width)

    @property
    def height(self) -> float:
        """The height in inches that the figure needs for it."""
        each = -(-len(self.names) // self.columns)  # names below each other
        columns = [self.names[start : start + each] for start in range(0, len(self.names), each)]
        return _LEGEND_LINE * max(sum(name.count("\n") + 1 for name in column) for column in columns)

    def draw(self, figure: Figure, drawn: Sequence[Any]) -> None:
        """Add it to a figure; `drawn` has the line or the bars of each name."""
        figure.legend(
            drawn, self.names, loc="outside upper center", ncols=self.columns, frameon=False, fontsize=_LEGEND_SIZE
        )


def plot_partition(
    counts: Sequence[Sequence[int]],
    path: Path,
    title: str,
    parties: Sequence[str],
    classes: Sequence[str],
    label: str = "class",
) -> None:
    """Write a heatmap of rows by party and class, or bin, as PNG or SVG by the ending of the path."""
    with matplotlib.rc_context(STYLE):
        write_figure(_partition_figure(counts, title, parties, classes, label), path)


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG by the ending of the path."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigError(f"{path} must end in .png or .svg: the ending selects the format.")
    try:
        figure.savefig(path, dpi=150, metadata=_metadata(path.suffix))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): choose another place.") from error


def partition_svg(
    counts: Sequence[Sequence[int]], parties: Sequence[str], classes: Sequence[str], label: str = "class"
) -> str:
    """Return a heatmap of rows by party and class, or by party and bin of a numeric label."""
    with matplotlib.rc_context(STYLE):
        return svg_of(_partition_figure(counts, "", parties, classes, label))


def curves_svg(
    curves: Mapping[str, Sequence[tuple[int, float]]], metric: Metric = ACCURACY, constant: float | None = None
) -> str:
    """Return a figure of a metric by round, with one line per algorithm.

    A dotted line shows the score of a constant answer, if it is stated.
    """
    with matplotlib.rc_context(STYLE):
        legend = Legend.of(list(curves), 3.4)
        figure = Figure(figsize=(legend.width, 2.2 + legend.height), layout="constrained")
        axes = figure.add_subplot()
        drawn: list[Any] = []
        for place, curve in enumerate(curves.values()):
            colour = COLOURS[place % len(COLOURS)]
            style = _LINES[place // len(COLOURS) % len(_LINES)]
            finite = [(at, metric.factor * score if math.isfinite(score) else math.nan) for at, score in curve]
            drawn += axes.plot(*zip(*finite, strict=True), color=colour, linestyle=style, linewidth=1.4)
        if constant is not None:
            axes.axhline(metric.factor * constant, color=COLOURS[5], linewidth=0.9, linestyle=":")
        axes.set_xlabel("round")
        axes.set_ylabel(f"test {metric.heading}")
        low, high = _limits(metric, [score for curve in curves.values() for _, score in curve], constant)
        axes.set_ylim(metric.factor * low, metric.factor * high)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        legend.draw(figure, drawn)
        return svg_of(figure)


def _limits(metric: Metric, scores: Sequence[float], constant: float | None) -> tuple[float, float]:
    """Return the range of an axis: from 0 to 1 for shares, else all scores but those far worse than most."""
    finite = [score for score in (*scores, constant) if score is not None and math.isfinite(score)]
    if metric.is_share or not finite:
        return 0, 1.02
    best, worst = metric.best(finite), metric.worst(finite)
    reach = max(_FAR * abs(median(finite) - best), abs(best - constant) if constant is not None else 0.0)
    limit = best - reach if metric.higher_is_better else best + reach
    worst = metric.best([worst, limit]) if reach else worst
    low, high = sorted((best, worst))
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return (0.0 if low >= 0 and not metric.higher_is_better else low - margin), high + margin


def lines_svg(lines: Sequence[Line], x: str, y: str, right: str = "") -> str:
    """Return a figure of any number against another; `right` names a second axis for lines that use it."""
    with matplotlib.rc_context(STYLE):
        legend = Legend.of([line.name for line in lines], 4.2)
        figure = Figure(figsize=(legend.width, 2.5 + legend.height), layout="constrained")
        axes = figure.add_subplot()
        other = axes.twinx() if right else axes
        drawn = [_draw(other if line.right else axes, line) for line in lines]
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if x == "round":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.25, linewidth=0.5)
        for side in {id(axes): axes, id(other): other}.values():
            side.spines["top"].set_visible(False)
            side.spines["right"].set_visible(bool(right))
        if right:
            other.set_ylabel(right)
            other.set_ylim(bottom=0)
        legend.draw(figure, drawn)
        return svg_of(figure)


def bars_svg(groups: Sequence[str], bars: Sequence[Bars], y: str, level: float | None = None) -> str:
    """Return a figure of bars side by side, one of each kind per group; `level` draws a horizontal line."""
    with matplotlib.rc_context(STYLE):
        legend = Legend.of([kind.name for kind in bars], min(9.0, max(4.2, 0.2 * len(groups) * len(bars))))
        figure = Figure(figsize=(legend.width, 2.5 + legend.height), layout="constrained")
        axes = figure.add_subplot()
        width = 0.8 / len(bars)
        drawn: list[Any] = []
        for place, kind in enumerate(bars):
            known = [(at, height) for at, height in enumerate(kind.heights) if height is not None]
            x = [at + width * (place - (len(bars) - 1) / 2) for at, _ in known]
            colour = COLOURS[kind.colour % len(COLOURS)]
            spreads = [spread or 0.0 for _, (_, spread) in known]
            error, bars_of = {"elinewidth": 0.8, "capsize": 2}, [height for _, (height, _) in known]
            drawn.append(
                axes.bar(x, bars_of, width, yerr=spreads if any(spreads) else None, color=colour, error_kw=error)
            )
        if level is not None:
            axes.axhline(level, color=COLOURS[5], linewidth=0.9, linestyle=":")
        few = len(groups) <= _MOST_LABELLED
        turn: dict[str, Any] = {"rotation": 35, "ha": "right"} if sum(map(len, groups)) > _MOST_LETTERS else {}
        axes.set_xticks(range(len(groups)) if few else [], groups if few else [], **turn)
        axes.set_ylabel(y)
        axes.grid(alpha=0.25, linewidth=0.5, axis="y")
        axes.spines[["top", "right"]].set_visible(False)
        legend.draw(figure, drawn)
        return svg_of(figure)


def _draw(axes: Axes, line: Line) -> Any:
    colour = COLOURS[line.colour % len(COLOURS)]
    x, y, spreads = zip(*line.points, strict=True)
    marker = "" if len(x) > _MOST_LABELLED else "s" if line.right else "o"
    return axes.errorbar(
        x, y, yerr=[spread or 0.0 for spread in spreads], errorevery=1 + len(x) // _MOST_LABELLED, color=colour,
        linestyle="--" if line.paper else "-", linewidth=1.3, elinewidth=0.8, capsize=2, marker=marker, markersize=3.5,
        markerfacecolor="white" if line.paper else colour,
    )  # fmt: skip


def _partition_figure(
    counts: Sequence[Sequence[int]], title: str, parties: Sequence[str], classes: Sequence[str], label: str = "class"
) -> Figure:
    rows, columns = len(counts), len(counts[0])
    figure = Figure(figsize=(min(12, max(2.6, 1.2 + 0.32 * columns)), min(12, 0.9 + 0.22 * rows)), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0)
    axes.set_xlabel(label)
    axes.set_ylabel("party")
    if columns <= _MOST_LABELLED:
        axes.set_xticks(range(columns), classes, rotation=45 if max(map(len, classes)) > 3 else 0)
    if rows <= _MOST_LABELLED:
        axes.set_yticks(range(rows), parties)
    if rows * columns <= 400:
        _write_counts(axes, counts)
    if title:
        axes.set_title(textwrap.fill(title, 12 + 4 * columns), fontsize=8)
    figure.colorbar(image, ax=axes, label="rows", shrink=0.9)
    return figure


def _write_counts(axes: Axes, counts: Sequence[Sequence[int]]) -> None:
    most = max(map(max, counts))
    for party, row in enumerate(counts):
        for label, count in enumerate(row):
            if count:
                colour = "white" if count > 0.6 * most else "black"
                axes.text(label, party, str(count), ha="center", va="center", fontsize=5.5, color=colour)


def svg_of(figure: Figure) -> str:
    """Return a figure as the text of an SVG element."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=_metadata(".svg"))
    return text.getvalue()[text.getvalue().index("<svg") :]


def _metadata(suffix: str) -> dict[str, Any]:
    return {"Date": None} if suffix.lower() == ".svg" else {"Software": None}
