"""The page of statistics: ranks over settings, posteriors of the leaders, and details behind the scores."""

from silobench.analysis.details import details_tables
from silobench.analysis.ranking import ranking_tables
from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.evidence import posterior_sections
from silobench.report.page import Page

_LEAD = "How sure the differences are: ranks with ties, and the posterior of each lead."


def statistics_page(contents: Contents) -> Page:
    """Return the page of statistics."""
    cells = contents.cells
    ranks = [Section(table.title, (), table) for table in ranking_tables(cells) if len(table.rows) > 1] if cells else []
    details = [Section(table.title, (), table) for table in details_tables(cells)] if cells else []
    return Page("statistics.html", "Statistics", [*ranks, *posterior_sections(cells), *details], _LEAD)
