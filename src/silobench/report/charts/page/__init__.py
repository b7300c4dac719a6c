"""Charts as parts of an HTML page. `markup` returns well-formed text that is readable without a script.

Sizes: heights are pixels, and widths are what the page has. The marks of a chart are in a nested SVG whose x goes from
0 to 1000 and is stretched to the width, with strokes and texts that are not stretched. So letters have the same size on
a phone, and zooming is a change of the nested `viewBox`.

Escaping: texts and attributes by `html.escape`; in the JSON for the script, `<`, `>` and `&` are `\\u003c`,
`\\u003e` and `\\u0026`, so no text can end the script element. Colours are classes, which charts.css fills from
custom properties.

Names for tests and styles, which stay the same:

| selector | is |
|---|---|
| `.chart[data-chart=line, bar, row, heatmap, scatter, density, dot, pictures]` | a chart; `row` is bars that lie |
| `.chart-panels` | several charts that belong together |
| `.chart-legend .chart-key[data-series]` | an entry of the legend; the script makes it a button with `aria-pressed` |
| `.chart-body` | axes and plot; the script makes it focusable |
| `svg.chart-plot[role=img]` | the plot, with `<title>` and `<desc>` until the script moves the title to `aria-label` |
| `svg.chart-marks` | the nested SVG; `viewBox="0 0 1000 HEIGHT"` unless the reader has zoomed |
| `.series[data-series]` | the marks of a series; `.is-hidden` after it was toggled off |
| `.chart-ends [data-of]`, `[data-of]` | names at the ends of lines and beside points, by their series |
| `.chart-x .tick`, `.chart-y .tick` | texts at the axes |
| `script.chart-data` | the data as JSON |
| `.chart-tip`, `.chart-live` | what the script adds: the values under the pointer, and the same for screen readers |
| `.chart.is-zoomed`, `.chart-reset` | the state after zooming, and the button that ends it |
"""

from silobench.report.charts.page.markup import markup

__all__ = ["markup"]
