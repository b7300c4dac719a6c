"""Figures in formats and places that do not work."""

from wrong_inputs.case import Case, damaged
from wrong_inputs.results import intact

CASES: list[Case] = [
    damaged(
        "whole runs",
        intact,
        "there is no format 'gif' of figures: choose from pdf, png, svg.",
        "report runs --figures gif",
    ),
    damaged(
        "whole runs",
        intact,
        "a.gif must end in .pdf, .svg or .png: the ending selects the format.",
        "compare runs fedavg scaffold --plot a.gif",
    ),
]
