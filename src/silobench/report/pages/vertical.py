"""The page of vertical runs: parties that hold columns, alignment, sets of test rows, and what crosses the cut."""

from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.page import Page
from silobench.report.vertical import federation_tables, leakage_sections


def vertical_page(contents: Contents) -> Page:
    """Return the page of vertical runs; empty if there are none."""
    tables = federation_tables(contents.cells)
    sections = [*(Section(table.title, (), table) for table in tables), *leakage_sections(contents.cells)]
    return Page("vertical.html", "Vertical", sections, "Parties hold different columns of the same rows.")
