"""Figures of posteriors: the density of a mean difference, with the region of practical equivalence as two lines.

They are those of OARF (Hu et al., 2022, Figures 2 and 3).
"""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine as _Layout
from numpy.typing import NDArray

from silobench.analysis.bayes import Posterior
from silobench.analysis.compare import Comparison, Paired
from silobench.analysis.comparison_table import comparison_title
from silobench.analysis.quantities import Question
from silobench.errors import ConfigError
from silobench.report.figures import COLOURS, STYLE, svg_of, write_figure

_MOST = 24  # panels of a figure
_ACROSS = 3
_PANEL = (3.6, 2.0)  # inches
_LETTERS = 58  # of a line above a panel
_POINTS = 101
_INK = "#1c2733"


def posterior_svg(pairs: Paired, question: Question) -> str:
    """Return the figure of one posterior of A - B, as SVG text."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=_PANEL, layout="constrained")
        _draw(figure.add_subplot(), pairs, question)
        return svg_of(figure)


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Write the posteriors of a comparison, one panel per setting, as PNG or SVG by the ending of the path."""
    panels = [pairs for pairs in comparison.settings if pairs.posterior]
    if not panels:
        raise ConfigError(
            "no setting has two pairs of trials or more, so there is no posterior to draw: run more trials, or leave "
            "out --plot."
        )
    with matplotlib.rc_context(STYLE):
        write_figure(_figure(comparison, panels[:_MOST]), path)


def _figure(comparison: Comparison, panels: Sequence[Paired]) -> Figure:
    columns = min(_ACROSS, len(panels))
    rows, (width, height) = -(-len(panels) // columns), _PANEL
    figure = Figure(figsize=(width * columns, (height + 0.3) * rows + 0.4), layout=_Layout(w_pad=0.12))
    for place, pairs in enumerate(panels, 1):
        axes = figure.add_subplot(rows, columns, place)
        verdict = pairs.verdict(*comparison.names)
        axes.set_title(fill(f"{pairs.setting}: {verdict}", _LETTERS), fontsize=8, pad=16)
        _draw(axes, pairs, comparison.question)
    figure.suptitle(fill(comparison_title(comparison), _LETTERS * columns), fontsize=9)
    return figure


def _draw(axes: Axes, pairs: Paired, question: Question) -> None:
    """Draw the density, the region of practical equivalence, and the probabilities of its three parts."""
    posterior, odds = pairs.posterior, pairs.odds
    assert posterior is not None
    assert odds is not None
    factor, rope, x = question.factor, question.rope, _points(posterior, question.rope)
    sides = [("A", odds.better_a, COLOURS[0]), ("B", odds.better_b, COLOURS[1])]
    below, above = sides[::-1] if question.kind.higher_is_better else sides
    parts = (below, ("equal", odds.equal, COLOURS[5]), above)
    if posterior.scale:
        y = np.array([posterior.density(float(at)) for at in x]) / factor
        for (_, _, colour), inside in zip(parts, (x <= -rope, np.abs(x) <= rope, x >= rope), strict=True):
            axes.fill_between(factor * x, y, where=inside.tolist(), color=colour, alpha=0.4, linewidth=0)
        axes.plot(factor * x, y, color=_INK, linewidth=1.2)
        axes.set_ylim(0, 1.08 * float(y.max()))
    else:  # all differences are the same, so all mass is in one point
        axes.axvline(factor * posterior.mean, color=_INK, linewidth=1.6)
    for edge in (-rope, rope):
        axes.axvline(factor * edge, color=COLOURS[4], linewidth=1.3)
    for place, (name, mass, colour) in enumerate(parts):
        align = ("left", "center", "right")[place]
        text = f"p({name}) = {mass:.3f}"
        axes.text(place / 2, 1.02, text, color=colour, ha=align, va="bottom", transform=axes.transAxes)
    axes.set_xlim(factor * float(x[0]), factor * float(x[-1]))
    axes.set_yticks([])
    axes.set_xlabel(f"A - B, {question.unit}")
    axes.spines[["top", "right", "left"]].set_visible(False)


def _points(posterior: Posterior, rope: float) -> NDArray[np.float64]:
    """Return the differences at which to draw: all that matter, with enough points where the density is high."""
    low, high = posterior.interval(0.98 if posterior.dof > 1 else 0.9)
    low, high = min(low, -1.3 * rope), max(high, 1.3 * rope)
    if low == high:
        low, high = -1.0, 1.0
    margin = 0.04 * (high - low)
    ends = np.linspace(low - margin, high + margin, _POINTS)
    near = posterior.mean + 6 * posterior.scale * np.linspace(-1, 1, _POINTS)
    inside = near[(near >= ends[0]) & (near <= ends[-1])]
    return np.unique(np.concatenate([ends, inside, [-rope, rope]]))
