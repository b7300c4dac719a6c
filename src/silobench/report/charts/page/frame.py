"""The frame of a chart on a page: legend, axes, grid, text alternative and data for the script."""

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from silobench.report.charts.describe import describe
from silobench.report.charts.rulers import Ruler, ruler
from silobench.report.charts.values import Axis, Level, SingleChart

WIDE = 1000  # units of the nested SVG across
LETTER = 6.6  # pixels of the width of a letter, at most on average
LINE = 14  # pixels of a line of text
TOP = 8  # pixels above the marks
COLOURS = 8
_NARROWEST = 150  # pixels of a plot on a phone beside the names of rows
_NARROW = 270  # pixels of a plot on a phone, where names must still fit
MOST_LETTERS = 22  # in a line of a name at an axis
_MOST_TURNED = 27  # in a name that is turned
_MOST_LINES = 3


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
            _side("chart-left chart-y", frame.left, frame.left_width, height),
            plot,
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


def _side(name: str, texts: str, width: float, height: float) -> str:
    if not texts:
        return ""
    return f'<svg class="{name}" width="{width:g}" height="{height:g}" aria-hidden="true">{texts}</svg>'


def _json(data: Any) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" class="chart-data">{text}</script>'


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
    return f"s{place % COLOURS + 1}", f"d{place // COLOURS % 4}"


# --- texts --------------------------------------------------------------------------------------------


def text(x: float | str, y: float, words: str, name: str = "", anchor: str = "") -> str:
    """Return words at a place; `anchor` is the point of them that is there: middle or end."""
    kind = f' class="{name}"' if name else ""
    place = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{kind} x="{_short(x)}" y="{_short(y)}"{place}>{escape(words, quote=False)}</text>'


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else coordinate(value)


def coordinate(value: float) -> str:
    """Return a coordinate with one decimal at most.

    >>> coordinate(12.04), coordinate(0.26), coordinate(-0.26), coordinate(-0.01)
    ('12', '.3', '-.3', '0')
    """
    short = f"{value:z.1f}".removesuffix(".0")
    return short.replace("0.", ".", 1) if short.startswith(("0.", "-0.")) else short


def path(places: Sequence[tuple[float, float]]) -> str:
    """Return a line through places, as steps from one to the next: these have fewer letters than the places.

    >>> path([(0, 10), (5, 7.54), (6, 8)])
    'M0 10l5-2.5 1 .5'
    """
    tenths = [(round(10 * x), round(10 * y)) for x, y in places]
    steps = [((x - a) / 10, (y - b) / 10) for (a, b), (x, y) in pairwise(tenths)]
    start = f"M{coordinate(tenths[0][0] / 10)}{_apart(coordinate(tenths[0][1] / 10))}"
    if not steps:
        return start
    words = "".join(_apart(coordinate(value)) for step in steps for value in step)
    return f"{start}l{words.removeprefix(' ')}"


def _apart(number: str) -> str:
    return number if number.startswith("-") else f" {number}"


def shortened(name: str, most: int = MOST_LETTERS) -> str:
    """Return a name with its middle left out where it is too long.

    >>> shortened("split(noise(deviation=1.0))", 16)
    'split(nois…1.0))'
    """
    tail = (most - 1) // 3
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def wrapped(name: str, letters: int = MOST_LETTERS, lines: int = _MOST_LINES) -> list[str]:
    """Return a name in lines; what does not fit is left out in its middle.

    >>> wrapped("quantity-dirichlet(beta=0.5) · 10 parties", 16)
    ['quantity-dirichl', 'et(beta=0.5) ·', '10 parties']
    """
    short = shortened(name, letters * lines - 2 * lines)
    return (textwrap.wrap(short, letters, break_on_hyphens=False) or [""])[:lines]


def names_left(names: Sequence[str], height: float, middles: Sequence[float]) -> tuple[str, float]:
    """Return the names of rows at their middles, and the width that they need. Names with no room are left out."""
    lines = max(1, min(_MOST_LINES, int(height / (LINE - 1))))
    stride = max(1, -(-(LINE - 2) // max(1, int(height))))
    parts, widest = [], 0.0
    for place, (name, middle) in enumerate(zip(names, middles, strict=True)):
        if place % stride:
            continue
        rows = wrapped(name, lines=lines)
        widest = max(widest, *(LETTER * len(row) for row in rows))
        title = f"<title>{escape(name)}</title>" if "".join(rows) != name.replace(" ", "") and len(name) > 12 else ""
        first = middle + 4 - (LINE - 1) * (len(rows) - 1) / 2
        texts = [text("{END}", first + (LINE - 1) * at, row, "tick", "end") for at, row in enumerate(rows)]
        parts.append(f"<g>{title}{''.join(texts)}</g>")
    width = round(widest + 10)
    return "".join(parts).replace("{END}", str(width - 7)), width


def fit_below(names: Sequence[str], width: float = _NARROW) -> bool:
    """Whether names fit below an axis beside each other; the default width is that of a phone."""
    return not names or LETTER * max(map(len, names)) + 8 <= width / len(names)


def names_below(names: Sequence[str], shares: Sequence[float], y: float, width: float = _NARROW) -> tuple[str, float]:
    """Return the names of places below an axis, turned where they do not fit, and the height that they need."""
    if fit_below(names, width):
        texts = [text(percent(at), y + LINE, name, "tick", "middle") for name, at in zip(names, shares, strict=True)]
        return "".join(texts), LINE + 6
    stride = max(1, math.ceil(13 * len(names) / width))
    marks = []
    for place, (name, at) in enumerate(zip(names, shares, strict=True)):
        if place % stride == 0:
            short = shortened(name, _MOST_TURNED)
            title = "" if short == name else f"<title>{escape(name)}</title>"
            words = f'<text class="tick turned" text-anchor="end">{title}{escape(short)}</text>'
            marks.append(f'<svg x="{percent(at)}" y="{y + 12:g}" overflow="visible">{words}</svg>')
    longest = max(len(shortened(name, _MOST_TURNED)) for name in names)
    return "".join(marks), 20 + 0.72 * LETTER * longest  # sin 40° is 0.64; letters of some fonts are wider


def percent(share: float) -> str:
    """Return a share of the width of the plot.

    >>> percent(0.5), percent(1 / 3)
    ('50%', '33.33%')
    """
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


# --- axes ---------------------------------------------------------------------------------------------


def y_of(ruler: Ruler, value: float, height: float) -> float:
    """Return the y of a value in the marks: large values are at the top."""
    return height * (1 - ruler.share(value))


def x_of(ruler: Ruler, value: float) -> float:
    """Return the x of a value in the marks."""
    return WIDE * ruler.share(value)


def y_axis(ruler: Ruler, height: float, is_right: bool = False) -> tuple[str, float]:
    """Return the texts of an upright axis, and the width that they need."""
    width = round(max((LETTER * len(words) for _, words in ruler.ticks), default=0.0) + 9)
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
        if sum(LETTER * len(words) + 8 for _, words in made.ticks) <= _NARROWEST:
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
