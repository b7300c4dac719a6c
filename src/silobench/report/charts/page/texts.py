"""Texts of a chart on a page: names that fit their place, and numbers and lines as SVG writes them."""

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise

from silobench.report.escaping import escape

LETTER = 6.6  # pixels of the width of a letter, at most on average
WIDE_LETTER = 7.2  # the same in specs with digits and signs, such as fedprox(mu=0.001), in a wide font (DejaVu Sans)
LINE = 14  # pixels of a line of text
MOST_LETTERS = 22  # in a line of a name at an axis
_NARROW = 270  # pixels of a plot on a phone, where names must still fit
NARROWEST = 128  # pixels of a plot, at least: its `min-width` in charts.css
_MOST_TURNED = 27  # in a name that is turned
_MOST_LINES = 3


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
    >>> wrapped("fedavg · quantize(bits=4), mean party", lines=2)
    ['fedavg · quantize(bits', '=4), mean party']
    """
    short = shortened(name, letters * lines - 2 * lines)
    rows = textwrap.wrap(short, letters, break_on_hyphens=False) or [""]
    if len(rows) > lines:  # whole words leave too much room
        rows = [short[start : start + letters].strip() for start in range(0, len(short), letters)]
    return rows


def names_left(names: Sequence[str], height: float, middles: Sequence[float]) -> tuple[str, float]:
    """Return the names of rows at their middles, and the width that they need. Names with no room are left out."""
    lines = max(1, min(_MOST_LINES, int(height / (LINE - 1))))
    stride = max(1, -(-(LINE - 2) // max(1, int(height))))
    parts, widest = [], 0.0
    for place, (name, middle) in enumerate(zip(names, middles, strict=True)):
        if place % stride:
            continue
        rows = wrapped(name, lines=lines)
        widest = max(widest, *(WIDE_LETTER * len(row) for row in rows))
        title = f"<title>{escape(name)}</title>" if "".join(rows).replace(" ", "") != name.replace(" ", "") else ""
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


def reach_left(names: Sequence[str], shares: Sequence[float], width: float = _NARROW) -> float:
    """Return how many pixels the turned names below an axis reach to the left of a narrow plot; 0 if none is turned.

    The names are turned if they do not fit `width`. The plot itself may be narrower on a small screen.

    >>> reach_left(["a", "b"], [0.25, 0.75])
    0.0
    >>> round(reach_left(["quantity-dirichlet(beta=0.5)"] * 3, [1 / 6, 1 / 2, 5 / 6]))
    118
    """
    if fit_below(names, width):
        return 0.0
    lengths = [0.78 * LETTER * len(shortened(name, _MOST_TURNED)) for name in names]  # cos 40° is 0.77
    plot = min(width, NARROWEST)
    return max(0.0, *(length - at * plot for length, at in zip(lengths, shares, strict=True)))


def percent(share: float) -> str:
    """Return a share of the width of the plot.

    >>> percent(0.5), percent(1 / 3)
    ('50%', '33.33%')
    """
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"
