"""The page of costs: the score against bytes and time, tables of costs, and where the time went."""

from silobench.analysis.groups import by_metric
from silobench.analysis.tables import cost_table
from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.evidence import time_sections
from silobench.report.headline import trade_offs
from silobench.report.page import Page

_BYTES = "Bytes are those of the messages, summed over parties and rounds."


def cost_page(contents: Contents) -> Page:
    """Return the page of costs."""
    cells = contents.cells
    if not cells:
        return Page("cost.html", "Cost")
    drawings = [drawing for group in by_metric(cells) for drawing in trade_offs(group, contents.colours)]
    fronts = [Section("What a score costs", drawings)] if drawings else []
    sections = [*fronts, Section("Cost of a run", (), cost_table(cells), [_BYTES]), *time_sections(cells)]
    return Page("cost.html", "Cost", sections, "What methods send and how long they take, beside what they reach.")
