"""Bar charts on a page: upright where the names of groups fit below them, else lying below each other."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from silobench.report.charts.page.axes import (
    TOP,
    WIDE,
    axis_data,
    levels_across,
    narrow_ruler,
    tick_reach,
    x_axis,
    x_grid,
    x_of,
    y_axis,
    y_grid,
    y_of,
)
from silobench.report.charts.page.frame import Frame, Key, colour_class, framed
from silobench.report.charts.page.texts import (
    LETTER,
    LINE,
    coordinate,
    fit_below,
    names_left,
    percent,
    text,
    wrapped,
)
from silobench.report.charts.rulers import Ruler, ruler
from silobench.report.charts.values import Axis, BarChart, Bars, Level
from silobench.report.escaping import escape

_HEIGHT = 200
_BAR, _GAP = 15, 8  # pixels of a lying bar, and between groups
_SHARE = 0.76  # of the room of a group that its bars take


@dataclass(frozen=True)
class Box:
    """A bar: its place among the groups, from `start` to `start + share` of a group, and its values."""

    group: int
    series: int
    start: float
    share: float
    low: float
    high: float
    spread: float
    mark: float | None
    words: str


def bar_markup(chart: BarChart) -> str:
    """Return a bar chart as HTML."""
    return _lying(chart) if is_lying(chart) else _upright(chart)


def is_lying(chart: BarChart) -> bool:
    """Whether the bars of a chart lie: their names are too long for the room below upright bars on a phone."""
    return chart.horizontal or not fit_below(chart.groups) or len(chart.groups) * len(chart.bars) > 48


def bar_ruler(chart: BarChart) -> Ruler:
    """Return the ruler of the lengths of bars."""
    reach = [
        value for box in boxes(chart) for value in (box.low, box.high, box.high + box.spread, box.high - box.spread)
    ]
    marks = [mark for bars in chart.bars for mark in bars.marks if mark is not None]
    make = narrow_ruler if is_lying(chart) else ruler
    return make(chart.y, [*reach, *marks, *(level.value for level in chart.levels)], from_zero=chart.y.scale != "log")


def boxes(chart: BarChart) -> Iterator[Box]:
    """Yield the bars of a chart that have finite values."""
    share = _SHARE if chart.stacked else _SHARE / max(1, len(chart.bars))
    tops = [0.0] * len(chart.groups)
    for series, bars in enumerate(chart.bars):
        start = (1 - _SHARE) / 2 + (0.0 if chart.stacked else share * series)
        for group, value in enumerate(bars.values):
            if value is None or not math.isfinite(value.mean):
                continue
            low = tops[group] if chart.stacked else 0.0
            tops[group] += value.mean
            mark = bars.marks[group] if bars.marks else None
            spread = value.spread if value.spread and math.isfinite(value.spread) else 0.0
            words = bars.texts[group] if bars.texts else ""
            yield Box(group, series, start, share, low, low + value.mean, spread, mark, words)


def _keys(chart: BarChart) -> list[Key]:
    if len(chart.bars) < 2:
        return []
    return [Key(bars.name, colour_of(bars, place), "box", place) for place, bars in enumerate(chart.bars)]


def colour_of(bars: Bars, place: int) -> int:
    """Return the place of bars in the palette."""
    return place if bars.colour is None else bars.colour


def _upright(chart: BarChart) -> str:
    y, count = bar_ruler(chart), len(chart.groups)
    names = ruler(Axis(chart.group_title, names=chart.groups), ())

    def shape(box: Box) -> tuple[str, str, str]:
        x, wide = WIDE * (box.group + box.start) / count, WIDE * box.share / count
        ends = sorted(y_of(y, _shown(at, y), _HEIGHT) for at in (box.low, box.high))
        body = _rect(x, ends[0], wide * 0.94, ends[1] - ends[0])
        middle = coordinate(x + wide * 0.47)
        tips = [coordinate(y_of(y, _shown(box.high + sign * box.spread, y), _HEIGHT)) for sign in (-1, 1)]
        whisker = f"M{middle} {tips[0]}V{tips[1]}" if box.spread else ""
        at = None if box.mark is None else coordinate(y_of(y, _shown(box.mark, y), _HEIGHT))
        return body, whisker, "" if at is None else f"M{coordinate(x)} {at}h{coordinate(wide)}"

    levels, level_names = levels_across(chart.levels, y, _HEIGHT)
    left, left_width = y_axis(y, _HEIGHT)
    below, below_height = x_axis(names, _HEIGHT)
    return framed(
        chart,
        Frame(
            "bar", _HEIGHT, [*_series(chart, y, shape), *levels], _keys(chart), left, left_width, heads=[y.label],
            grid=[y_grid(y, _HEIGHT)], above=level_names, below=below, below_height=below_height,
            foot=chart.group_title, data=_data(chart, y),
        ),
    )  # fmt: skip


def _lying(chart: BarChart) -> str:
    y = bar_ruler(chart)
    each = _BAR * (1 if chart.stacked else max(1, len(chart.bars))) / _SHARE
    lines = max((len(wrapped(name)) for name in chart.groups), default=1)
    band = max(each, 6.0 + LINE * lines) if len(chart.groups) <= 60 else each
    height = round(band * len(chart.groups))

    def shape(box: Box) -> tuple[str, str, str]:
        top, tall = band * (box.group + box.start), band * box.share
        ends = sorted(x_of(y, _shown(at, y)) for at in (box.low, box.high))
        body = _rect(ends[0], top, ends[1] - ends[0], tall * 0.94)
        middle = coordinate(top + tall * 0.47)
        tips = [coordinate(x_of(y, _shown(box.high + sign * box.spread, y))) for sign in (-1, 1)]
        whisker = f"M{tips[0]} {middle}H{tips[1]}" if box.spread else ""
        at = None if box.mark is None else coordinate(x_of(y, _shown(box.mark, y)))
        return body, whisker, "" if at is None else f"M{at} {coordinate(top - 1)}v{coordinate(tall + 1)}"

    left, left_width = names_left(
        chart.groups, band, [TOP + band * (place + 0.5) for place in range(len(chart.groups))]
    )
    below, below_height = x_axis(y, height)
    marks, names = lying_levels(chart.levels, y, height)
    return framed(
        chart,
        Frame(
            "row", height, [*_series(chart, y, shape), *marks], _keys(chart), left, left_width,
            grid=[x_grid(y, height)], heads=[chart.group_title] if chart.group_title else [],
            above=[*_ends(chart, y, band), *names], below=below, below_height=below_height, foot=y.label,
            data=_data(chart, y), below_right=tick_reach(y)[1],
        ),
    )  # fmt: skip


def lying_levels(levels: Sequence[Level], ruler: Ruler, height: float) -> tuple[list[str], list[str]]:
    """Return upright lines at levels as marks, and their names as titles of them."""
    shown = [(level, share) for level in levels if 0 <= (share := ruler.share(level.value)) <= 1]
    marks = [
        f'<path class="level" d="M{coordinate(WIDE * share)} 0V{height:g}">'
        f"<title>{escape(level.name)} {ruler.text(level.value)}</title></path>"
        for level, share in shown
    ]
    anchors = ((0.25, ""), (0.75, "middle"), (1.0, "end"))  # of a name on the left, in the middle, and on the right
    names = [
        text(percent(share), TOP - 1, level.name, "level-name", next(end for most, end in anchors if share <= most))
        for level, share in shown[:1]
    ]
    return marks, names


def _ends(chart: BarChart, y: Ruler, band: float) -> list[str]:
    """Return texts at the ends of lying bars; inside of a bar that leaves no room beside it."""
    texts = []
    for box in boxes(chart):
        if box.words:
            share = y.share(_shown(max(box.high, box.mark or box.high), y))
            inside = share * 220 + LETTER * len(box.words) + 8 > 230
            at, anchor = (y.share(_shown(box.high, y)), "end") if inside else (share, "")
            words = text(-5 if inside else 5, 0, box.words, "bar-text inside" if inside else "bar-text", anchor)
            middle = TOP + band * (box.group + box.start + box.share * 0.47) + 4
            texts.append(f'<svg x="{percent(at)}" y="{coordinate(middle)}" overflow="visible">{words}</svg>')
    return texts


def _shown(value: float, y: Ruler) -> float:
    """Return a value inside of the axis: a bar ends there."""
    return min(max(value, y.low), y.high)


def _rect(x: float, y: float, width: float, height: float) -> str:
    return f"M{coordinate(x)} {coordinate(y)}h{coordinate(width)}v{coordinate(height)}h{coordinate(-width)}z"


def _series(chart: BarChart, y: Ruler, shape: Any) -> Iterator[str]:
    """Yield the bars of each series as one path, with whiskers and ticks in front of them."""
    every = list(boxes(chart))
    for place, bars in enumerate(chart.bars):
        shapes = [shape(box) for box in every if box.series == place]
        colour, dash = colour_class(colour_of(bars, place))
        paths = zip((f"fill {dash}", "whisker over", "null"), zip(*shapes, strict=True), strict=False)
        body = "".join(f'<path class="{name}" d="{path}"/>' for name, parts in paths if (path := "".join(parts)))
        yield f'<g class="series {colour}" data-series="{place}"><title>{escape(bars.name)}</title>{body}</g>'


def _data(chart: BarChart, y: Ruler) -> dict[str, Any]:
    series, every = [], list(boxes(chart))
    for place, bars in enumerate(chart.bars):
        facts: dict[str, Any] = {
            "name": bars.name,
            "y": [y.shown(value.mean) if value and math.isfinite(value.mean) else None for value in bars.values],
        }
        spreads = {box.group: box.spread for box in every if box.series == place}
        if any(spreads.values()):
            facts["s"] = [y.shown(spreads.get(group, 0.0), 2) for group in range(len(chart.groups))]
        if any(mark is not None for mark in bars.marks):
            facts["mark"] = [None if mark is None else y.shown(mark) for mark in bars.marks]
        series.append(facts)
    names = {"title": chart.group_title, "names": list(chart.groups), "low": -0.5, "high": len(chart.groups) - 0.5}
    return {"axis": names, "value": axis_data(y), "x": list(range(len(chart.groups))), "series": series}
