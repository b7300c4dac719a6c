"""Sections of the page for measures of any kind: each finding over rounds, and the last values in a table."""

from collections.abc import Collection, Mapping

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, settings_of
from silobench.analysis.measured import cells_with, finding_curve, findings_of, measure_table, measures_of
from silobench.analysis.methods import setting_name
from silobench.analysis.tables import varying
from silobench.report.charts.values import Axis, Line, LineChart, Point
from silobench.report.drawing import Drawing, Section

_MOST = 12  # figures of one measure; the table has all findings


def measure_sections(cells: Cells, colours: Mapping[str, int], but: Collection[str] = ()) -> list[Section]:
    """Return a section for each measure, except those in `but`; `colours` has the place of each algorithm."""
    return [_section(cells_with(cells, name), name, colours) for name in measures_of(cells, but)]


def _section(cells: list[CellResult], measure: str, colours: Mapping[str, int]) -> Section:
    drawings = [drawing for setting in settings_of(cells) for drawing in _drawings(setting, measure, cells, colours)]
    return Section(f"Measure {measure}", drawings[:_MOST], measure_table(cells, measure))


def _drawings(setting: list[CellResult], measure: str, cells: Cells, colours: Mapping[str, int]) -> list[Drawing]:
    """Return a figure for each finding, with a line per algorithm."""
    drawings = []
    for name in dict.fromkeys(name for cell in setting for name in findings_of(cell, measure)):
        lines = [
            Line(algorithm, [Point(at, over.mean, over.std) for at, over in curve], colours[algorithm])
            for algorithm, cell in ((cell.label.text("algorithm"), cell) for cell in setting)
            if (curve := finding_curve(cell, measure, name))
        ]
        if lines:
            title = " · ".join(filter(None, (setting_name(setting[0], varying(cells), cells), name)))
            chart = LineChart(f"{name} by round", Axis("round", scale="whole"), Axis(name), lines)
            drawings.append(Drawing(title, chart))
    return drawings
