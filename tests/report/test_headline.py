"""Charts of a whole study."""

import pytest

from silobench.analysis.methods import settings
from silobench.report.charts.values import DotChart, LineChart, ScatterChart
from silobench.report.headline import band, headline, partition_names, trade_offs
from silobench.tasks.metrics import ACCURACY
from stored import cells, stored


def runs(partition: str, score: float, algorithm: str = "fedavg", trials: int = 2, **more: object) -> list:  # type: ignore[type-arg]
    return [
        stored([0.1, score + 0.02 * seed], seed, partition=partition, algorithm=algorithm, **more)  # type: ignore[arg-type]
        for seed in range(trials)
    ]


def test_partitions_are_ordered_by_how_much_they_hurt() -> None:
    (drawing,) = headline(cells(runs("label-count(k=1)", 0.3), runs("iid", 0.9), runs("octants", 0.6)))
    assert isinstance(drawing.chart, LineChart)
    assert list(drawing.chart.x.names) == ["iid", "octants", "label-count(k=1)"]
    (line,) = drawing.chart.lines
    assert [point.y for point in line.points] == pytest.approx([91.0, 61.0, 31.0])
    assert line.points[0].spread == pytest.approx(100 * 0.02 / 2**0.5)


def test_one_trial_has_no_error_bars() -> None:
    (drawing,) = headline(cells(runs("iid", 0.9, trials=1), runs("octants", 0.6, trials=1)))
    assert isinstance(drawing.chart, LineChart)
    assert {point.spread for line in drawing.chart.lines for point in line.points} == {None}
    assert "no error bars" in drawing.note


def test_one_partition_is_a_chart_of_methods_with_the_best_first() -> None:
    (drawing,) = headline(cells(runs("iid", 0.7), runs("iid", 0.8, "scaffold")))
    assert isinstance(drawing.chart, DotChart)
    assert list(drawing.chart.rows) == ["scaffold", "fedavg"]
    assert headline(cells(runs("iid", 0.7))) == []


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
    drawings = trade_offs(cells(*both))
    charts = [drawing.chart for drawing in drawings]
    assert all(isinstance(chart, ScatterChart) for chart in charts)
    assert {mark.name for chart in charts if isinstance(chart, ScatterChart) for mark in chart.marks} == {
        "fedavg",
        "scaffold",
    }
    assert trade_offs(cells(*both[::2])) == []
