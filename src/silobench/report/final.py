"""Drawings of final tests: results by party, reliability diagrams and confusion matrices, as SVG text.

They are written by hand because a page has many of them: each is a few kilobytes, and takes no time to draw.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.confusion import confusion
from silobench.analysis.parties import MOST_PARTIES, parties_tables
from silobench.report.cross_tests import cross_drawing
from silobench.report.figures import COLOURS
from silobench.report.svg import GREY, INK, LETTER, shade, svg, text
from silobench.runs.stored import CalibrationFacts
from silobench.tasks.metrics import Metric

_MOST_NUMBERED = 12  # classes of a matrix with numbers in it
_LINE = 14  # pixels of a line of text
_TALL = 600  # pixels of dots below each other, in a figure with many parties
_DOT = 7  # pixels of the diameter of a dot


def final_section(setting: Sequence[CellResult]) -> dict[str, Any] | None:
    """Return what the page shows of the final tests of a setting; None where its runs have none."""
    tested = [cell for cell in setting if cell.runs[0].final.parties or cell.runs[0].final.calibration]
    if not tested:
        return None
    names = [str(cell.label["algorithm"]) for cell in tested]
    tables = parties_tables(tested)
    drawings = [drawing] if (drawing := cross_drawing(tested)) else []
    parties = [_party_values(cell) for cell in tested]
    if tables and len(parties[0]) <= MOST_PARTIES:
        drawings.append(
            ("own test rows by party", parties_svg(dict(zip(names, parties, strict=True)), tested[0].metric))
        )
    curves = {name: one for name, cell in zip(names, tested, strict=True) if (one := cell.runs[0].final.calibration)}
    if curves:
        drawings.append((f"reliability, seed {tested[0].seeds[0]}", reliability_svg(curves)))
    for name, cell in zip(names, tested, strict=True):
        if table := confusion(cell):
            drawings.append((f"confusions of {name}", confusion_svg(table, cell.dataset.classes)))
    return {"drawings": drawings, "table": tables[0] if tables else None}


def _party_values(cell: CellResult) -> dict[str, float | None]:
    """Return the main metric of the first trial on each party's own test rows."""
    return {name: result.score for name, result in cell.runs[0].final.parties.items()}


def parties_svg(values: Mapping[str, Mapping[str, float | None]], metric: Metric) -> str:
    """Return a figure with one dot per party and algorithm, at its score on the party's own test rows.

    Each algorithm has a line of its own in the band of a party, so that dots with equal scores do not hide each other.
    """
    parties = list(next(iter(values.values())))
    known = [value for each in values.values() for value in each.values() if value is not None]
    low, high = _limits(known, metric)
    left, width, top = 8 + 6 * max(map(len, parties)), 220, _LINE * len(values) + 8
    step = max(1.0, min(_DOT, _TALL / (len(parties) * len(values))))  # dots of many parties overlap a little
    band = max(_LINE, step * (len(values) - 1) + _DOT + 4)
    bottom = top + band * len(parties)
    marks = [
        *(text(left - 6, top + band * (at + 0.5) + 3, party, anchor="end") for at, party in enumerate(parties)),
        *(f'<path d="M{left} {top + band * at:g}h{width}" stroke="{GREY}"/>' for at in range(len(parties) + 1)),
        *(
            text(left + share * width, bottom + _LINE, metric.number(low + share * (high - low)), anchor="middle")
            for share in (0.0, 0.5, 1.0)
        ),
        text(left + width / 2, bottom + 2 * _LINE, metric.heading, anchor="middle"),
    ]
    for place, (name, each) in enumerate(values.items()):
        colour = COLOURS[place % len(COLOURS)]
        marks.append(_key(left, _LINE * (place + 0.5), name, colour))
        for at, party in enumerate(parties):
            value = each.get(party)
            if value is not None:
                x = left + width * (value - low) / (high - low)
                y = top + band * (at + 0.5) + step * (place - (len(values) - 1) / 2)
                marks.append(f'<circle cx="{x:.1f}" cy="{y:g}" r="{_DOT / 2:g}" fill="{colour}"/>')
    return svg(max(left + width + 24, _keys_end(left, values)), bottom + 2 * _LINE + 6, marks)


def _limits(values: Sequence[float], metric: Metric) -> tuple[float, float]:
    """Return the ends of an axis: from 0 for errors, to 1 for shares, and at least as wide as the values."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    low = min(low, 0.0) if not metric.higher_is_better else low - 0.1 * (high - low)
    high = 1.0 if metric.is_share and metric.higher_is_better else high
    return (low, high) if high > low else (low, low + 1.0)


def reliability_svg(curves: Mapping[str, CalibrationFacts]) -> str:
    """Return a reliability diagram: the accuracy of answers by their confidence, one line per algorithm.

    An algorithm whose answers are all equally sure has a dot in place of a line.
    A model whose line is below the diagonal is too sure of its answers.
    """
    side, left, top = 150, 38, _LINE * len(curves) + 8
    middle, names = top + side / 2, list[str]()
    marks = [
        f'<rect x="{left}" y="{top}" width="{side}" height="{side}" fill="none" stroke="{GREY}"/>',
        f'<path d="M{left} {top + side}L{left + side} {top}" stroke="{GREY}" stroke-dasharray="3 3"/>',
        text(left + side / 2, top + side + 26, "confidence, percent", anchor="middle"),
        f'<g transform="rotate(-90 10 {middle})">{text(10, middle, "accuracy, percent", anchor="middle")}</g>',
    ]
    for share in (0, 0.5, 1):
        marks.append(text(left + share * side, top + side + 13, f"{100 * share:g}", anchor="middle"))
        marks.append(text(left - 4, top + side - share * side + 3, f"{100 * share:g}", anchor="end"))
    for place, (name, one) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = [
            (f"{left + side * confidence:.1f}", f"{top + side - side * accuracy:.1f}")
            for rows, confidence, accuracy in zip(one.rows, one.confidence, one.accuracy, strict=True)
            if rows
        ]
        error = "" if one.error is None else f", error {100 * one.error:.1f} points"
        names.append(name + error)
        marks.append(_key(left, _LINE * (place + 0.5), names[-1], colour))
        if len(points) == 1:  # a line through one point is not visible
            marks += [f'<circle cx="{x}" cy="{y}" r="{_DOT / 2:g}" fill="{colour}"/>' for x, y in points]
        elif points:
            line = "L".join(f"{x} {y}" for x, y in points)
            marks.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
    return svg(max(left + side + 60, _keys_end(left, names)), top + side + 32, marks)


def confusion_svg(table: Sequence[Sequence[int]], classes: Sequence[str]) -> str:
    """Return a heatmap with classes down and answers across; darker is a larger share of the rows of the class."""
    size = len(table)
    cell = 26 if size <= _MOST_NUMBERED else max(2, 300 // size)
    labelled = size <= 30
    left = (10 + 6 * max(map(len, classes))) if labelled else 8
    top, marks = (left if labelled else 8), []
    for label, row in enumerate(table):
        total = sum(row) or 1
        for answer, count in enumerate(row):
            if count:
                x, y, share = left + cell * answer, top + cell * label, count / total
                marks.append(f'<rect x="{x}" y="{y}" width="{cell}" height="{cell}" fill="{shade(share)}"/>')
                if size <= _MOST_NUMBERED:
                    ink = "white" if share > 0.5 else INK
                    marks.append(text(x + cell / 2, y + cell / 2 + 3, _percent(share), anchor="middle", fill=ink))
    marks.append(
        f'<rect x="{left}" y="{top}" width="{cell * size}" height="{cell * size}" fill="none" stroke="{GREY}"/>'
    )
    for place, name in enumerate(classes if labelled else ()):
        middle = cell * (place + 0.5)
        marks.append(text(left - 4, top + middle + 3, name, anchor="end"))
        turn = f"rotate(-90 {left + middle + 3:g} {top - 4})"
        marks.append(f'<g transform="{turn}">{text(left + middle + 3, top - 4, name)}</g>')
    return svg(left + cell * size + 4, top + cell * size + 4, marks)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.01 else "<1"


def _keys_end(x: float, names: Iterable[str]) -> float:
    """Return where the lines of a legend end, in pixels."""
    return x + 16 + LETTER * max(map(len, names))


def _key(x: float, y: float, name: str, colour: str) -> str:
    """Return a line of a legend."""
    return f'<circle cx="{x + 4:g}" cy="{y:g}" r="3.5" fill="{colour}"/>{text(x + 12, y + 3, name)}'
