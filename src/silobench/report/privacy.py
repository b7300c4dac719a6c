"""The section of the page about privacy: epsilon over rounds, who is protected from whom, and attacks beside it."""

from silobench.analysis.groups import Cells, settings_of
from silobench.analysis.methods import setting_name
from silobench.analysis.privacy import UNITS, epsilon_curve, privacy_table
from silobench.analysis.tables import varying
from silobench.report.charts.values import Axis, Line, LineChart, Point
from silobench.report.colours import colours_of
from silobench.report.drawing import Drawing, Section

_MOST = 12  # figures; the table has all settings
_TITLES = {"example": "epsilon of each row", "party": "epsilon of each party"}


def privacy_sections(cells: Cells) -> list[Section]:
    """Return the section about privacy; none if nobody is protected and nothing was attacked."""
    table, names, drawings = privacy_table(cells), varying(cells), list[Drawing]()
    colours = colours_of(cells)
    for setting in settings_of(cells):
        for unit in UNITS:
            curves = {cell.label.text("algorithm"): epsilon_curve(cell, unit) for cell in setting}
            lines = [
                Line(name, [Point(number, value) for number, value in curve], colours[name])
                for name, curve in curves.items()
                if curve
            ]
            if lines:
                title = " · ".join(filter(None, (setting_name(setting[0], names, cells), _TITLES[unit])))
                name = f"{_TITLES[unit]} by round"
                chart = LineChart(name, Axis("round", scale="whole"), Axis("epsilon", low=0.0), lines)
                drawings.append(Drawing(title, chart))
    return [Section(table.title, drawings[:_MOST], table)] if table.rows else []
