"""The heatmap of a partition."""

from collections.abc import Sequence
from pathlib import Path

from silobench.report.charts.values import Heatmap


def partition_chart(
    counts: Sequence[Sequence[int]], parties: Sequence[str], classes: Sequence[str], label: str = "class"
) -> Heatmap:
    """Return the rows by party and class, or by party and bin of a numeric label."""
    rows = [list(map(float, line)) for line in counts]
    return Heatmap(f"rows by party and {label}", parties, classes, rows, "party", label, "rows", low=0.0)


def plot_partition(chart: Heatmap, path: Path, title: str) -> None:
    """Write the heatmap of a partition as PDF, SVG or PNG by the ending of the path."""
    from silobench.report.charts.files import draw  # loads matplotlib

    draw(chart, path, title)
