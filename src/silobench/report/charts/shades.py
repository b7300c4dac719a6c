"""The shades of a heatmap: a share of its colour for each number, in few steps."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from silobench.report.charts.rulers import number
from silobench.report.charts.values import Heatmap

STEPS = 20
DARK = 0.62  # shades from here on have light letters on a light page, and dark letters on a dark one
_FAINT = 0.06  # the shade of the smallest number, which is not that of a field without one


@dataclass(frozen=True)
class Field:
    """A field of a heatmap: its number, and its shade from 0 to 1; `is_low` is below 0 in a diverging scale."""

    row: int
    column: int
    value: float
    shade: float
    is_low: bool = False


def ends(chart: Heatmap) -> tuple[float, float]:
    """Return the numbers with the faintest and the strongest shade."""
    known = [value for row in chart.values for value in row if value is not None and math.isfinite(value)]
    if chart.scale == "diverging":
        reach = max((abs(value) for value in (*known, chart.low, chart.high) if value is not None), default=1.0)
        return 0.0, reach or 1.0
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    low, high = (low if chart.low is None else chart.low), (high if chart.high is None else chart.high)
    return (high, low) if chart.is_reversed else (low, high)


def fields(chart: Heatmap) -> Iterator[Field]:
    """Yield the fields with finite numbers."""
    faint, strong = ends(chart)
    for row, line in enumerate(chart.values):
        for column, value in enumerate(line):
            if value is None or not math.isfinite(value):
                continue
            is_low = chart.scale == "diverging" and value < 0
            share = 0.5 if faint == strong else ((abs(value) if is_low else value) - faint) / (strong - faint)
            shade = _FAINT + (1 - _FAINT) * min(max(share, 0.0), 1.0)
            is_nothing = value == 0 and faint == 0  # such as no rows
            yield Field(row, column, value, 0.0 if is_nothing else round(STEPS * shade) / STEPS or 1 / STEPS, is_low)


def words(chart: Heatmap, field: Field) -> str:
    """Return the text of a field: the chart's, or its number; nothing where a count is 0."""
    if chart.texts:
        return chart.texts[field.row][field.column]
    return number(field.value) if field.shade else ""
