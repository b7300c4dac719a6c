"""Figures and the HTML page. Reads analysis only; the same runs give the same bytes."""

from silobench.report.figures import plot_partition
from silobench.report.page import write_report

__all__ = ["plot_partition", "write_report"]
