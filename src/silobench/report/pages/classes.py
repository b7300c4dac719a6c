"""The page of final tests by class and by party: own test rows, cross-tests, confusions and reliability."""

from dataclasses import replace
from itertools import islice

from silobench.analysis.groups import settings_of
from silobench.analysis.methods import setting_name
from silobench.analysis.tables import varying
from silobench.report.contents import Contents
from silobench.report.final import final_section
from silobench.report.page import Page

_OPEN = 1  # settings that are shown at once
_MOST = 100  # settings: the page has about 100 kB for each
_LEAD = (
    "The final test of each setting. A reliability line below the diagonal is a model that is too sure of its answers. "
    "Of a confusion matrix, lines are classes, columns are answers, and numbers are percent of the rows of the class, "
    "over all trials."
)


def classes_page(contents: Contents) -> Page:
    """Return the page of classes and parties; empty if no run has a final test."""
    cells = contents.cells
    names = varying(cells) if cells else []
    settings = settings_of(cells)
    each = (final_section(setting, setting_name(setting[0], names, cells), contents.colours) for setting in settings)
    sections = list(islice((section for section in each if section), _MOST))
    left_out = len(settings) - _MOST if len(sections) == _MOST else 0
    note = f" The first {_MOST} of {len(settings)} settings are shown; `silobench show DIR --details` has all." * (
        left_out > 0
    )
    shown = [replace(section, is_folded=place >= _OPEN, is_dense=True) for place, section in enumerate(sections)]
    return Page("classes.html", "Classes and parties", shown, _LEAD + note)
