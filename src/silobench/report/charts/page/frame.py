"""The frame of a chart on a page: legend, the places of axes and marks, text alternative and data for the script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from silobench.report.charts.describe import describe
from silobench.report.charts.page.axes import TOP, WIDE
from silobench.report.charts.page.texts import text
from silobench.report.charts.values import SingleChart
from silobench.report.escaping import escape, json_of_script

_COLOURS = 8
_LEFT, _RIGHT = 2, 18  # pixels of the body beside its parts: its `padding` in charts.css


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a series and how it is drawn."""

    name: str
    colour: int
    shape: str = "line"  # line, paper, box, dot
    series: int | None = None  # None: it cannot be toggled


@dataclass(frozen=True)
class Frame:
    """All parts of a chart but its marks. Texts in `above` and `below` are in pixels of the plot, not of the marks."""

    kind: str
    height: int  # pixels of the marks
    marks: Sequence[str]
    keys: Sequence[Key] = ()
    left: str = ""  # texts of the axis on the left
    left_width: float = 0
    right: str = ""
    right_width: float = 0
    right_class: str = "chart-right"
    heads: Sequence[str] = ()  # titles of the axes on the left and on the right, above them
    grid: Sequence[str] = ()  # behind the marks
    above: Sequence[str] = ()  # in front of the marks
    below: str = ""  # texts of the axis below
    below_height: float = 0
    foot: str = ""  # the title of the axis below
    data: Any = None
    natural: float | None = None  # pixels of the plot where it need not fill the page
    least: float = 0  # pixels of the plot below which it scrolls
    view: str = ""
    tail: str = ""  # HTML below the axis
    below_reach: float = 0  # pixels that texts of the axis below need to the left of the plot
    below_right: float = 0  # the same to its right


def framed(chart: SingleChart, frame: Frame) -> str:
    """Return a chart as HTML."""
    height = TOP + frame.height + frame.below_height
    plot = "".join(
        [
            f'<svg class="{_classes("chart-plot", _least(frame.least))}" role="img"',
            f' width="{frame.natural:g}"' if frame.natural else "",
            f' height="{height:g}"><title>{escape(chart.title)}</title><desc>{escape(describe(chart))}</desc>',
            *frame.grid,
            f'<svg class="chart-marks" y="{TOP}" width="100%" height="{frame.height}" '
            f'viewBox="{frame.view or f"0 0 {WIDE} {frame.height}"}" preserveAspectRatio="none">',
            *frame.marks,
            "</svg>",
            *frame.above,
            *([] if frame.marks else [text("50%", TOP + frame.height / 2, "no data", "no-data", "middle")]),
            f'<g class="chart-x">{frame.below}</g></svg>',
        ]
    )
    body = "".join(
        [
            _side("chart-left chart-y", *_widened(frame.left, frame.left_width, frame.below_reach), height)
            or _pad(frame.below_reach - _LEFT),
            plot,
            _pad(frame.below_right - _RIGHT),
            _side(frame.right_class, frame.right, frame.right_width, height),
        ]
    )
    heads = "".join(f"<span>{escape(head)}</span>" for head in frame.heads)
    natural = "is-natural" if frame.natural else ""
    return "".join(
        [
            f'<div class="{_classes("chart", f"chart-{frame.kind}", natural)}" data-chart="{frame.kind}">',
            legend(frame.keys),
            f'<p class="chart-head">{heads}</p>' if frame.heads else "",
            f'<div class="chart-body">{body}</div>',
            f'<p class="chart-foot">{escape(frame.foot)}</p>' if frame.foot else "",
            frame.tail,
            _json(frame.data) if frame.data else "",
            "</div>",
        ]
    )


def _classes(*names: str) -> str:
    return " ".join(filter(None, names))


def _least(pixels: float) -> str:
    """Return the class of a least width, in steps of 60 pixels."""
    return f"least-{min(40, math.ceil(pixels / 60))}" if pixels > 60 else ""


def _widened(texts: str, width: float, least: float) -> tuple[str, float]:
    """Return texts at the right end of a place that has at least some width, and the width of it."""
    return (texts, width) if width >= least else (f'<svg x="{least - width:.0f}">{texts}</svg>', round(least))


def _side(name: str, texts: str, width: float, height: float) -> str:
    if not texts:
        return ""
    return f'<svg class="{name}" width="{width:g}" height="{height:g}" aria-hidden="true">{texts}</svg>'


def _pad(width: float) -> str:
    """Return an empty place beside a plot: what lies outside of the body of a chart is cut off."""
    return f'<svg width="{math.ceil(width)}" height="1" aria-hidden="true"></svg>' if width > 0 else ""


def _json(data: Any) -> str:
    return f'<script type="application/json" class="chart-data">{json_of_script(data)}</script>'


def legend(keys: Sequence[Key]) -> str:
    """Return the legend, a list in which the script makes buttons; nothing for one series."""
    if not keys:
        return ""
    return f'<ul class="chart-legend">{"".join(map(_key, keys))}</ul>'


def _key(key: Key) -> str:
    series = "" if key.series is None else f' data-series="{key.series}"'
    colour, dash = colour_class(key.colour)
    shapes = {
        "line": f'<path class="line {dash}" d="M1 5H21"/>',
        "paper": '<path class="line paper" d="M1 5H21"/><path class="dots" d="M11 5h.01"/>'
        '<path class="dots hollow" d="M11 5h.01"/>',
        "box": f'<rect class="fill {dash}" x="6" width="10" height="10" rx="2"/>',
        "dot": f'<path class="dots {dash}" d="M11 5h.01"/>',
        "level": '<path class="level" d="M1 5H21"/>',
    }
    swatch = f'<svg class="chart-swatch {colour}" width="22" height="10" aria-hidden="true">{shapes[key.shape]}</svg>'
    return f'<li><span class="chart-key"{series}>{swatch}<span>{escape(key.name)}</span></span></li>'


def colour_class(place: int) -> tuple[str, str]:
    """Return the classes of a series: its colour, and the dash that tells it from others of the same colour.

    >>> colour_class(0), colour_class(9)
    (('s1', 'd0'), ('s2', 'd1'))
    """
    return f"s{place % _COLOURS + 1}", f"d{place // _COLOURS % 4}"
