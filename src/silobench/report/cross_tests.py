"""The heatmap of a cross-test."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.cross_tests import CrossLine, cross_lines, is_by_group
from silobench.report.charts.values import Heatmap
from silobench.report.drawing import Drawing
from silobench.tasks.metrics import Metric


def cross_drawing(setting: Sequence[CellResult]) -> Drawing | None:
    """Return the heatmap of a setting; None where all parties share a model and are not groups."""
    lines = cross_lines(setting)
    is_interesting = is_by_group(setting[0]) or any(line.party is not None for line in lines)
    if len(lines) < 2 or not is_interesting:
        return None
    metric = setting[0].metric
    note = "Models down, test rows across; a stronger colour is better, and own rows have a frame."
    return Drawing(f"cross-test, {metric.heading}", cross_chart(lines, metric), note)


def cross_chart(lines: Sequence[CrossLine], metric: Metric) -> Heatmap:
    """Return a heatmap with models down and the test rows of parties across, and all test rows apart.

    The strongest shade is the best value. Numbers are means over trials; under the pointer is the deviation too. The
    fields of a party's model on its own rows have a frame.
    """
    tests = lines[0].tests
    return Heatmap(
        f"{metric.title} of each model on the test rows of each party",
        [line.name for line in lines],
        tests,
        [[None if mean is None else metric.factor * mean for mean in line.means] for line in lines],
        "model",
        "test rows",
        metric.unit_text,
        texts=[["" if mean is None else metric.number(mean) for mean in line.means] for line in lines],
        details=[
            ["" if mean is None else line.text(place, metric) for place, mean in enumerate(line.means)]
            for line in lines
        ],
        is_reversed=not metric.higher_is_better,
        frames=[
            (row, place)
            for row, line in enumerate(lines)
            for place, name in enumerate(tests[:-1])
            if line.party == name
        ],
        apart=1,
    )
