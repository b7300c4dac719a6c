"""Charts as files by matplotlib: PDF, SVG or PNG, for papers. The same chart gives the same bytes."""

from silobench.report.charts.files.writing import draw

__all__ = ["draw"]
