"""Figures in formats that do not exist."""

from wrong_inputs.case import Case, damaged
from wrong_inputs.results import intact

CASES: list[Case] = [
    damaged(
        "whole runs",
        intact,
        "there is no format 'gif' of figures: choose from pdf, png, svg.",
        "report runs --figures gif",
    ),
]
