"""Axes of a chart on a page: where values are, ticks, grids, and lines at levels."""

from collections.abc import Iterable, Sequence
from typing import Any

from silobench.report.charts.page.texts import (
    LETTER,
    LINE,
    NARROWEST,
    WIDE_LETTER,
    coordinate,
    names_below,
    percent,
    text,
)
from silobench.report.charts.rulers import Ruler, ruler
from silobench.report.charts.values import Axis, Level

WIDE = 1000  # units of the nested SVG across
TOP = 8  # pixels above the marks
_NARROW = 150  # pixels of a plot on a phone beside the names of rows


def y_of(ruler: Ruler, value: float, height: float) -> float:
    """Return the y of a value in the marks: large values are at the top."""
    return height * (1 - ruler.share(value))


def x_of(ruler: Ruler, value: float) -> float:
    """Return the x of a value in the marks."""
    return WIDE * ruler.share(value)


def y_axis(ruler: Ruler, height: float, is_right: bool = False) -> tuple[str, float]:
    """Return the texts of an upright axis, and the width that they need."""
    width = round(max((WIDE_LETTER * len(words) for _, words in ruler.ticks), default=0.0) + 9)
    x, anchor = (6, "") if is_right else (width - 6, "end")
    return "".join(
        text(x, TOP + y_of(ruler, at, height) + 4, words, "tick", anchor) for at, words in ruler.ticks
    ), width


def y_grid(ruler: Ruler, height: float) -> str:
    """Return level lines at the ticks."""
    lines = (
        f'<line x2="100%" y1="{(y := coordinate(TOP + y_of(ruler, at, height)))}" y2="{y}"/>' for at, _ in ruler.ticks
    )
    return f'<g class="chart-grid">{"".join(lines)}</g>'


def x_grid(ruler: Ruler, height: float) -> str:
    """Return upright lines at the ticks."""
    lines = (
        f'<line x1="{(x := percent(ruler.share(at)))}" x2="{x}" y1="{TOP}" y2="{TOP + height:g}"/>'
        for at, _ in ruler.ticks
    )
    return f'<g class="chart-grid">{"".join(lines)}</g>'


def narrow_ruler(axis: Axis, values: Sequence[float], from_zero: bool = False) -> Ruler:
    """Return a ruler below a plot that shares a phone with the names of its rows: as many ticks as do not touch."""
    for most in (6, 5, 4, 3):
        made = ruler(axis, values, from_zero, most)
        if sum(LETTER * len(words) + 8 for _, words in made.ticks) <= _NARROW:
            break
    return made


def x_axis(ruler: Ruler, height: float) -> tuple[str, float]:
    """Return the base line and the texts of the axis below, and the height that they need."""
    y = TOP + height
    base = f'<line class="base" x2="100%" y1="{y:g}" y2="{y:g}"/>'
    shares = [ruler.share(at) for at, _ in ruler.ticks]
    if ruler.axis.names:
        texts, below = names_below(ruler.axis.names, shares, y)
    else:
        texts = "".join(
            text(percent(at), y + LINE + 2, words, "tick", "middle")
            for at, (_, words) in zip(shares, ruler.ticks, strict=True)
        )
        below = LINE + 6
    return base + texts, below


def tick_reach(ruler: Ruler) -> tuple[float, float]:
    """Return how many pixels the numbers below an axis reach beyond a narrow plot, to its left and to its right."""
    if ruler.axis.names:
        return 0.0, 0.0
    spots = [(WIDE_LETTER * len(words) / 2 + 2, ruler.share(at)) for at, words in ruler.ticks]
    left = max((half - share * NARROWEST for half, share in spots), default=0.0)
    right = max((half - (1 - share) * NARROWEST for half, share in spots), default=0.0)
    return max(0.0, left), max(0.0, right)


def axis_data(ruler: Ruler) -> dict[str, Any]:
    """Return what the script needs to know of an axis, in its shown unit."""
    facts: dict[str, Any] = {
        "title": ruler.axis.title,
        "unit": ruler.unit,
        "low": float(f"{ruler.low / ruler.factor:.8g}"),
        "high": float(f"{ruler.high / ruler.factor:.8g}"),
    }
    if ruler.is_log:
        facts["log"] = 1
    if ruler.axis.scale == "whole":
        facts["whole"] = 1
    if ruler.axis.names:
        facts["names"] = list(ruler.axis.names)
    return facts


def levels_across(
    levels: Iterable[Level], ruler: Ruler, height: float, is_left: bool = False
) -> tuple[list[str], list[str]]:
    """Return level lines as marks, and their names as texts above them, at the right end or at the left one."""
    marks, names = [], []
    for level in levels:
        y = y_of(ruler, level.value, height)
        if -1 <= y <= height + 1:
            marks.append(f'<path class="level" d="M0 {coordinate(y)}H{WIDE}"/>')
            low = y < 16
            words = f"{level.name} {ruler.text(level.value)}"
            place, anchor = (4, "") if is_left else ("100%", "end")
            label = text(place, TOP + y + (13 if low else -5), words, "level-name", anchor)
            names.append(label.replace("<text", f'<text data-value="{ruler.shown(level.value):g}"', 1))
    return marks, names
