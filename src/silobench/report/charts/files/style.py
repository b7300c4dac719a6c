"""How charts look in files: the palette of the page on white, small letters, no frame."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from silobench.report.charts.rulers import Ruler
from silobench.report.charts.values import Level

STYLE: Any = {
    "text.parse_math": False,
    "svg.hashsalt": "silobench",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # letters stay letters, as publishers require
    "font.size": 8,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
}
PALETTE = ("#1238b0", "#b02410", "#2b7a4b", "#a8801f", "#0a95c8", "#66717c", "#8a358c", "#7a78e8")  # as charts.css
INK, SOFT, HEAT, HEAT_LOW = "#17212b", "#53616e", "#04356e", "#7a2500"
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.5)), (0, (6, 1.5, 1.2, 1.5)))
WIDTH = 4.2  # inches
_LEGEND_SIZE = 7  # points of its letters
_LETTER, _MARK, _LEGEND_LINE = 0.06, 0.5, 0.15  # inches of a letter, of a mark, and of a line of text
_MOST_COLUMNS = 4


def colour(place: int) -> str:
    """Return a colour of the palette."""
    return PALETTE[place % len(PALETTE)]


def strength(place: int) -> float:
    """Return the strength of a fill, which tells it from others of the same colour."""
    return (1.0, 0.65, 0.4, 0.25)[place // len(PALETTE) % 4]


def marker(place: int) -> str:
    """Return the form of a dot, which tells it from others of the same colour, as on the page."""
    return "os"[place // len(PALETTE) % 2]


def dash(place: int) -> Any:
    """Return the dash that tells a series from others of the same colour."""
    return DASHES[place // len(PALETTE) % len(DASHES)]


@dataclass(frozen=True)
class Legend:
    """The legend above a figure: names in as many columns as fit into its width, and long names on several lines."""

    names: Sequence[str]  # with line breaks
    columns: int

    @classmethod
    def of(cls, names: Sequence[str], width: float) -> "Legend":
        """Return the legend of a figure of some inches.

        >>> Legend.of(["fedavg", "solo"], 3.4).columns, Legend.of(["split(noise(deviation=1.0, at=both))"], 3.4).columns
        (2, 1)
        """
        longest = max(map(len, names), default=1)
        fit = int(width / (_MARK + _LETTER * longest))
        wrapped = [textwrap.fill(name, int((width - _MARK) / _LETTER)) for name in names]
        return cls(wrapped, max(1, min(fit, _MOST_COLUMNS, len(names))))

    @property
    def height(self) -> float:
        """The height in inches that the figure needs for it."""
        if not self.names:
            return 0.0
        each = -(-len(self.names) // self.columns)  # names below each other
        columns = [self.names[start : start + each] for start in range(0, len(self.names), each)]
        return _LEGEND_LINE * max(sum(name.count("\n") + 1 for name in column) for column in columns)

    def draw(self, figure: Figure, handles: Sequence[Any]) -> None:
        """Add it to a figure; `handles` has the line or the bars of each name."""
        if self.names:
            figure.legend(
                handles,
                self.names,
                loc="outside upper center",
                ncols=self.columns,
                frameon=False,
                fontsize=_LEGEND_SIZE,
            )


def figure_of(width: float, height: float) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), layout="constrained")


def set_axis(axes: Axes, which: str, ruler: Ruler, turn: bool = False) -> None:
    """Give one axis of a figure, x or y, the ends, ticks and title of a ruler."""
    axis = getattr(axes, f"{which}axis")
    if ruler.is_log:
        getattr(axes, f"set_{which}scale")("log")
    margin = 0.015 * (ruler.high - ruler.low) if ruler.axis.scale == "whole" else 0.0  # dots at the ends are whole
    getattr(axes, f"set_{which}lim")(ruler.low - margin, ruler.high + margin)
    axis.set_major_locator(FixedLocator([at for at, _ in ruler.ticks]))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    names = [textwrap.shorten(words, 28, placeholder="…") if ruler.axis.names else words for _, words in ruler.ticks]
    axis.set_ticklabels(names, **({"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if turn else {}))
    getattr(axes, f"set_{which}label")(ruler.label)
    axis.set_tick_params(length=2, width=0.6)


def set_grid(axes: Axes, which: str) -> None:
    """Draw pale lines at the ticks of an axis."""
    axes.grid(alpha=0.3, linewidth=0.5, axis=which)  # type: ignore[arg-type]


def draw_levels(axes: Axes, levels: Sequence[Level], is_upright: bool = False) -> None:
    """Draw dotted lines at levels, with their names."""
    for level in levels:
        if is_upright:
            axes.axvline(level.value, color=SOFT, linewidth=0.9, linestyle=":")
            at, place, align = (level.value, 1.0), axes.get_xaxis_transform(), "center"
        else:
            axes.axhline(level.value, color=SOFT, linewidth=0.9, linestyle=":")
            at, place, align = (0.995, level.value), axes.get_yaxis_transform(), "right"
        axes.text(*at, level.name, transform=place, ha=align, va="bottom", fontsize=6.5, color=SOFT)
