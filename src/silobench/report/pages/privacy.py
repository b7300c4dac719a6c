"""The page of privacy: epsilon over rounds, attacks on rows and messages."""

from silobench.analysis.attacks import attack_tables, party_attack_tables
from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.inversion import inversion_sections
from silobench.report.page import Page
from silobench.report.privacy import privacy_sections


def privacy_page(contents: Contents) -> Page:
    """Return the page of privacy; empty if nobody is protected and nothing was attacked."""
    cells = contents.cells
    attacks = [Section(table.title, (), table) for table in (*attack_tables(cells), *party_attack_tables(cells))]
    sections = [*privacy_sections(cells), *attacks, *inversion_sections(cells)]
    lead = "What the runs promise about the privacy of rows or parties, and what attacks on them achieved."
    return Page("privacy.html", "Privacy", [part for part in sections if part.table.rows or part.drawings], lead)
