"""The heatmap of a cross-test, as SVG text."""

from collections.abc import Sequence
from html import escape

from silobench.analysis.cells import CellResult
from silobench.analysis.cross_tests import CrossLine, cross_lines, is_by_group
from silobench.report.svg import GREY, INK, shade, svg, text
from silobench.tasks.metrics import Metric

_MOST_NUMBERED = 12  # columns of a heatmap with numbers in it
_HEIGHT, _WIDTH, _NARROW = 20, 40, 12  # pixels of a field, with and without a number
_GAP = 6  # pixels before the column of all test rows


def cross_drawing(setting: Sequence[CellResult]) -> tuple[str, str] | None:
    """Return the caption and the heatmap of a setting; None where all parties share a model and are not groups."""
    lines = cross_lines(setting)
    is_interesting = is_by_group(setting[0]) or any(line.party is not None for line in lines)
    if len(lines) < 2 or not is_interesting:
        return None
    metric = setting[0].metric
    return (
        f"cross-test, {metric.heading}: models down, test rows across; darker is better, own rows are framed",
        cross_svg(lines, metric),
    )


def cross_svg(lines: Sequence[CrossLine], metric: Metric) -> str:
    """Return a heatmap with models down and the test rows of parties across, and all test rows last.

    Darker is better, from the worst to the best value. Numbers are means over trials; a title that a browser shows over
    a field has the deviation too. The fields of a party's model on its own rows have a frame.
    """
    tests = lines[0].tests
    is_numbered = len(tests) <= _MOST_NUMBERED
    width, left = (_WIDTH if is_numbered else _NARROW), 10 + 6 * max(len(line.name) for line in lines)
    top = 12 + 6 * max(map(len, tests))
    known = [mean for line in lines for mean in line.means if mean is not None]
    limits = (metric.worst(known), metric.best(known)) if known else (0.0, 1.0)
    marks, frames = [], []
    for at, line in enumerate(lines):
        y = top + _HEIGHT * at
        marks.append(text(left - 4, y + _HEIGHT / 2 + 3, line.name, anchor="end"))
        for place, mean in enumerate(line.means):
            x = _x(place, tests, left, width)
            if mean is not None:
                number = metric.number(mean) if is_numbered else ""
                title = f"{line.name} on {tests[place]}: {line.text(place, metric)}"
                marks.append(_field(x, y, width, _share(mean, limits), number, title))
            if line.party == tests[place] and place < len(tests) - 1:
                frames.append(_frame(x, y, width))
    for place, name in enumerate(tests):
        middle = _x(place, tests, left, width) + width / 2 + 3
        marks.append(f'<g transform="rotate(-90 {middle:g} {top - 4})">{text(middle, top - 4, name)}</g>')
    return svg(left + width * len(tests) + _GAP + 4, top + _HEIGHT * len(lines) + 4, [*marks, *frames])


def _x(place: int, tests: Sequence[str], left: int, width: int) -> int:
    return left + width * place + (_GAP if place == len(tests) - 1 else 0)


def _share(value: float, limits: tuple[float, float]) -> float:
    """Return where a value is between the worst, 0, and the best, 1."""
    worst, best = limits
    return (value - worst) / (best - worst) if best != worst else 0.5


def _field(x: float, y: float, width: int, share: float, number: str, title: str) -> str:
    ink = "white" if share > 0.5 else INK
    box = f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{_HEIGHT}" fill="{shade(share)}" stroke="{GREY}"/>'
    words = text(x + width / 2, y + _HEIGHT / 2 + 3, number, anchor="middle", fill=ink) if number else ""
    return f"<g><title>{escape(title)}</title>{box}{words}</g>"


def _frame(x: float, y: float, width: int) -> str:
    size = f'width="{width - 1}" height="{_HEIGHT - 1}"'
    return f'<rect x="{x + 0.5:g}" y="{y + 0.5:g}" {size} fill="none" stroke="{INK}" stroke-width="1.5"/>'
