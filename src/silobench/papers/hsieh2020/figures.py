"""Sections of the HTML page for the quagmire study (Hsieh et al., 2020)."""

from collections.abc import Iterator, Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import grouped
from silobench.analysis.measured import cells_with
from silobench.analysis.methods import setting_name
from silobench.analysis.statistics import spread
from silobench.analysis.tables import method_choices
from silobench.papers.hsieh2020.bsp_loss import bsp_loss_table, bsp_losses
from silobench.papers.hsieh2020.communication import IID, Exchange
from silobench.papers.hsieh2020.decisions import controlled_cells, decisions, decisions_table
from silobench.papers.hsieh2020.diagnostics import (
    DELTA,
    NORMS,
    REPLICAS,
    TRAVELLING,
    channels,
    class_accuracies,
    delta_table,
    norms_table,
    number_over_rounds,
    replicas_table,
    travelling_table,
)
from silobench.papers.hsieh2020.matching import contest_key, method_name
from silobench.papers.hsieh2020.savings import Saving, savings, savings_table
from silobench.report.charts.values import Axis, BarChart, Bars, Level, Line, LineChart, Point, Value
from silobench.report.drawing import Drawing, Section

_SAVED = Axis("BSP's traffic over its own")
_ACCURACY = Axis("test accuracy", "percent")
_ROUND = Axis("round", scale="whole")


def sections(cells: Sequence[CellResult]) -> list[Section]:
    """Return all sections; the caller drops those without rows."""
    return [
        Section("Loss against BSP on iid data", list(_lost(cells)), bsp_loss_table(cells)),
        Section("Savings of BSP's traffic", list(_saved(cells)), savings_table(cells)),
        Section("Decisions of the controller", list(_decided(cells)), decisions_table(cells)),
        Section(
            "Loss of models on other parties' data",
            list(_over_rounds(cells, TRAVELLING, "loss", Axis("accuracy loss", "points"))), travelling_table(cells),
        ),
        Section(
            "Local changes of parties", list(_over_rounds(cells, DELTA, "mean", Axis("|Δw / w|", "percent"))),
            delta_table(cells),
        ),
        Section("Each party's model by class", list(_by_class(cells)), replicas_table(cells)),
        Section("Differences between minibatches", list(_channels(cells)), norms_table(cells)),
    ]  # fmt: skip


def _names(cells: Sequence[CellResult], *but: str) -> list[str]:
    """Return the choices for captions: those in which figures differ."""
    return [name for name in method_choices(cells) if name not in but]


# --- losses and savings -------------------------------------------------------------------------------


def _lost(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """Yield a figure per network and number of parties: a bar per method and partition, without controllers."""
    losses = [one for one in bsp_losses(cells) if not one.how.controlled]
    names = _names([one.cell for one in losses], "partition")
    by_emd = sorted(losses, key=lambda one: one.cell.emd_weighted)
    for study in grouped(by_emd, lambda one: contest_key(one.cell, "partition")):
        methods = [str(how) for how in sorted({one.how for one in study}, key=_in_order)]
        bars = []
        for colour, partition in enumerate(dict.fromkeys(str(one.cell.label["partition"]) for one in study)):
            by_method = {str(one.how): one.cell for one in study if one.cell.label["partition"] == partition}
            by_method |= {"bsp": study[0].reference} if partition == IID else {}
            bars.append(Bars(partition, [_height(by_method.get(method)) for method in methods], colour))
        level = 100 * study[0].reference.score.mean
        chart = BarChart("test accuracy by method", methods, _ACCURACY, bars, levels=[Level("BSP on iid data", level)])
        yield Drawing(setting_name(study[0].cell, names, cells), chart)


def _in_order(how: Exchange) -> tuple[int, str, float]:
    """Return a sort key: BSP first, then by method, the setting that sends most first."""
    return int(how.method != "bsp"), how.method, how.looseness


def _height(cell: CellResult | None) -> Value | None:
    if cell is None:
        return None
    return Value(100 * cell.score.mean, None if cell.score.std is None else 100 * cell.score.std)


def _saved(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """Yield a figure per method: two bars per partition, SkewScout's saving and Oracle's."""
    rivals = savings(cells)
    names = _names([one.cell for one in rivals], "partition")
    by_emd = sorted(rivals, key=lambda one: one.cell.emd_weighted)
    for study in grouped(by_emd, lambda one: (one.cell.label.without("partition", "algorithm"), one.method)):
        sides = {"SkewScout": [one.scout for one in study], "Oracle": [one.chosen for one in study]}
        bars = [
            Bars(name, [_factor(one, cell) for one, cell in zip(study, of, strict=True)], colour)
            for colour, (name, of) in enumerate(sides.items())
            if any(of)
        ]
        if bars:
            groups = [str(one.cell.label["partition"]) for one in study]
            title = " · ".join((setting_name(study[0].cell, names, cells), study[0].method))
            levels = [Level("as much as BSP", 1.0)]
            yield Drawing(title, BarChart("savings by partition", groups, _SAVED, bars, levels=levels))


def _factor(one: Saving, cell: CellResult | None) -> Value | None:
    saved = one.saved_by(cell)
    return None if saved is None else Value(saved)


def _decided(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """Yield a figure per cell: the accuracy loss in its first trial and, on the right axis, the setting of the knob."""
    controlled = controlled_cells(cells)
    names = _names(controlled)
    for cell in controlled:
        path = decisions(cell.runs[0])
        losses = Line("accuracy loss", [Point(one.round, 100 * one.accuracy_loss) for one in path], 1)
        knob = Line(path[0].knob, [Point(one.round, one.theta) for one in path], 0, right=True)
        title = f"{setting_name(cell, names, cells)} · {method_name(cell)}"
        y = Axis("accuracy loss", "points")
        chart = LineChart(f"accuracy loss and {path[0].knob} by round", _ROUND, y, [losses, knob], Axis(path[0].knob))
        yield Drawing(title, chart)


# --- diagnostics --------------------------------------------------------------------------------------


def _over_rounds(cells: Sequence[CellResult], measure: str, key: str, y: Axis) -> Iterator[Drawing]:
    """Yield a figure per partition and network with a line per method."""
    measured = cells_with(cells, measure)
    names = _names(measured, "controller")
    for study in grouped(measured, contest_key):
        lines = []
        for colour, cell in enumerate(study):
            points = [
                Point(at, 100 * of.mean, None if of.std is None else 100 * of.std)
                for at, of in number_over_rounds(cell, measure, key)
            ]
            lines += [Line(method_name(cell), points, colour)] if points else []
        if lines:
            yield Drawing(setting_name(study[0], names, cells), LineChart(f"{y.title} by round", _ROUND, y, lines))


def _by_class(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """Yield a figure per cell: two bars per party, its model's accuracy on its own classes and on all others."""
    measured = cells_with(cells, REPLICAS)
    names = _names(measured)
    for cell in measured:
        trials = [class_accuracies(run) for run in cell.runs]
        parties = list(dict.fromkeys(party for trial in trials for party in trial))
        bars = [
            Bars(
                name, [_accuracy([trial[party][side] for trial in trials if party in trial]) for party in parties], side
            )
            for side, name in enumerate(("its own classes", "all others"))
        ]
        if parties:
            groups = [f"model of {party}" for party in parties]
            title = f"{setting_name(cell, names, cells)} · {method_name(cell)}"
            yield Drawing(title, BarChart("test accuracy of each party's model", groups, _ACCURACY, bars))


def _accuracy(values: Sequence[float]) -> Value | None:
    over = spread(values)
    return None if over is None else Value(100 * over.mean, None if over.std is None else 100 * over.std)


def _channels(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """Yield a figure per network with a line per partition: the divergence by channel in the first trial."""
    measured = cells_with(cells, NORMS)
    names = _names(measured, "partition")
    for study in grouped(measured, lambda cell: cell.label.without("partition")):
        lines = []
        for colour, cell in enumerate(study):
            points = [Point(at, 100 * value) for at, value in enumerate(channels(cell.runs[0]))]
            lines += [Line(str(cell.label["partition"]), points, colour)] if points else []
        if lines:
            x, y = Axis("channel of the first layer", scale="whole"), Axis("divergence of minibatch means", "percent")
            yield Drawing(setting_name(study[0], names, cells), LineChart("divergence by channel", x, y, lines))
