"""Sections of the page about evidence and costs: posteriors of the best algorithms, and time by part."""

from collections.abc import Mapping
from itertools import islice

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.costs import PARTS
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.methods import setting_name
from silobench.analysis.posterior import duels, duels_table
from silobench.analysis.tables import varying
from silobench.analysis.time_tables import BARS, decomposition_table, phases_tables, time_table
from silobench.report.charts.values import Axis, BarChart, Bars, Value
from silobench.report.drawing import Drawing, Section
from silobench.report.posteriors import posterior_chart

_MOST = 6  # posteriors; the table has all pairs
_MOST_SETTINGS = 12  # figures of bars; the table has all settings
_COLOURS = (0, 4, 6, 1, 3, 2, 21)  # of parts, in the palette; idle is a pale grey
_METHOD = ("algorithm", "transforms", "broadcast")  # what differs between the bars of one figure


def posterior_sections(cells: Cells) -> list[Section]:
    """Return the posteriors of the best algorithm against others; empty if no setting has two shared seeds."""
    pairs, names = duels(cells), varying(cells)
    drawings = [
        Drawing(
            f"{setting_name(duel.a, names, cells)}: A = {duel.names[0]}, B = {duel.names[1]}: {duel.verdict}",
            posterior_chart(duel.pairs, duel.question),
        )
        for duel in pairs[:_MOST]
    ]
    table = duels_table(pairs, cells)
    return [Section(table.title, drawings, table)] if pairs else []


def time_sections(cells: Cells) -> list[Section]:
    """Return convergence, throughput, overhead and ratios; the time of server and parties as bars; phases."""
    settings = grouped(cells, lambda cell: cell.label.without(*_METHOD))
    names = [name for name in varying(cells) if name not in _METHOD]
    drawings = (
        Drawing(setting_name(setting[0], names, cells), stacked_chart("time of server and parties, by part", bars))
        for setting in settings
        if (bars := _bars(setting))
    )
    few = list(islice(drawings, _MOST_SETTINGS))
    sections = [
        Section("Time and communication", [], time_table(cells, by_partition=True)),
        Section("Time of server and parties", few, decomposition_table(cells)),
        *(Section(table.title.partition(" (")[0], [], table) for table in phases_tables(cells)),
    ]
    return [section for section in sections if section.table.rows]


def _bars(setting: list[CellResult]) -> dict[str, dict[str, float]]:
    """Return the seconds of each part, by the name of the bar."""
    bars = {}
    for cell in setting:
        method = " · ".join(filter(None, map(cell.label.text, _METHOD)))
        for bar, times in costs.mean_decomposition(cell.runs).items():
            bars[f"{method}, {BARS[bar]}"] = times
    return bars


def stacked_chart(title: str, bars: Mapping[str, Mapping[str, float]]) -> BarChart:
    """Return bars below each other, each a row of parts in seconds."""
    used = [part for part in PARTS if any(times[part] for times in bars.values())]
    series = [Bars(part, [Value(times[part]) for times in bars.values()], _COLOURS[PARTS.index(part)]) for part in used]
    return BarChart(title, list(bars), Axis("time", "s"), series, stacked=True, horizontal=True)
