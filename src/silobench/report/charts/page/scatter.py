"""Scatter charts on a page, with the Pareto front as steps."""

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
    x_grid,
    x_of,
    y_axis,
    y_grid,
    y_of,
)
from silobench.report.charts.page.frame import Frame, Key, colour_class, framed
from silobench.report.charts.page.texts import LETTER, coordinate, percent, reach_left, shortened, text
from silobench.report.charts.rulers import Ruler, ruler
from silobench.report.charts.values import Better, Mark, ScatterChart, pareto
from silobench.report.escaping import escape

_HEIGHT = 240
_MOST_NAMED = 30  # marks with a name beside them
_WIDTHS = (280.0, 640.0)  # pixels of a plot on a phone and on a desk, in both of which names must not touch
_PLACES = ((0, -9, "middle"), (9, 4, ""), (-9, 4, "end"), (0, 17, "middle"))  # of a name beside its mark


def scatter_markup(chart: ScatterChart) -> str:
    """Return a scatter chart as HTML."""
    marks = [mark for mark in chart.marks if is_drawn(mark, chart)]
    x, y = scatter_rulers(chart)
    groups = list(dict.fromkeys(mark.group for mark in marks))
    levels, level_names = levels_across(chart.levels, y, _HEIGHT)
    front = [_front(marks, chart.better, x, y)] if chart.better and marks else []
    colours = [chart.groups[name] for name in groups]
    series = [_group(place, name, colours[place], marks, x, y) for place, name in enumerate(groups)]
    left, left_width = y_axis(y, _HEIGHT)
    below, below_height = x_axis(x, _HEIGHT)
    return framed(
        chart,
        Frame(
            "scatter", _HEIGHT, [*levels, *front, *series], _keys(groups, colours), left, left_width, heads=[y.label],
            grid=[x_grid(x, _HEIGHT), y_grid(y, _HEIGHT)], above=[*level_names, *_names(marks, groups, x, y)],
            below=below, below_height=below_height, foot=x.label, data=_data(marks, groups, x, y, chart),
            below_reach=reach_left(chart.x.names, [x.share(at) for at, _ in x.ticks]), below_right=tick_reach(x)[1],
        ),
    )  # fmt: skip


def is_drawn(mark: Mark, chart: ScatterChart) -> bool:
    """Whether a mark has a place: its numbers are finite, and positive on logarithmic axes."""
    pairs = ((mark.x, chart.x), (mark.y, chart.y))
    return all(math.isfinite(value) and (axis.scale != "log" or value > 0) for value, axis in pairs)


def scatter_rulers(chart: ScatterChart) -> tuple[Ruler, Ruler]:
    """Return the rulers of x and y, with room for spreads."""
    marks = [mark for mark in chart.marks if is_drawn(mark, chart)]
    signs = (-1, 0, 1)
    x = ruler(chart.x, [mark.x + sign * (mark.x_spread or 0.0) for mark in marks for sign in signs])
    levels = [level.value for level in chart.levels]
    return x, ruler(chart.y, [*(mark.y + sign * (mark.y_spread or 0.0) for mark in marks for sign in signs), *levels])


def _keys(groups: Sequence[str], colours: Sequence[int]) -> list[Key]:
    if len(groups) < 2:
        return []
    return [Key(name, colour, "dot", place) for place, (name, colour) in enumerate(zip(groups, colours, strict=True))]


def _front(marks: Sequence[Mark], better: tuple[Better, Better], x: Ruler, y: Ruler) -> str:
    """Return the border of what is reached: the best y for each limit of x."""
    best = pareto(marks, better)
    places = [(coordinate(x_of(x, mark.x)), coordinate(y_of(y, mark.y, _HEIGHT))) for mark in best]
    if better[0] == "lower":
        steps = "".join(f"H{across}V{down}" for across, down in places[1:]) + f"H{WIDE}"
        path = f"M{places[0][0]} {places[0][1]}{steps}"
    else:
        path = f"M0 {places[0][1]}H{places[0][0]}" + "".join(f"V{down}H{across}" for across, down in places[1:])
    return f'<path class="front" d="{path}"><title>Pareto front</title></path>'


def _group(place: int, name: str, shade: int, marks: Sequence[Mark], x: Ruler, y: Ruler) -> str:
    inside = [mark for mark in marks if mark.group == name]
    spots = "".join(f"M{coordinate(x_of(x, mark.x))} {coordinate(y_of(y, mark.y, _HEIGHT))}h.01" for mark in inside)
    colour, dash = colour_class(shade)
    whiskers = "".join(_whiskers(inside, x, y))
    lines = f'<path class="whisker" d="{whiskers}"/>' if whiskers else ""
    title = f"<title>{escape(name)}</title>" if name else ""
    dots = f'<path class="dots large {dash}" d="{spots}"/>'
    return f'<g class="series {colour}" data-series="{place}">{title}{lines}{dots}</g>'


def _whiskers(marks: Sequence[Mark], x: Ruler, y: Ruler) -> Iterator[str]:
    for mark in marks:
        at = coordinate(x_of(x, mark.x)), coordinate(y_of(y, mark.y, _HEIGHT))
        if mark.x_spread and math.isfinite(mark.x_spread):
            ends = [x_of(x, max(mark.x + sign * mark.x_spread, x.low)) for sign in (-1, 1)]
            yield f"M{coordinate(ends[0])} {at[1]}H{coordinate(ends[1])}"
        if mark.y_spread and math.isfinite(mark.y_spread):
            ends = [y_of(y, max(mark.y + sign * mark.y_spread, y.low), _HEIGHT) for sign in (-1, 1)]
            yield f"M{at[0]} {coordinate(ends[0])}V{coordinate(ends[1])}"


def _names(marks: Sequence[Mark], groups: Sequence[str], x: Ruler, y: Ruler) -> list[str]:
    """Return names beside marks where there is room; the others are under the pointer."""
    return [
        f'<svg x="{percent(x.share(mark.x))}" y="{coordinate(TOP + y_of(y, mark.y, _HEIGHT))}" overflow="visible" '
        f'data-of="{groups.index(mark.group)}">{text(right, down, shortened(mark.name), "mark-name", anchor)}</svg>'
        for mark, (right, down, anchor) in named_marks(marks, x, y)
    ]


def named_marks(marks: Sequence[Mark], x: Ruler, y: Ruler) -> list[tuple[Mark, tuple[int, int, str]]]:
    """Return the marks whose names touch no other name or mark, with the place of the name: pixels and anchor."""
    if len(marks) > _MOST_NAMED:
        return []
    spots = [(x.share(mark.x), y_of(y, mark.y, _HEIGHT)) for mark in marks]
    taken: list[list[tuple[float, float, float, float]]] = [
        [(width * share - 5, at - 5, width * share + 5, at + 5) for share, at in spots] for width in _WIDTHS
    ]
    named = []
    for mark, (share, at) in zip(marks, spots, strict=True):
        short = shortened(mark.name)
        for right, down, anchor in _PLACES:
            boxes = [_box(width * share + right, at + down, short, anchor) for width in _WIDTHS]
            if all(_is_free(box, others, width) for box, others, width in zip(boxes, taken, _WIDTHS, strict=True)):
                for box, others in zip(boxes, taken, strict=True):
                    others.append(box)
                named.append((mark, (right, down, anchor)))
                break
    return named


def _box(x: float, y: float, words: str, anchor: str) -> tuple[float, float, float, float]:
    wide = LETTER * len(words)
    left = x - {"": 0.0, "middle": wide / 2, "end": wide}[anchor]
    return left, y - 10, left + wide, y + 3


def _is_free(
    box: tuple[float, float, float, float], others: Sequence[tuple[float, float, float, float]], width: float
) -> bool:
    left, top, right, bottom = box
    if left < 0 or right > width + 8 or top < -TOP or bottom > _HEIGHT:
        return False
    return all(right < other[0] or other[2] < left or bottom < other[1] or other[3] < top for other in others)


def _data(marks: Sequence[Mark], groups: Sequence[str], x: Ruler, y: Ruler, chart: ScatterChart) -> dict[str, Any]:
    front = {id(mark) for mark in pareto(marks, chart.better)} if chart.better else set()
    points = []
    for mark in marks:
        facts: dict[str, Any] = {
            "name": mark.name,
            "x": round(x.share(mark.x), 4),
            "y": round(y_of(y, mark.y, _HEIGHT), 1),
            "texts": [_with(x, mark.x, mark.x_spread), _with(y, mark.y, mark.y_spread)],
            "series": groups.index(mark.group),
        }
        points.append(facts | ({"front": 1} if id(mark) in front else {}))
    return {"axis": axis_data(x), "value": axis_data(y), "points": points}


def _with(ruler: Ruler, value: float, spread: float | None) -> str:
    unit = "" if ruler.unit in ("", "percent") else f" {ruler.unit}"
    percent_sign = "%" if ruler.unit == "percent" else ""
    around = f" ± {ruler.text(spread)}" if spread else ""
    return f"{ruler.text(value)}{around}{percent_sign}{unit}"
