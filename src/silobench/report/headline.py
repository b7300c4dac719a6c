"""Charts of the whole study: the main metric by setting with methods as lines, curves over rounds, and costs."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import grouped
from silobench.analysis.methods import METHOD_KEYS, Setting, by_harm, setting_choices, setting_name, settings
from silobench.analysis.statistics import deviation
from silobench.analysis.tables import is_baseline
from silobench.report.charts.values import (
    Axis,
    Better,
    DotChart,
    Dots,
    Level,
    Line,
    LineChart,
    Mark,
    Point,
    ScatterChart,
    Value,
)
from silobench.report.drawing import Drawing
from silobench.report.metric_axis import metric_axis
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import Metric

_MOST_SETTINGS = 30  # along an axis
_MOST_CHARTS = 4
_FAMILY = ("partition", "parties", *METHOD_KEYS)


def headline(cells: Sequence[CellResult], colours: Mapping[str, int]) -> list[Drawing]:
    """Return the main metric by setting, a chart for each dataset or model with several partitions.

    Settings are in the order of their mean score: those on the right hurt most. Without several partitions there is a
    chart of the methods of the first setting, and none if it has one method. `colours` has the place of each method in
    the palette.
    """
    families = grouped(settings(cells), lambda setting: setting.first.label.without(*_FAMILY))
    names = _names(families)
    many = [(family, name) for family, name in zip(families, names, strict=True) if len(family) > 1]
    if many:
        return [_by_setting(by_harm(family), name, colours) for family, name in many[:_MOST_CHARTS]]
    return [_by_method(family[0]) for family in families[:_MOST_CHARTS] if len(family[0].cells) > 1]


def _names(families: Sequence[Sequence[Setting]]) -> list[str]:
    """Return the choices that tell families apart; empty for one family."""
    firsts = [family[0].first for family in families]
    names = setting_choices(firsts, _FAMILY) if len(firsts) > 1 else []
    return [setting_name(first, names, firsts) for first in firsts]


def _by_method(setting: Setting) -> Drawing:
    """Return the scores of the methods of one setting, the best first."""
    metric = setting.first.metric
    ordered = sorted(setting.cells, key=lambda name: metric.gain(setting.cells[name].score.mean, 0.0), reverse=True)
    values = [_value(setting.cells[name]) for name in ordered]
    title = f"{metric.title[:1].upper()}{metric.title[1:]} by method on {setting.name}"
    chart = DotChart(title, ordered, _axis(metric), [Dots(metric.title, values)], levels=_levels(setting.first))
    return Drawing(title, chart, "Bars are the standard deviation over trials." if len(setting.first.seeds) > 1 else "")


def _value(cell: CellResult) -> Value | None:
    factor, score = cell.metric.factor, cell.score
    if not math.isfinite(score.mean):
        return None
    return Value(factor * score.mean, None if score.std is None else factor * score.std)


def _by_setting(every: Sequence[Setting], named: str, colours: Mapping[str, int]) -> Drawing:
    family = every[-_MOST_SETTINGS:]
    metric, first = family[0].first.metric, family[0].first
    methods = list(dict.fromkeys(name for setting in family for name in setting.cells))
    kind, names = partition_names(family)
    lines = [Line(method, _points(method, family, metric), colours[method]) for method in methods]
    title = f"{metric.title[:1].upper()}{metric.title[1:]} by partition{f': {named}' if named else ''}"
    trials = max(len(cell.seeds) for setting in family for cell in setting.cells.values())
    bars = (
        "Bars are the standard deviation over trials. "
        if trials > 1
        else "One trial each, so there are no error bars. "
    )
    chart = LineChart(title, Axis(kind, names=names), _axis(metric), lines, levels=_levels(first))
    order = "Partitions are ordered by the mean over methods: those on the right hurt most."
    some = f" The first {len(every) - len(family)} of {len(every)} are left out." if len(family) < len(every) else ""
    return Drawing(title, chart, bars + order + some)


def partition_names(family: Sequence[Setting]) -> tuple[str, list[str]]:
    """Return the title of an axis of partitions, and their names.

    Partitions of one kind are named by the arguments in which they differ, since whole specs would be cut off there.
    """
    sums = [setting.first.label.partition for setting in family]
    kinds = {tuple(term.name for term in terms) for terms in sums}
    arguments = [
        {(place, key): value for place, term in enumerate(terms) for key, value in term.kwargs} for terms in sums
    ]
    keys = dict.fromkeys(key for each in arguments for key in each)
    different = [key for key in keys if len({repr(each.get(key)) for each in arguments}) > 1]
    short = [", ".join(f"{key[1]}={each[key]}" for key in different if key in each) for each in arguments]
    if len(kinds) == 1 and all(short) and len(set(short)) == len(short) > 1:
        return " + ".join(kinds.pop()), short
    return "partition", [_whole(setting, family) for setting in family]


def _whole(setting: Setting, family: Sequence[Setting]) -> str:
    """Return the partition of a setting, and the number of parties where that differs."""
    label = setting.first.label
    counts = {other.first.parties for other in family if other.first.label["partition"] == label["partition"]}
    return str(label["partition"]) + (f", {setting.first.parties} parties" if len(counts) > 1 else "")


def _points(method: str, family: Sequence[Setting], metric: Metric) -> list[Point]:
    cells = ((place, setting.cells.get(method)) for place, setting in enumerate(family))
    return [
        Point(
            place, metric.factor * cell.score.mean, None if cell.score.std is None else metric.factor * cell.score.std
        )
        for place, cell in cells
        if cell and math.isfinite(cell.score.mean)
    ]


def _axis(metric: Metric) -> Axis:
    """Return the axis of a metric."""
    return Axis(f"test {metric.title}", "percent" if metric.is_share else metric.unit)


def _levels(cell: CellResult) -> list[Level]:
    """Return the score of the constant answer as a level, if it is known."""
    return [] if cell.baseline is None else [Level("constant answer", cell.metric.factor * cell.baseline)]


# --- curves -------------------------------------------------------------------------------------------


def curves(setting: Setting, colours: Mapping[str, int]) -> LineChart:
    """Return the main metric by round, one line per method, with the deviation over trials."""
    metric = setting.first.metric
    lines = [
        Line(method, band([run.curve() for run in cell.runs], metric), colours[method])
        for method, cell in setting.cells.items()
    ]
    scores = [score for cell in setting.cells.values() for run in cell.runs for _, score in run.curve()]
    y = metric_axis(metric, scores, setting.first.baseline)
    return LineChart(setting.name, Axis("round", scale="whole"), y, lines, levels=_levels(setting.first))


def run_curve(run: StoredRun) -> LineChart:
    """Return the main metric of one run by round."""
    line = Line(run.metric.title, band([run.curve()], run.metric), 0)
    constant = run.metric.constant
    levels = [] if constant is None else [Level("constant answer", run.metric.factor * constant)]
    return LineChart(
        f"{run.metric.heading} by round", Axis("round", scale="whole"), _axis(run.metric), [line], levels=levels
    )


def band(trials: Sequence[Sequence[tuple[int, float]]], metric: Metric) -> list[Point]:
    """Return the mean and the deviation over trials, in the rounds that all of them have."""
    values = [dict(curve) for curve in trials]
    shared = [at for at in values[0] if all(at in value for value in values)] if values else []
    points = []
    for at in shared:
        scores = [value[at] for value in values]
        if all(map(math.isfinite, scores)):
            spread = deviation(scores)
            points.append(Point(at, metric.factor * fmean(scores), None if spread is None else metric.factor * spread))
    return points


# --- costs --------------------------------------------------------------------------------------------


def trade_offs(cells: Sequence[CellResult], colours: Mapping[str, int]) -> list[Drawing]:
    """Return the main metric against bytes and against time, each as a mean over the settings that methods share."""
    families = grouped(settings(cells), lambda setting: setting.first.label.without(*_FAMILY))
    pairs = zip(families, _names(families), strict=True)
    return [drawing for family, name in pairs for drawing in _trade_offs(family, name, colours)]


def _trade_offs(family: Sequence[Setting], named: str, colours: Mapping[str, int]) -> list[Drawing]:
    rivals = (
        name
        for setting in family
        for name, cell in setting.cells.items()
        if not is_baseline(str(cell.label["algorithm"]))
    )
    methods = list(dict.fromkeys(rivals))  # baselines send nothing, so they would be on every front
    shared = [setting for setting in family if all(name in setting.cells for name in methods)]
    if len(methods) < 2 or not shared:
        return []
    metric = shared[0].first.metric
    where = shared[0].name if len(shared) == 1 else f"{named}, mean over {len(shared)} settings".removeprefix(", ")
    drawings = []
    for title, unit, cost in (("bytes sent", "B", _bytes), ("virtual time", "s", _time)):
        marks = []
        for name in methods:
            scores = [setting.cells[name].score.mean for setting in shared]
            costs = [cost(setting.cells[name]) for setting in shared]
            known = [value for value in costs if value is not None]
            if len(known) == len(costs) and all(map(math.isfinite, scores)):
                marks.append(Mark(name, fmean(known), metric.factor * fmean(scores), group=name, colour=colours[name]))
        if len(marks) > 1:
            upwards: Better = "higher" if metric.higher_is_better else "lower"
            axis = Axis(f"{title} in a run", unit, low=0.0)
            chart = ScatterChart(f"{metric.title} against {title}", axis, _axis(metric), marks, ("lower", upwards))
            drawings.append(
                Drawing(f"{metric.title[:1].upper()}{metric.title[1:]} against {title}: {where}", chart, _FRONT)
            )
    return drawings


_FRONT = "The line joins the methods that no other method beats in both directions."


def _bytes(cell: CellResult) -> float | None:
    return cell.bytes_up + cell.bytes_down


def _time(cell: CellResult) -> float | None:
    return cell.virtual_seconds
