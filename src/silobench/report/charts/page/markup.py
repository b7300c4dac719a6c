"""A chart as a part of an HTML page."""

from collections.abc import Callable
from typing import Any

from silobench.report.charts import values
from silobench.report.charts.page.bars import bar_markup
from silobench.report.charts.page.density import density_markup
from silobench.report.charts.page.dots import dot_markup
from silobench.report.charts.page.heatmap import heatmap_markup
from silobench.report.charts.page.lines import line_markup
from silobench.report.charts.page.scatter import scatter_markup
from silobench.report.escaping import escape

_PNG = "data:image/png;base64,"


def markup(chart: values.Chart) -> str:
    """Return a chart as well-formed HTML: the page needs charts.css, and charts.js for what moves."""
    if isinstance(chart, values.Panels):
        parts = (f'<div class="chart-panel"><p>{escape(one.title)}</p>{markup(one)}</div>' for one in chart.charts)
        return f'<div class="chart-panels">{"".join(parts)}</div>'
    return _MARKUP[type(chart)](chart)


def _pictures(chart: values.Pictures) -> str:
    rows = []
    for title, addresses, texts in chart.rows:
        boxes = []
        for place, address in enumerate(addresses):
            words = f"<figcaption>{escape(texts[place])}</figcaption>" if texts else ""
            boxes.append(f"<figure>{_picture(address, f'{title} {place + 1}')}{words}</figure>")
        rows.append(f'<p>{escape(title)}</p><div class="chart-strip">{"".join(boxes)}</div>')
    return f'<div class="chart chart-pictures" data-chart="pictures">{"".join(rows)}</div>'


def _picture(address: str, name: str) -> str:
    """Return a picture; only one that is part of the page is shown, and nothing is loaded."""
    if not address.startswith(_PNG):
        return '<span class="chart-picture"></span>'
    return f'<img class="chart-picture" src="{escape(address)}" alt="{escape(name)}"/>'


_MARKUP: dict[type[values.SingleChart], Callable[[Any], str]] = {
    values.LineChart: line_markup, values.BarChart: bar_markup, values.Heatmap: heatmap_markup,
    values.ScatterChart: scatter_markup, values.DensityChart: density_markup, values.DotChart: dot_markup,
    values.Pictures: _pictures,
}  # fmt: skip
