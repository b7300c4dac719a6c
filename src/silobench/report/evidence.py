"""Sections of the page about evidence and costs: posteriors of the best algorithms, and time by part."""

from collections.abc import Mapping

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.costs import PARTS
from silobench.analysis.groups import Cells, grouped
from silobench.analysis.posterior import duels, duels_table
from silobench.analysis.tables import varying
from silobench.analysis.time_tables import BARS, decomposition_table, phases_tables, time_table
from silobench.analysis.units import duration
from silobench.report.drawing import Drawing, Section, caption
from silobench.report.posteriors import posterior_svg
from silobench.report.svg import GREY, LETTER, svg, text

_MOST = 6  # posteriors; the table has all pairs
_MOST_SETTINGS = 12  # figures of bars; the table has all settings
_COLOURS = ("#1b6ca8", "#00a6a6", "#8d5fd3", "#d1495b", "#e09f3e", "#2e933c", "#d8dee3")  # of parts; idle is pale
_LINE = 14  # pixels of a line of text
_BAR = 12  # pixels
_METHOD = ("algorithm", "transforms", "broadcast")  # what differs between the bars of one figure


def posterior_sections(cells: Cells) -> list[Section]:
    """Return the posteriors of the best algorithm against others; empty if no setting has two shared seeds."""
    pairs, names = duels(cells), varying(cells)
    drawings = [
        Drawing(
            f"{caption(duel.a, names, cells)}: A = {duel.names[0]}, B = {duel.names[1]}: {duel.verdict}",
            posterior_svg(duel.pairs, duel.question),
        )
        for duel in pairs[:_MOST]
    ]
    table = duels_table(pairs, cells)
    return [Section(table.title, drawings, table)] if pairs else []


def time_sections(cells: Cells) -> list[Section]:
    """Return convergence, throughput, overhead and ratios; the time of server and parties as bars; phases."""
    settings = grouped(cells, lambda cell: cell.label.without(*_METHOD))
    names = [name for name in varying(cells) if name not in _METHOD]
    drawings = [
        Drawing(caption(setting[0], names, cells), stacked_svg(bars))
        for setting in settings
        if (bars := _bars(setting))
    ]
    sections = [
        Section("Time and communication", [], time_table(cells, by_partition=True)),
        Section("Time of server and parties", drawings[:_MOST_SETTINGS], decomposition_table(cells)),
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


def stacked_svg(bars: Mapping[str, Mapping[str, float]]) -> str:
    """Return bars below each other, each a row of parts in seconds; a part names itself under the pointer."""
    used = [part for part in PARTS if any(times[part] for times in bars.values())]
    longest = max(sum(times.values()) for times in bars.values())
    left, width, top = 10 + LETTER * max(map(len, bars)), 300, 2 * _LINE
    bottom, marks = top + (_BAR + 4) * len(bars), []
    end = 6.0  # of the legend
    for part in used:
        marks.append(f'<rect x="{end:g}" y="4" width="9" height="9" fill="{_COLOURS[PARTS.index(part)]}"/>')
        marks.append(text(end + 12, 12, part))
        end += 26 + LETTER * len(part)
    for share in (0.0, 0.5, 1.0):
        x = left + share * width
        marks.append(f'<path d="M{x:g} {top - 4}V{bottom}" stroke="{GREY}"/>')
        marks.append(text(x, bottom + _LINE, duration(share * longest), anchor="middle"))
    for place, (name, times) in enumerate(bars.items()):
        x, y = left, top + (_BAR + 4) * place
        marks.append(text(left - 6, y + _BAR - 2, name, anchor="end"))
        for part in used:
            wide = width * times[part] / longest if longest else 0.0
            title = f"<title>{part} {duration(times[part])}</title>"
            colour = _COLOURS[PARTS.index(part)]
            marks.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_BAR}" fill="{colour}">{title}</rect>')
            x += wide
    return svg(max(end, left + width + 24), bottom + _LINE + 6, marks)
