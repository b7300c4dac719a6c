"""Charts of posteriors: the density of a mean difference, with the region of practical equivalence as two lines.

They are those of OARF (Hu et al., 2022, Figures 2 and 3).
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from silobench.analysis.bayes import Posterior
from silobench.analysis.compare import Comparison, Paired
from silobench.analysis.comparison_table import comparison_title
from silobench.analysis.quantities import Question
from silobench.errors import ConfigError
from silobench.report.charts.values import Axis, DensityChart, Panels, Point

_MOST = 24  # panels of a figure
_POINTS = 101
_COLOURS = {"A": 0, "B": 1, "equal": 5}


def posterior_chart(
    pairs: Paired, question: Question, title: str = "posterior of the difference A - B"
) -> DensityChart:
    """Return the chart of one posterior of A - B."""
    posterior, odds = pairs.posterior, pairs.odds
    assert posterior is not None
    assert odds is not None
    factor, rope = question.factor, question.rope
    sides = [("A", odds.better_a), ("B", odds.better_b)]
    below, above = sides[::-1] if question.kind.higher_is_better else sides
    parts = (below, ("equal", odds.equal), above)
    points = [
        Point(factor * float(at), posterior.density(float(at)) / factor if posterior.scale else 0.0)
        for at in _points(posterior, rope)
    ]
    return DensityChart(
        title,
        Axis("A - B", question.unit),
        points,
        (-factor * rope, factor * rope),
        parts,
        None if posterior.scale else factor * posterior.mean,  # all differences are the same: the mass is in one point
        [_COLOURS[name] for name, _ in parts],
    )


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Write the posteriors of a comparison, one panel per setting, as PDF, SVG or PNG by the ending of the path."""
    from silobench.report.charts.files import draw  # loads matplotlib

    panels = [pairs for pairs in comparison.settings if pairs.posterior]
    if not panels:
        raise ConfigError(
            "no setting has two pairs of trials or more, so there is no posterior to draw: run more trials, or leave "
            "out --plot."
        )
    charts = [
        posterior_chart(pairs, comparison.question, f"{pairs.setting}: {pairs.verdict(*comparison.names)}")
        for pairs in panels[:_MOST]
    ]
    draw(Panels(comparison_title(comparison), charts), path)


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
