"""Charts of final tests: results by party, reliability diagrams and confusion matrices."""

import math
from collections.abc import Mapping, Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.confusion import confusion
from silobench.analysis.parties import MOST_PARTIES, parties_tables
from silobench.analysis.tables import Table
from silobench.report.charts.values import Axis, DotChart, Dots, Heatmap, Line, LineChart, Point, Value
from silobench.report.cross_tests import cross_drawing
from silobench.report.drawing import Drawing, Section
from silobench.runs.stored import CalibrationFacts
from silobench.tasks.metrics import Metric


def final_section(setting: Sequence[CellResult], title: str, colours: Mapping[str, int]) -> Section | None:
    """Return what the report shows of the final tests of a setting; None where its runs have none.

    `colours` has the place of each algorithm in the palette.
    """
    tested = [cell for cell in setting if cell.runs[0].final.parties or cell.runs[0].final.calibration]
    if not tested:
        return None
    names = [str(cell.label["algorithm"]) for cell in tested]
    tables = parties_tables(tested)
    drawings = [drawing] if (drawing := cross_drawing(tested)) else []
    parties = [_party_values(cell) for cell in tested]
    if tables and len(parties[0]) <= MOST_PARTIES:
        chart = parties_chart(dict(zip(names, parties, strict=True)), tested[0].metric, colours)
        drawings.append(Drawing(f"own test rows by party, seed {tested[0].seeds[0]}", chart))
    curves = {name: one for name, cell in zip(names, tested, strict=True) if (one := cell.runs[0].final.calibration)}
    if curves:
        drawings.append(Drawing(f"reliability, seed {tested[0].seeds[0]}", reliability_chart(curves, colours)))
    for name, cell in zip(names, tested, strict=True):
        if table := confusion(cell):
            drawings.append(Drawing(f"confusions of {name}", confusion_chart(table, cell.dataset.classes)))
    return Section(title, drawings, tables[0] if tables else Table("", [], []))


def _party_values(cell: CellResult) -> dict[str, float | None]:
    """Return the main metric of the first trial on each party's own test rows."""
    return {name: result.score for name, result in cell.runs[0].final.parties.items()}


def parties_chart(
    values: Mapping[str, Mapping[str, float | None]], metric: Metric, colours: Mapping[str, int]
) -> DotChart:
    """Return a chart with one dot per party and algorithm, at its score on the party's own test rows."""
    parties = list(next(iter(values.values())))
    known = [value for each in values.values() for value in each.values() if value is not None]
    low, high = _limits(known, metric)
    axis = Axis(metric.title, metric.unit_text, low=metric.factor * low, high=metric.factor * high)
    dots = [
        Dots(name, [_value(each.get(party), metric) for party in parties], colours[name])
        for name, each in values.items()
    ]
    return DotChart(f"{metric.title} on own test rows, by party", parties, axis, dots, "party")


def _value(score: float | None, metric: Metric) -> Value | None:
    return None if score is None else Value(metric.factor * score)


def _limits(values: Sequence[float], metric: Metric) -> tuple[float, float]:
    """Return the ends of an axis: from 0 for errors, to 1 for shares, and at least as wide as the values."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    low = min(low, 0.0) if not metric.higher_is_better else low - 0.1 * (high - low)
    if metric.is_share and metric.higher_is_better:
        return (max(low, 0.0) if low < 1.0 else 0.0), 1.0
    return (low, high) if high > low else (low, low + 1.0)


def reliability_chart(curves: Mapping[str, CalibrationFacts], colours: Mapping[str, int]) -> LineChart:
    """Return a reliability diagram: the accuracy of answers by their confidence, one line per algorithm.

    An algorithm whose answers are all equally sure has a dot in place of a line.
    A model whose line is below the diagonal is too sure of its answers.
    """
    lines = []
    for name, one in curves.items():
        points = [
            Point(100 * confidence, 100 * accuracy)
            for rows, confidence, accuracy in zip(one.rows, one.confidence, one.accuracy, strict=True)
            if rows
        ]
        error = "" if one.error is None else f", error {100 * one.error:.1f} points"
        lines.append(Line(name + error, points, colours[name]))
    x, y = (Axis(title, "percent", low=0.0, high=100.0) for title in ("confidence", "accuracy"))
    return LineChart("accuracy of answers by their confidence", x, y, lines, diagonal=True)


def confusion_chart(table: Sequence[Sequence[int]], classes: Sequence[str]) -> Heatmap:
    """Return a heatmap with classes down and answers across; darker is a larger share of the rows of the class."""
    shares = [[100 * count / (sum(row) or 1) for count in row] for row in table]
    texts = [[_percent(share) if share else "" for share in row] for row in shares]
    details = [
        [
            f"{_percent(share)} percent of the rows of the class, {count} rows"
            for share, count in zip(line, row, strict=True)
        ]
        for line, row in zip(shares, table, strict=True)
    ]
    return Heatmap(
        "answers by class", classes, classes, shares, "class", "answer", "percent of the rows of the class",
        texts, details if len(table) <= _MOST_DETAILED else (), low=0.0, high=100.0,
    )  # fmt: skip


_MOST_DETAILED = 12  # classes of a matrix whose fields say their number of rows


def _percent(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 1 or not percent else "<1"
