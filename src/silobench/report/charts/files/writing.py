"""A chart to a file."""

from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from silobench.errors import ConfigError
from silobench.report.charts import values
from silobench.report.charts.files.blocks import bar_figure, dot_figure, draw_bars, heatmap_figure, pictures_figure
from silobench.report.charts.files.curves import density_figure, draw_density, line_figure, scatter_figure
from silobench.report.charts.files.style import STYLE

_FIGURES: dict[type[values.SingleChart], Callable[[Any], Figure]] = {
    values.LineChart: line_figure, values.BarChart: bar_figure, values.Heatmap: heatmap_figure,
    values.ScatterChart: scatter_figure, values.DensityChart: density_figure, values.DotChart: dot_figure,
    values.Pictures: pictures_figure,
}  # fmt: skip
_NO_DATES: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None, "ModDate": None},
    ".png": {"Software": None},
}
_DOTS_PER_INCH = 200  # of a PNG
_ACROSS = 3  # panels
_PANEL = (3.6, 2.3)  # inches
_LETTERS = 58  # of a line above a panel


def draw(chart: values.Chart, path: Path, title: str = "") -> None:
    """Write a chart as PDF, SVG or PNG by the ending of the path. The same chart gives the same bytes."""
    suffix = path.suffix.lower()
    if suffix not in _NO_DATES:
        raise ConfigError(f"{path} must end in .pdf, .svg or .png: the ending selects the format.")
    with matplotlib.rc_context(STYLE):
        figure = _panels(chart) if isinstance(chart, values.Panels) else _FIGURES[type(chart)](chart)
        if title:
            wide = int(figure.get_size_inches()[0] * 16)
            figure.suptitle(fill(title, max(20, wide)), fontsize=8)
        try:
            figure.savefig(path, dpi=_DOTS_PER_INCH, metadata=_NO_DATES[suffix])
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}): choose another place.") from error


def _panels(chart: values.Panels) -> Figure:
    """Return a figure with a panel for each posterior or bar chart."""
    columns = max(1, min(_ACROSS, len(chart.charts)))
    rows, (width, height) = -(-len(chart.charts) // columns), _PANEL
    figure = Figure(figsize=(width * columns, height * rows + 0.4), layout=ConstrainedLayoutEngine(w_pad=0.12))
    for place, panel in enumerate(chart.charts, 1):
        axes = figure.add_subplot(rows, columns, place)
        axes.set_title(fill(panel.title, _LETTERS), fontsize=8, pad=16)
        if isinstance(panel, values.DensityChart):
            draw_density(axes, panel)
        elif isinstance(panel, values.BarChart):
            draw_bars(axes, panel)
        else:
            raise TypeError(f"a panel of a file is a posterior or a bar chart, and not a {type(panel).__name__}")
    figure.suptitle(fill(chart.title, _LETTERS * columns), fontsize=9)
    return figure
