"""Charts: where marks are, what texts say, and what no value may break."""

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silobench.report.charts.describe import describe
from silobench.report.charts.page import markup
from silobench.report.charts.page.dots import dot_ruler
from silobench.report.charts.page.lines import apart
from silobench.report.charts.page.texts import coordinate, path
from silobench.report.charts.rulers import ruler, thinned
from silobench.report.charts.shades import fields
from silobench.report.charts.values import (
    Axis,
    BarChart,
    Bars,
    Better,
    Chart,
    DensityChart,
    DotChart,
    Dots,
    Heatmap,
    Level,
    Line,
    LineChart,
    Mark,
    Panels,
    Pictures,
    Point,
    ScatterChart,
    Value,
    pareto,
)

ROUND = Axis("round", scale="whole")
PERCENT = Axis("accuracy", "percent", low=0, high=100)
EVIL = "<script>alert(1)</script>"


def lines(*series: list[Point], x: Axis = ROUND, y: Axis = PERCENT, **more: Any) -> LineChart:
    return LineChart("by round", x, y, [Line(f"m{place}", points) for place, points in enumerate(series)], **more)


def places(steps: str) -> list[tuple[float, float]]:
    """Return the absolute places of a path of steps, as `path` writes it."""
    numbers = [float(one) for one in re.findall(r"-?\d*\.?\d+", steps)]
    found = [(numbers[0], numbers[1])]
    for right, down in zip(numbers[2::2], numbers[3::2], strict=True):
        found.append((found[-1][0] + right, found[-1][1] + down))
    return found


def marks(chart: Chart, name: str) -> list[str]:
    """Return the paths of a class inside of the marks of a chart."""
    root = ElementTree.fromstring(markup(chart))
    inner = next(one for one in root.iter("svg") if one.get("class") == "chart-marks")
    return [one.get("d", "") for one in inner.iter("path") if name in one.get("class", "").split()]


def data(chart: Chart) -> Any:
    """Return the data for the script, as a browser reads them."""
    return json.loads(re.findall(r'class="chart-data">(.*?)</script>', markup(chart))[0])


def ticks(chart: Chart, side: str) -> list[str | None]:
    root = ElementTree.fromstring(markup(chart))
    (group,) = [one for one in root.iter() if side in one.get("class", "").split()]
    return [one.text for one in group.iter("text")]


# --- coordinates --------------------------------------------------------------------------------------


def test_a_point_is_where_its_axes_say() -> None:
    """x from 1 to 5 is 0 to 1000; 100 percent is at the top, y = 0, and 0 percent at the bottom, y = 200."""
    chart = lines([Point(1, 0), Point(2, 100), Point(5, 25)])
    (line,) = marks(chart, "line")
    assert places(line) == [(0, 200), (250, 0), (1000, 150)]
    (dots,) = marks(chart, "dots")
    assert dots == "M0 200h.01M250 0h.01M1000 150h.01"


def test_a_logarithmic_axis_has_equal_factors_at_equal_distances() -> None:
    chart = lines([Point(1, 50), Point(10, 50), Point(100, 50)], x=Axis("epsilon", scale="log"))
    (line,) = marks(chart, "line")
    (a, _), (b, _), (c, _) = places(line)
    assert b - a == pytest.approx(c - b, abs=0.2)  # two roundings to a tenth
    assert (a + c) / 2 == pytest.approx(500, abs=0.1)
    assert ticks(chart, "chart-x") == ["1", "3", "10", "30", "100"]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show() -> None:
    chart = lines([Point(0, 50), Point(1, 50), Point(-1, 40), Point(10, 60)], x=Axis("epsilon", scale="log"))
    assert len(re.findall("M", marks(chart, "dots")[0])) == 2


@pytest.mark.parametrize("values", [(2.3, 4.4), (0.011, 0.019), (6.0, 9.0), (5.0, 5.0)])
def test_a_short_logarithmic_axis_has_ticks_too(values: tuple[float, float]) -> None:
    made = ruler(Axis("lr", scale="log"), values)
    assert len(made.ticks) >= 2
    assert all(made.low <= at <= made.high for at, _ in made.ticks)


def test_a_band_goes_from_mean_minus_spread_to_mean_plus_spread() -> None:
    points = [Point(at, 50, 10) for at in range(21)]
    (band,) = marks(lines(points), "band")
    outline = places(band.removesuffix("z"))
    assert {y for x, y in outline} == {80, 120}
    assert outline[0] == (0, 80)  # the upper edge comes first, from left to right
    assert outline[-1] == (0, 120)
    (bars,) = marks(lines(points[:3]), "whisker")  # few points have bars
    assert bars == "M0 120V80M500 120V80M1000 120V80"


def test_lines_of_the_right_axis_use_it() -> None:
    chart = LineChart(
        "both",
        ROUND,
        PERCENT,
        [Line("a", [Point(0, 50), Point(1, 50)]), Line("b", [Point(0, 2), Point(1, 1)], right=True)],
        Axis("EMD", high=2.0),
    )
    first, second = marks(chart, "line")
    assert [y for _, y in places(first)] == [100, 100]
    assert [y for _, y in places(second)] == [0, 100]
    assert data(chart)["series"][1]["right"] == 1


def test_names_are_at_the_middles_of_their_places() -> None:
    chart = lines([Point(0, 50), Point(1, 60)], x=Axis("partition", names=["iid", "skew"]))
    assert places(marks(chart, "line")[0]) == [(250, 100), (750, 80)]
    assert ticks(chart, "chart-x") == ["iid", "skew"]
    assert data(chart)["axis"]["names"] == ["iid", "skew"]


def test_bars_start_at_zero_and_stand_in_their_groups() -> None:
    two = [Bars("a", [Value(50, 10), None]), Bars("b", [Value(25), Value(100)])]
    chart = BarChart("bars", ["x", "y"], PERCENT, two, levels=[Level("best", 75)])
    first, second = marks(chart, "fill")
    assert re.fullmatch(r"M60 100h178\.6v100h-178\.6z", first)
    assert [box.split("h")[0] for box in second.split("z")[:-1]] == ["M250 150", "M750 0"]
    assert marks(chart, "whisker") == ["M149.3 120V80"]
    assert marks(chart, "level") == ["M0 50H1000"]


def test_stacked_bars_lie_on_each_other() -> None:
    parts = [Bars("train", [Value(3)]), Bars("send", [Value(1)])]
    chart = BarChart("time", ["fedavg"], Axis("time", "s", high=4), parts, stacked=True, horizontal=True)
    first, second = (re.findall(r"M([\d.]+) \S+?h([\d.]+)v", one) for one in marks(chart, "fill"))
    assert (first, second) == ([("0", "750")], [("750", "250")])


def test_groups_with_long_names_lie() -> None:
    names = ["label-dirichlet(beta=0.5) + noise(sigma=0.1)", "iid"]
    chart = BarChart("bars", names, PERCENT, [Bars("a", [Value(1), Value(2)])])
    assert 'data-chart="row"' in markup(chart)
    assert f"<title>{names[0]}</title>" in markup(chart)  # what is shortened is whole under the pointer


def test_names_of_bars_are_whole_on_several_lines() -> None:
    names = ["fedavg · quantize(bits=4), server", "fedavg · quantize(bits=4), mean party"]
    drawn = markup(BarChart("t", names, Axis("time", "s"), [Bars("train", [Value(1.0), Value(2.0)])], horizontal=True))
    ticks = re.findall(r'<text class="tick"[^>]*text-anchor="end">([^<]*)</text>', drawn)
    assert "".join(ticks).replace(" ", "") == "".join(names).replace(" ", "")


def test_numbers_at_the_end_of_an_axis_have_room() -> None:
    chart = DotChart("t", ["a", "b"], Axis("MAE", high=4e6), [Dots("", [Value(0.0), Value(4e6)])])
    made = dot_ruler(chart)
    assert made.ticks[-1] == (4e6, "4,000,000")
    (pad,) = re.findall(r'</svg><svg width="(\d+)" height="1" aria-hidden="true"></svg>', markup(chart))
    assert int(pad) + 18 >= 6.6 * len("4,000,000") / 2  # half of it is beyond the plot; 18 pixels are free anyway
    small = DotChart("t", ["a"], Axis("accuracy", "percent", high=100.0), [Dots("", [Value(50.0)])])
    assert 'height="1"' not in markup(small)


def test_dots_and_posteriors_are_where_their_axes_say() -> None:
    dots = DotChart("dots", ["a", "b"], PERCENT, [Dots("m", [Value(25, 5), None])])
    assert marks(dots, "dots")[0].startswith("M250 ")
    assert marks(dots, "whisker")[0].startswith("M200 ")
    points = [Point(x, 1 - abs(x)) for x in (-1, -0.5, 0, 0.5, 1)]
    density = DensityChart("p", Axis("A - B"), points, (-0.5, 0.5), [("B", 0.1), ("equal", 0.8), ("A", 0.1)])
    assert marks(density, "rope") == ["M250 0V130", "M750 0V130"]
    areas = [places(area.removesuffix("z")) for area in marks(density, "area")]
    assert [(area[0][0], area[-1][0]) for area in areas] == [(0, 250), (250, 750), (750, 1000)]
    assert [key.text for key in ElementTree.fromstring(markup(density)).iter("span") if key.text] == [
        "p(B) = 0.100", "p(equal) = 0.800", "p(A) = 0.100",
    ]  # fmt: skip


# --- heatmaps -----------------------------------------------------------------------------------------


def test_shades_follow_the_numbers() -> None:
    chart = Heatmap("h", ["a", "b"], ["x", "y"], [[0, 1], [5, 10]], unit="rows", low=0)
    shades = [field.shade for field in fields(chart)]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, 1)  # no rows have no shade
    drawn = markup(chart)
    assert [text for text in ("0", "1", "5", "10") if f">{text}</text>" in drawn] == ["1", "5", "10"]
    assert marks(chart, "heat")[-1] == "M1 1h1v1h-1z"


def test_small_errors_have_strong_shades_if_reversed_and_signs_have_colours() -> None:
    small, large = fields(Heatmap("h", ["a"], ["x", "y"], [[1, 2]], is_reversed=True))
    assert small.shade > large.shade
    low, high = fields(Heatmap("h", ["a"], ["x", "y"], [[-2, 1]], scale="diverging"))
    assert (low.is_low, high.is_low) == (True, False)
    assert low.shade == 1 > high.shade


def test_a_large_heatmap_costs_few_letters() -> None:
    size = 60
    chart = Heatmap("h", [f"p{row}" for row in range(size)], [f"c{at}" for at in range(size)],
                    [[float(row * at) for at in range(size)] for row in range(size)])  # fmt: skip
    assert len(markup(chart)) < 25 * size * size
    assert data(chart)["values"][3][4] == 12


# --- axes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "values", "texts", "label"),
    [
        (PERCENT, [10, 90], ["0", "20", "40", "60", "80", "100"], "accuracy, percent"),
        (
            Axis("accuracy", "percent"),
            [99.4, 99.5],
            ["99.40", "99.42", "99.44", "99.46", "99.48", "99.50"],
            "accuracy, percent",
        ),
        (ROUND, [1, 6], ["1", "2", "3", "4", "5", "6"], "round"),
        (ROUND, [1, 1000], ["200", "400", "600", "800", "1,000"], "round"),
        (Axis("traffic", "B"), [0, 4e6], ["0", "1", "2", "3", "4"], "traffic, MB"),
        (Axis("time", "s"), [0, 0.02], ["0", "5", "10", "15", "20"], "time, ms"),
        (Axis("time", "s"), [0, 7200], ["0.0", "0.5", "1.0", "1.5", "2.0"], "time, h"),
        (
            Axis("traffic", "B", "log"),
            [1e3, 1e9],
            ["1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB"],
            "traffic",
        ),
        (Axis("MAE"), [0, 4e14], ["0", "1e+14", "2e+14", "3e+14", "4e+14"], "MAE"),
        (Axis("MAE"), [0, 8e6], ["0", "2,000,000", "4,000,000", "6,000,000", "8,000,000"], "MAE"),
        (Axis("loss"), [0, 1e-9], ["0", "2e-10", "4e-10", "6e-10", "8e-10", "1e-09"], "loss"),
        (Axis("loss"), [-0.3, 0.2], ["-0.3", "-0.2", "-0.1", "0.0", "0.1", "0.2"], "loss"),
    ],
)
def test_ticks_are_round_numbers_in_one_unit(axis: Axis, values: list[float], texts: list[str], label: str) -> None:
    made = ruler(axis, values)
    assert ([text for _, text in made.ticks], made.label) == (texts, label)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=30), st.sampled_from(["linear", "whole", "log"]))
def test_every_axis_holds_its_values(values: list[float], scale: Any) -> None:
    made = ruler(Axis("x", scale=scale), values)
    assert made.low < made.high
    shown = [value for value in values if scale != "log" or value >= 1e-250]
    assert all(-1e-9 <= made.share(value) <= 1 + 1e-9 for value in shown)
    assert all(-1e-6 <= made.share(at) <= 1 + 1e-6 for at, _ in made.ticks)
    assert len(made.ticks) <= 12  # six, or those of many decades


@given(st.lists(st.floats(0, 100), max_size=9), st.floats(5, 10))
def test_names_at_the_ends_of_lines_do_not_touch(tops: list[float], gap: float) -> None:
    moved = apart(sorted(tops), gap, 100)
    assert all(after - before >= gap - 1e-6 for before, after in pairwise(moved))


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 300)), min_size=1, max_size=60))
def test_steps_do_not_drift(spots: list[tuple[float, float]]) -> None:
    """Each place is rounded to a tenth, and errors of steps do not add up."""
    for (x, y), (near_x, near_y) in zip(spots, places(path(spots)), strict=True):
        assert near_x == pytest.approx(x, abs=0.0501)
        assert near_y == pytest.approx(y, abs=0.0501)


def test_coordinates_have_no_minus_zero() -> None:
    assert [coordinate(value) for value in (-0.04, 0.06, -0.5, 100.0)] == ["0", ".1", "-.5", "100"]


# --- long and odd data --------------------------------------------------------------------------------


def test_long_curves_are_thinned_without_losing_extremes() -> None:
    points = [Point(at, math.sin(at / 40), 0.1) for at in range(1000)]
    points[313], points[700] = Point(313, 9.0), Point(700, -7.0)
    short = thinned(points)
    assert len(short) <= 200
    assert {313, 700, 0, 999} <= {point.x for point in short}
    assert [point.x for point in short] == sorted(point.x for point in short)
    assert len(markup(lines(points, y=Axis("loss")))) < 12_000


def test_a_chart_of_seven_series_is_small() -> None:
    curves = [[Point(at, 90 - 60 / at - 3 * place) for at in range(1, 51)] for place in range(7)]
    assert len(markup(lines(*curves))) < 12_000


def test_a_gap_is_a_gap() -> None:
    chart = lines([Point(1, 10), Point(2, 20), Point(3, math.nan), Point(4, math.inf), Point(5, 30), Point(6, 40)])
    (line,) = marks(chart, "line")
    assert line.count("M") == 2
    assert data(chart)["series"][0]["y"] == [10, 20, None, None, 30, 40]
    assert "nan" not in markup(chart).lower()
    assert "inf" not in markup(chart).lower()


ODD: dict[str, Chart] = {
    "nothing": lines(),
    "no point": lines([]),
    "one point": lines([Point(3, 50, 2)]),
    "only gaps": lines([Point(1, math.nan), Point(2, math.inf)]),
    "equal values": lines([Point(1, 5), Point(2, 5)], y=Axis("loss")),
    "zero": lines([Point(0, 0), Point(0, 0)], y=Axis("loss")),
    "huge": lines([Point(1, 1e300), Point(2, -1e300)], y=Axis("loss")),
    "tiny": lines([Point(1, 1e-300), Point(2, 2e-300)], y=Axis("loss")),
    "40 series": lines(*([Point(1, place), Point(2, place + 1)] for place in range(40))),
    "long names": LineChart(
        "n" * 300, ROUND, PERCENT, [Line("w" * 300, [Point(1, 2)]), Line("a b " * 90, [Point(1, 3)])]
    ),
    "no bars": BarChart("b", [], PERCENT, []),
    "empty bars": BarChart("b", ["a"], PERCENT, [Bars("x", [None]), Bars("y", [Value(math.nan, math.nan)])]),
    "negative bars": BarChart("b", ["a", "b"], Axis("gain"), [Bars("x", [Value(-3, 1), Value(2)])]),
    "no fields": Heatmap("h", [], [], []),
    "unknown fields": Heatmap("h", ["a"], ["b"], [[None]]),
    "odd fields": Heatmap("h", ["a"], ["b", "c", "d"], [[math.nan, math.inf, 3.0]], apart=1, frames=[(0, 2)]),
    "no marks": ScatterChart("s", Axis("x", "B", "log"), PERCENT, [], ("lower", "higher")),
    "odd marks": ScatterChart(
        "s",
        Axis("x", scale="log"),
        PERCENT,
        [Mark("a", 0, 5), Mark("b", math.nan, 5), Mark("c", 2, 5, 9, 1)],
        ("higher", "higher"),
    ),
    "an atom": DensityChart(
        "p", Axis("A - B"), [Point(-1, 0), Point(1, 0)], (0, 0), [("B", 0), ("equal", 1), ("A", 0)], 0.0
    ),
    "no rows": DotChart("d", [], PERCENT, [Dots("m", [])]),
    "no dots": DotChart("d", ["a"], PERCENT, [Dots("m", [None]), Dots("n", [Value(math.inf)])]),
    "panels": Panels("p", [lines([Point(1, 2)]), BarChart("b", ["a"], PERCENT, [Bars("x", [Value(1)])])]),
    "pictures": Pictures("p", [("original", [], [])]),
    "evil": BarChart(
        EVIL,
        [EVIL, "b&c"],
        Axis(EVIL, EVIL),
        [Bars(EVIL, [Value(1), Value(2)], texts=[EVIL, EVIL]), Bars('"', [None, Value(1)])],
        EVIL,
        levels=[Level(EVIL, 1)],
    ),
    "evil lines": LineChart(
        EVIL,
        Axis(EVIL, names=[EVIL]),
        Axis(EVIL),
        [Line(EVIL, [Point(0, 1)]), Line("a'b", [Point(0, 2)])],
        levels=[Level(EVIL, 1)],
    ),
    "evil fields": Heatmap(EVIL, [EVIL], [EVIL], [[1.0]], EVIL, EVIL, EVIL, [[EVIL]], [[EVIL]]),
    "evil marks": ScatterChart(
        EVIL, Axis(EVIL), Axis(EVIL), [Mark(EVIL, 1, 2, group=EVIL), Mark("b", 2, 3)], ("lower", "lower")
    ),
    "evil dots": DotChart(
        EVIL, [EVIL], Axis(EVIL), [Dots(EVIL, [Value(1)]), Dots("b", [Value(2)])], EVIL, [Level(EVIL, 1)]
    ),
    "evil pictures": Pictures(EVIL, [(EVIL, [EVIL, f'data:image/png;base64,"{EVIL}'], [EVIL, EVIL])]),
}


@pytest.mark.parametrize("name", ODD)
def test_every_chart_is_well_formed_has_a_text_and_the_same_bytes(name: str) -> None:
    drawn = markup(ODD[name])
    root = ElementTree.fromstring(drawn)
    for plot in (one for one in root.iter("svg") if one.get("role") == "img"):
        assert plot.find("title") is not None
        assert plot.findtext("desc")
    assert describe(ODD[name])
    assert markup(ODD[name]) == drawn
    assert not re.search(r'(?:d|x|y|width|height|points)="[^"]*(nan|inf|e[+-]?\d)', drawn)
    assert "<script>" not in drawn
    assert "style=" not in drawn  # so that a content security policy can forbid it
    for text in re.findall(r'class="chart-data">(.*?)</script>', drawn):
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


@pytest.mark.parametrize("name", [name for name in ODD if name.startswith("evil")])
def test_a_class_named_like_a_script_is_text(name: str) -> None:
    root = ElementTree.fromstring(markup(ODD[name]))
    assert all(one.get("type") == "application/json" for one in root.iter("script"))
    assert any(EVIL in (one.text or "") for one in root.iter() if one.tag != "script")


@pytest.mark.parametrize("name", ["40 series", "long names", "evil", "evil fields", "panels"])
def test_colours_are_classes(name: str) -> None:
    assert not re.search(r'(?:fill|stroke|color)="', markup(ODD[name]))
    assert not re.search(r"#[0-9a-f]{3,6}\b", markup(ODD[name]))


def test_forty_series_differ_in_colour_or_dash() -> None:
    looks = re.findall(r'class="series (s\d)".*?class="line (d\d)"', markup(ODD["40 series"]))
    assert len(looks) == 40
    assert len(set(looks)) == 8 * 4


# --- Pareto front -------------------------------------------------------------------------------------


def beats(a: Mark, b: Mark, better: tuple[Better, Better]) -> bool:
    """Whether a mark is as good as another in both directions, and better in one."""
    gains = [(b.x - a.x) * (1 if better[0] == "lower" else -1), (b.y - a.y) * (1 if better[1] == "lower" else -1)]
    return min(gains) >= 0 and max(gains) > 0


WAY = st.sampled_from(["lower", "higher"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20), st.tuples(WAY, WAY))
def test_the_front_is_what_nobody_beats(spots: list[tuple[int, int]], better: Any) -> None:
    every = [Mark(str(place), x, y) for place, (x, y) in enumerate(spots)]
    expected = {mark.name for mark in every if not any(beats(other, mark, better) for other in every)}
    front = pareto(every, better)
    assert {mark.name for mark in front} == expected
    assert [mark.x for mark in front] == sorted(mark.x for mark in front)


def test_the_front_is_drawn_as_what_can_be_reached() -> None:
    """With a limit of x between two marks of the front, the y of the cheaper one is reached."""
    spots = [Mark("a", 0, 0), Mark("b", 50, 100), Mark("c", 100, 40)]
    square = Axis("x", low=0, high=100), Axis("y", low=0, high=100)
    (front,) = marks(ScatterChart("s", *square, spots, ("lower", "higher")), "front")
    assert front == "M0 240H500V0H1000"
    (front,) = marks(ScatterChart("s", *square, spots, ("higher", "higher")), "front")
    assert front == "M0 0H500V144H1000"


# --- text alternatives --------------------------------------------------------------------------------


def test_descriptions_say_what_the_data_say() -> None:
    chart = LineChart(
        "curves", ROUND, PERCENT,
        [Line("fedavg", [Point(1, 10.1), Point(3, 97), Point(6, 95.3)]), Line("solo", [Point(1, 9), Point(6, 9)])],
        levels=[Level("constant answer", 10)],
    )  # fmt: skip
    assert describe(chart) == (
        "fedavg rises from 10.1 to 95.3 percent from round 1 to 6; its largest value is 97. "
        "solo stays at 9 percent from round 1 to 6. A line marks constant answer at 10."
    )
    bars = BarChart("b", ["iid", "skew"], PERCENT, [Bars("fedavg", [Value(90), None])])
    assert describe(bars) == "fedavg: iid 90 percent."
    heat = Heatmap("h", ["a", "b"], ["x", "y"], [[1, 2], [3, None]], unit="rows")
    assert describe(heat) == "2 rows by 2 columns. From 1 (a, x) to 3 (b, x) rows."
    cost = ScatterChart(
        "s", Axis("traffic", "B"), PERCENT, [Mark("a", 1e6, 90), Mark("b", 2e6, 80)], ("lower", "higher")
    )
    assert describe(cost) == "a: 1 MB, 90 percent. b: 2 MB, 80 percent. Pareto front: a."
    assert "40" not in describe(ODD["40 series"]).split("more")[0][:10]
    assert describe(ODD["40 series"]).endswith("32 more.")


# --- assets -------------------------------------------------------------------------------------------

ASSETS = Path(__file__).parents[2] / "src" / "silobench" / "report" / "assets"


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("place", range(8))
def test_series_are_seen_on_both_grounds_and_in_files(place: int) -> None:
    """WCAG 1.4.11 asks for a contrast of 3 to 1. Files have the light colours."""
    from silobench.report.charts.files.style import PALETTE

    css, site = ((ASSETS / name).read_text() for name in ("charts.css", "site.css"))
    ((light, dark),) = re.findall(rf"--s{place + 1}: light-dark\((#\w+), (#\w+)\)", css)
    for name in ("ground", "raised"):
        ((white, black),) = re.findall(rf"--{name}: light-dark\((#\w+), (#\w+)\)", site)
        assert contrast(light, white) >= 3
        assert contrast(dark, black) >= 3
    assert PALETTE[place] == light


def test_the_script_takes_no_text_as_code() -> None:
    script = (ASSETS / "charts.js").read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|new Function|document\.write|\.on\w+ ?=", script
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script)
