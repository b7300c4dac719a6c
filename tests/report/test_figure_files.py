"""Charts as files for papers: formats, equal bytes, names, and the command."""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest

from commands import call
from silobench.errors import ConfigError, RecordError
from silobench.report.charts.files import draw
from silobench.report.charts.files.blocks import bar_figure, dot_figure
from silobench.report.charts.files.curves import scatter_figure
from silobench.report.charts.files.style import STYLE
from silobench.report.charts.values import (
    Axis,
    BarChart,
    Bars,
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
)
from silobench.report.drawing import Drawing, Section
from silobench.report.figure_files import slug, write_figures
from stored import stored

PERCENT = Axis("accuracy", "percent")
NAMES = ["a", "$x_1$ & <b>"]
BARS = BarChart("bars", NAMES, PERCENT, [Bars("iid", [Value(80, 2), None]), Bars("skew", [Value(70), Value(1)])])
DENSITY = DensityChart("p", Axis("A - B"), [Point(-1, 0), Point(0, 1), Point(1, 0)], (-0.5, 0.5),
                       [("B", 0.1), ("equal", 0.8), ("A", 0.1)])  # fmt: skip
CHARTS: dict[str, Chart] = {
    "lines": LineChart(
        "l",
        Axis("round", scale="whole"),
        PERCENT,
        [
            Line("fedavg", [Point(at, 50 + at, 2.0) for at in range(30)]),
            Line("paper", [Point(1, 60, 1)], published=True),
            Line("EMD", [Point(0, 1), Point(29, 2)], right=True),
        ],
        Axis("EMD"),
        [Level("constant", 10)],
    ),
    "names": LineChart("n", Axis("skew", names=["label-dirichlet(beta=0.5)"] * 6), PERCENT, [Line("a", [Point(0, 1)])]),
    "reliability": LineChart("r", PERCENT, PERCENT, [Line("a", [Point(10, 20), Point(90, 80)])], diagonal=True),
    "bars": BARS,
    "stacked": BarChart(
        "s", NAMES, Axis("time", "s"), [Bars("train", [Value(1), Value(2)])], stacked=True, horizontal=True
    ),
    "heatmap": Heatmap("h", NAMES, ["x", "y"], [[0, 3], [None, 5]], "party", "class", "rows", frames=[(0, 1)]),
    "scatter": ScatterChart(
        "s",
        Axis("traffic", "B", "log"),
        PERCENT,
        [Mark("a", 1e3, 50), Mark("b", 1e6, 60, y_spread=2)],
        ("lower", "higher"),
    ),
    "density": DENSITY,
    "atom": DensityChart(
        "p", Axis("A - B"), [Point(-1, 0), Point(1, 0)], (0, 0), [("B", 0), ("equal", 1), ("A", 0)], 0.0
    ),
    "dots": DotChart("d", NAMES, PERCENT, [Dots("fedavg", [Value(50, 2), None]), Dots("solo", [None, Value(40)])]),
    "panels": Panels("p", [DENSITY, BARS]),
    "pictures": Pictures("p", [("original", ["https://example.org/a.png"], ["text"])]),
    "no lines": LineChart("l", Axis("round", scale="whole"), PERCENT, []),
    "no marks": ScatterChart("s", Axis("x"), PERCENT, [], ("lower", "higher")),
}


@pytest.mark.parametrize("name", CHARTS)
def test_the_same_chart_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    for copy in "ab":
        draw(CHARTS[name], tmp_path / f"{copy}.svg")
    first = (tmp_path / "a.svg").read_text()
    ElementTree.fromstring(first)
    assert (tmp_path / "b.svg").read_text() == first


@pytest.mark.parametrize(("form", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_other_formats_have_no_dates(form: str, start: bytes, tmp_path: Path) -> None:
    for copy in "ab":
        draw(BARS, tmp_path / f"{copy}.{form}")
    content = (tmp_path / f"a.{form}").read_bytes()
    assert content.startswith(start)
    assert content == (tmp_path / f"b.{form}").read_bytes()
    assert not re.search(rb"CreationDate|ModDate|Software", content)


def test_a_figure_has_its_names_and_units(tmp_path: Path) -> None:
    draw(CHARTS["lines"], tmp_path / "a.svg", "digits: iid")
    words = [one.text for one in ElementTree.parse(tmp_path / "a.svg").iter() if one.text]
    assert {"fedavg", "paper", "EMD", "accuracy, percent", "round", "constant", "digits: iid"} <= set(words)


@pytest.mark.parametrize("is_dots", [True, False])
def test_long_names_of_rows_do_not_touch(is_dots: bool) -> None:
    names = [f"{name} · top-k(fraction=0.05) · quantize(bits={bits})" for name in ("fedavg", "solo") for bits in (4, 8)]
    values, level = [Value(50.0)] * len(names), [Level("constant answer", 10.0)]
    dots = DotChart("d", names, PERCENT, [Dots("", values)], levels=level)
    bars = BarChart("b", names, PERCENT, [Bars("", values)], horizontal=True, levels=level)
    with matplotlib.rc_context(STYLE):
        figure = dot_figure(dots) if is_dots else bar_figure(bars)
        figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    assert [one.get_text() for one in axes.texts] == ["constant answer"]


def test_methods_of_one_colour_have_different_dots() -> None:
    """A study of nine methods has two of each colour, and a chart may show just these."""
    dots = DotChart("d", ["iid"], PERCENT, [Dots("a", [Value(50.0)], 0), Dots("b", [Value(60.0)], 8)])
    marks = [Mark("a", 1, 50, group="a", colour=0), Mark("b", 2, 60, group="b", colour=8)]
    for figure in (dot_figure(dots), scatter_figure(ScatterChart("s", Axis("x"), PERCENT, marks))):
        looks = [(line.get_color(), line.get_marker()) for (line, *_) in figure.axes[0].containers]
        assert len(set(looks)) == 2


def test_a_wrong_ending_and_a_wrong_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.gif must end in \.pdf, \.svg or \.png"):
        draw(BARS, tmp_path / "a.gif")
    with pytest.raises(ConfigError, match="cannot be written"):
        draw(BARS, tmp_path / "none" / "a.svg")


def test_files_are_named_by_sections_and_titles(tmp_path: Path) -> None:
    drawings = [Drawing("digits · label-count(k=1)", BARS), Drawing("../../etc/passwd", BARS), Drawing("", BARS)]
    sections = [Section("Curves", drawings), Section("CON: <b>", drawings[:1])]
    names = [path.name for path in write_figures(sections, tmp_path / "figures", "svg")]
    assert names == [
        "01-curves-01-digits-label-count-k-1.svg", "01-curves-02-etc-passwd.svg", "01-curves-03-bars.svg",
        "02-con-b-01-digits-label-count-k-1.svg",
    ]  # fmt: skip
    (tmp_path / "figures" / "100-curves-01-bars.svg").write_text("of an earlier report with many sections")
    for name in ("mine.svg", "01-mine.svg", "2026-11-20-mine.svg", "01-mine-2026-final.svg"):
        (tmp_path / "figures" / name).write_text("mine")
    write_figures(sections[1:], tmp_path / "figures", "svg")  # earlier figures go, other files stay
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "01-con-b-01-digits-label-count-k-1.svg", "01-mine-2026-final.svg", "01-mine.svg", "2026-11-20-mine.svg",
        "mine.svg",
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        write_figures(sections, tmp_path / "file", "svg")


def test_long_titles_fit_into_file_names() -> None:
    assert len(slug("x" * 999)) == 70
    assert slug("...") == slug("/") == "figure"


@pytest.mark.parametrize(
    ("output", "figures"), [("elsewhere", "elsewhere/figures"), ("page.html", "figures"), (None, "runs/figures")]
)
def test_figures_are_where_the_report_is(
    output: str | None, figures: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored([0.5, 0.6], out=tmp_path / "runs")
    place = ["--output", tmp_path / output] if output else []
    for _ in range(2):  # figures in the folder of a report are not in the way of the next one
        assert call(capsys, "report", tmp_path / "runs", "--figures", "svg", *place).code == 0
    assert {path.parent for path in tmp_path.rglob("*.svg")} == {tmp_path / figures}


def test_report_writes_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    for seed in range(2):
        for algorithm in ("fedavg", "scaffold"):
            stored([0.5, 0.6 + seed / 100], seed=seed, algorithm=algorithm, out=runs)
    result = call(capsys, "report", runs, "--figures", "svg")
    assert result.code == 0
    files = sorted((runs / "figures").glob("*.svg"))
    assert f"figures: {len(files)} svg files in " in result.out.replace("\n", "")
    assert any("fedavg" in path.read_text() for path in files)
    wrong = call(capsys, "report", runs, "--figures", "gif")
    assert (wrong.code, "there is no format 'gif' of figures" in wrong.err) == (2, True)


def test_a_report_is_not_written_into_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored([0.1, 0.5], out=tmp_path)
    (run,) = tmp_path.glob("*/run.json")
    before = sorted(run.parent.iterdir())
    for place in (tmp_path, run.parent):
        refusal = call(capsys, "report", tmp_path, "--output", place)
        assert refusal.code == 2
        assert f"{place} holds runs, and a report needs a folder of its own" in refusal.err
    assert sorted(run.parent.iterdir()) == before
