"""Charts of a whole study."""

from typing import Any

import pytest

from silobench.analysis.methods import settings
from silobench.papers import other_measure_sections
from silobench.report.charts.values import DotChart, LineChart, ScatterChart
from silobench.report.colours import colours_of
from silobench.report.drawing import Drawing
from silobench.report.headline import band, curves, headline, partition_names, trade_offs
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY
from stored import cells, regression, stored


def runs(partition: str, score: float, algorithm: str = "fedavg", trials: int = 2, **more: object) -> list:  # type: ignore[type-arg]
    return [
        stored([0.1, score + 0.02 * seed], seed, partition=partition, algorithm=algorithm, **more)  # type: ignore[arg-type]
        for seed in range(trials)
    ]


def charts(draw: Any, *trials: list[StoredRun]) -> list[Drawing]:
    found = cells(*trials)
    drawings: list[Drawing] = draw(found, colours_of(found))
    return drawings


def test_partitions_are_ordered_by_how_much_they_hurt() -> None:
    (drawing,) = charts(headline, runs("label-count(k=1)", 0.3), runs("iid", 0.9), runs("octants", 0.6))
    assert isinstance(drawing.chart, LineChart)
    assert list(drawing.chart.x.names) == ["iid", "octants", "label-count(k=1)"]
    (line,) = drawing.chart.lines
    assert [point.y for point in line.points] == pytest.approx([91.0, 61.0, 31.0])
    assert line.points[0].spread == pytest.approx(100 * 0.02 / 2**0.5)


def test_one_trial_has_no_error_bars() -> None:
    (drawing,) = charts(headline, runs("iid", 0.9, trials=1), runs("octants", 0.6, trials=1))
    assert isinstance(drawing.chart, LineChart)
    assert {point.spread for line in drawing.chart.lines for point in line.points} == {None}
    assert "no error bars" in drawing.note


def test_one_partition_is_a_chart_of_methods_with_the_best_first() -> None:
    (drawing,) = charts(headline, runs("iid", 0.7), runs("iid", 0.8, "scaffold"))
    assert isinstance(drawing.chart, DotChart)
    assert list(drawing.chart.rows) == ["scaffold", "fedavg"]
    assert charts(headline, runs("iid", 0.7)) == []


def test_partitions_of_one_kind_are_named_by_what_differs() -> None:
    same = settings(
        cells(runs("shards + share(beta=0.1, holdout=0.2)", 0.9), runs("shards + share(beta=0.3, holdout=0.2)", 0.8))
    )
    assert partition_names(same) == ("shards + share", ["beta=0.1", "beta=0.3"])
    mixed = settings(cells(runs("iid", 0.9), runs("label-count(k=1)", 0.8)))
    assert partition_names(mixed) == ("partition", ["iid", "label-count(k=1)"])
    bare = settings(cells(runs("shards", 0.9), runs("shards(per_party=1)", 0.8)))
    assert partition_names(bare)[1] == ["shards", "shards(per_party=1)"]  # the first has no argument to be named by


def test_a_band_has_the_rounds_that_all_trials_have() -> None:
    points = band([[(1, 0.5), (2, 0.6), (3, 0.7)], [(1, 0.7), (3, 0.7)]], ACCURACY)
    assert [(point.x, point.y) for point in points] == [(1, pytest.approx(60.0)), (3, pytest.approx(70.0))]
    assert points[1].spread == 0
    assert band([[(1, ACCURACY.failure), (2, 0.5)]], ACCURACY)[0].x == 2  # a diverged round has no point


def test_costs_leave_out_baselines_and_need_two_methods() -> None:
    both = [runs("iid", 0.7), runs("iid", 0.8, "scaffold"), runs("iid", 0.9, "combined")]
    drawings = charts(trade_offs, *both)
    drawn = [drawing.chart for drawing in drawings]
    assert all(isinstance(chart, ScatterChart) for chart in drawn)
    assert {mark.name for chart in drawn if isinstance(chart, ScatterChart) for mark in chart.marks} == {
        "fedavg",
        "scaffold",
    }
    assert charts(trade_offs, *both[::2]) == []


def test_charts_of_several_models_say_which_model_they_show() -> None:
    trials = [
        runs(partition, 0.8, algorithm, model=model)
        for model in ("linear", "mlp(32)")
        for partition in ("iid", "octants")
        for algorithm in ("fedavg", "scaffold")
    ]
    assert [drawing.name for drawing in charts(headline, *trials)] == [
        "Accuracy by partition: linear", "Accuracy by partition: mlp(32)",
    ]  # fmt: skip
    names = [drawing.name for drawing in charts(trade_offs, *trials)]
    assert names[0] == "Accuracy against bytes sent: linear, mean over 2 settings"
    assert names[1] == "Accuracy against bytes sent: mlp(32), mean over 2 settings"


def test_of_many_partitions_those_that_hurt_most_are_shown() -> None:
    trials = [runs(f"label-dirichlet(beta={place})", 0.9 - place / 100, trials=1) for place in range(1, 33)]
    (drawing,) = charts(headline, *trials)
    assert isinstance(drawing.chart, LineChart)
    assert list(drawing.chart.x.names)[::29] == ["beta=3", "beta=32"]
    assert drawing.note.endswith("The first 2 of 32 are left out.")


def test_a_dataset_is_named_once() -> None:
    places = (("a", "iid"), ("b", "iid"), ("b", "octants"))
    trials = [
        runs(partition, 0.8, algorithm, dataset=dataset)
        for dataset, partition in places
        for algorithm in ("fedavg", "scaffold")
    ]
    names = [drawing.name for drawing in charts(trade_offs, *trials)]
    assert names == ["Accuracy against bytes sent: a · iid", "Accuracy against bytes sent: b, mean over 2 settings"]


def test_a_method_has_one_colour_in_all_charts() -> None:
    orders = {"iid": ("fedavg", "solo", "scaffold"), "octants": ("scaffold", "fedavg", "solo"), "shards": ("scaffold",)}
    trials = [runs(partition, 0.8, name) for partition, names in orders.items() for name in names]
    found = cells(*trials)
    colours = colours_of(found)
    drawn = [curves(setting, colours) for setting in settings(found)]
    assert {line.name: line.colour for chart in drawn for line in chart.lines} == colours
    assert all(line.colour == colours[line.name] for chart in drawn for line in chart.lines)
    both = [cell for cell in found if cell.label["partition"] != "shards"]
    cost = trade_offs(both, colours)[0].chart
    assert isinstance(cost, ScatterChart)
    assert cost.groups == {name: colours[name] for name in ("fedavg", "scaffold")}  # without the baseline


def test_a_method_has_its_colour_on_the_page_of_measures_too() -> None:
    """Papers measure accuracy: runs of another metric are a group of their own there."""
    measured = {"every": {"measures": {"drift": {"norm": 1.0}}}, "measure": "drift"}
    classified = [[stored([0.5, 0.6], algorithm=name, **measured)] for name in ("fedavg", "scaffold")]
    found = cells(*classified, *([regression([5.0, 4.0], algorithm=name, **measured)] for name in ("solo", "scaffold")))
    drawn = [drawing.chart for section in other_measure_sections(found) for drawing in section.drawings]
    lines = [line for chart in drawn if isinstance(chart, LineChart) for line in chart.lines]
    assert [line.name for line in lines] == ["fedavg", "scaffold", "solo", "scaffold"]
    assert {line.name: line.colour for line in lines} == colours_of(found)
    assert all(line.colour == colours_of(found)[line.name] for line in lines)


def test_no_adversary_is_named_so() -> None:
    found = cells(runs("iid", 0.8), runs("iid", 0.7, adversary="sign-flip"))
    assert [setting.name for setting in settings(found)] == ["no adversary", "sign-flip"]
