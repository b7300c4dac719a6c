"""Charts as values: what is drawn, without how. A page and a file draw the same value.

Numbers are in the units of their axes: a share of 0.95 on an axis in percent is 95.
Numbers that are not finite are left out, so a model that has diverged has a gap and not a point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Scale: TypeAlias = Literal["linear", "log", "whole"]
Better: TypeAlias = Literal["lower", "higher"]


@dataclass(frozen=True)
class Axis:
    """A direction of a chart.

    `unit` is part of the axis title; `B` (bytes) and `s` (seconds) get prefixes that suit the numbers.
    `whole` has ticks at whole numbers only, such as rounds. With `names`, the number `i` is the place of `names[i]`.
    `low` and `high` are the ends where the data do not decide them.
    """

    title: str
    unit: str = ""
    scale: Scale = "linear"
    names: Sequence[str] = ()
    low: float | None = None
    high: float | None = None

    @property
    def label(self) -> str:
        """The title with the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title


class Point(NamedTuple):
    """A place of a line; `spread` is the standard deviation of y, where there is one."""

    x: float
    y: float
    spread: float | None = None


@dataclass(frozen=True)
class Line:
    """Points joined by a line. Published numbers are dashed, with hollow points.

    `colour` is a place in the palette; lines without one get the places in their order.
    """

    name: str
    points: Sequence[Point]
    colour: int | None = None
    published: bool = False
    right: bool = False  # uses the axis on the right


@dataclass(frozen=True)
class Level:
    """A straight line across a chart at one value, such as the score of a constant answer."""

    name: str
    value: float


@dataclass(frozen=True)
class LineChart:
    """Lines over one x; `right` is a second axis for the lines that use it.

    Spreads are bands where a line has many points, else bars. `diagonal` draws the line on which y is x.
    """

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    right: Axis | None = None
    levels: Sequence[Level] = ()
    diagonal: bool = False


class Value(NamedTuple):
    """A number with its standard deviation, where there is one."""

    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class Bars:
    """One bar per group; None where a group has no bar. `marks` are ticks across bars, such as the value of a guess."""

    name: str
    values: Sequence[Value | None]
    colour: int | None = None
    marks: Sequence[float | None] = ()
    texts: Sequence[str] = ()  # at the ends of bars, in place of their numbers


@dataclass(frozen=True)
class BarChart:
    """Bars by group, side by side or stacked on each other.

    Bars are upright where the names of groups fit below them, unless `horizontal` is set.
    """

    title: str
    groups: Sequence[str]
    y: Axis  # of the lengths of bars
    bars: Sequence[Bars]
    group_title: str = ""
    stacked: bool = False
    horizontal: bool = False
    levels: Sequence[Level] = ()


@dataclass(frozen=True)
class Heatmap:
    """Numbers by row and column as shades. `texts` are shown in place of the numbers.

    `sequential` shades go from `low` to `high`, by default the smallest and the largest number; `diverging` shades
    have 0 in the middle. `is_reversed` gives small numbers the strong shades. `frames` are fields with a frame, and the
    last `apart` columns have a gap before them.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    row_title: str = ""
    column_title: str = ""
    unit: str = ""
    texts: Sequence[Sequence[str]] = ()
    details: Sequence[Sequence[str]] = ()  # what a field says under the pointer, in place of its text and unit
    scale: Literal["sequential", "diverging"] = "sequential"
    low: float | None = None
    high: float | None = None
    is_reversed: bool = False
    frames: Sequence[tuple[int, int]] = ()
    apart: int = 0


@dataclass(frozen=True)
class Mark:
    """A named point with standard deviations in both directions. Marks of one group have one colour.

    `colour` is a place in the palette; groups without one get the places in their order.
    """

    name: str
    x: float
    y: float
    x_spread: float | None = None
    y_spread: float | None = None
    group: str = ""
    colour: int | None = None


@dataclass(frozen=True)
class ScatterChart:
    """Named points. `better` says which direction of x and of y is better, and draws the Pareto front."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    better: tuple[Better, Better] | None = None
    levels: Sequence[Level] = ()

    @property
    def groups(self) -> dict[str, int]:
        """The groups of the marks in their order, each with its place in the palette."""
        firsts: dict[str, int | None] = {}
        for mark in self.marks:
            firsts.setdefault(mark.group, mark.colour)
        return {name: place if colour is None else colour for place, (name, colour) in enumerate(firsts.items())}


@dataclass(frozen=True)
class DensityChart:
    """A posterior with its region of practical equivalence, from `rope[0]` to `rope[1]`.

    `parts` are the names and probabilities of the parts below, inside and above the region. A posterior whose whole
    mass is in one point has this `atom` and no points. `colours` are the places of the parts in the palette.
    """

    title: str
    x: Axis
    points: Sequence[Point]
    rope: tuple[float, float]
    parts: Sequence[tuple[str, float]]
    atom: float | None = None
    colours: Sequence[int] = (1, 5, 0)


@dataclass(frozen=True)
class Dots:
    """One dot per row of a dot chart; None where a row has no dot."""

    name: str
    values: Sequence[Value | None]
    colour: int | None = None


@dataclass(frozen=True)
class DotChart:
    """A value per row, such as a party, and method. Each method has a line of its own in the band of a row."""

    title: str
    rows: Sequence[str]
    x: Axis
    dots: Sequence[Dots]
    row_title: str = ""
    levels: Sequence[Level] = ()


@dataclass(frozen=True)
class Pictures:
    """Lines of small pictures: each with its title, data addresses of PNGs, and a text below each picture."""

    title: str
    rows: Sequence[tuple[str, Sequence[str], Sequence[str]]]


@dataclass(frozen=True)
class Panels:
    """Several charts that belong together, side by side where there is room."""

    title: str
    charts: Sequence["SingleChart"]


SingleChart: TypeAlias = LineChart | BarChart | Heatmap | ScatterChart | DensityChart | DotChart | Pictures
Chart: TypeAlias = SingleChart | Panels


def pareto(marks: Sequence[Mark], better: tuple[Better, Better]) -> list[Mark]:
    """Return the marks that no other mark beats, in the order of x: none is as good in both and better in one.

    >>> marks = [Mark("a", 1, 5), Mark("b", 2, 9), Mark("c", 3, 8)]
    >>> [mark.name for mark in pareto(marks, ("lower", "higher"))]
    ['a', 'b']
    """
    sign = [1.0 if way == "lower" else -1.0 for way in better]
    finite = [mark for mark in marks if math.isfinite(mark.x) and math.isfinite(mark.y)]
    front: list[Mark] = []
    best, best_x = math.inf, math.nan
    for mark in sorted(finite, key=lambda mark: (sign[0] * mark.x, sign[1] * mark.y)):
        cost = sign[1] * mark.y
        if cost < best or (cost == best and mark.x == best_x):
            front.append(mark)
            best, best_x = cost, mark.x
    return sorted(front, key=lambda mark: mark.x)
