"""Parts of a drawing as SVG text, written by hand: a few kilobytes each, and no time to draw."""

from collections.abc import Iterable
from html import escape

INK = "#1c2733"
GREY = "#d8dee3"


LETTER = 5.6  # pixels of the width of a letter, at most


def shade(share: float) -> str:
    """Return a blue that is darker for a larger share."""
    red, green, blue = (round(255 - (0.08 + 0.92 * share) * (255 - end)) for end in (8, 81, 156))
    return f"#{red:02x}{green:02x}{blue:02x}"


def text(x: float, y: float, words: str, anchor: str = "start", fill: str = INK) -> str:
    """Return words at a place; `anchor` is the point of them that is there: start, middle or end."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    ink = "" if fill == INK else f' fill="{fill}"'
    return f'<text x="{x:g}" y="{y:g}"{place}{ink}>{escape(words)}</text>'


def svg(width: float, height: float, marks: Iterable[str]) -> str:
    """Return the whole drawing."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    style = f'font-family="sans-serif" font-size="10" fill="{INK}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(marks)}</svg>'
