"""The page of final tests by class and by party: own test rows, cross-tests, confusions and reliability."""

from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.final import final_section
from silobench.report.page import Page

_OPEN = 3  # settings that are shown at once
_LEAD = (
    "The final test of each setting. A reliability line below the diagonal is a model that is too sure of its answers. "
    "Of a confusion matrix, lines are classes, columns are answers, and numbers are percent of the rows of the class, "
    "over all trials."
)


def classes_page(contents: Contents) -> Page:
    """Return the page of classes and parties; empty if no run has a final test."""
    return Page("classes.html", "Classes and parties", [], _LEAD)
