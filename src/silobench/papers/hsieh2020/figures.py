"""Parts of the page for methods that exchange after minibatches, as the quagmire study looks at them."""

from collections.abc import Callable, Iterator, Sequence

from silobench.analysis import CellResult
from silobench.analysis.families import rest_of
from silobench.analysis.statistics import spread
from silobench.analysis.tables import told_choices
from silobench.papers.hsieh2020.bsp_loss import BspLoss, bsp_loss_table, bsp_losses
from silobench.papers.hsieh2020.communication import IID, Exchange
from silobench.papers.hsieh2020.decisions import decisions, decisions_table, method_of, steered
from silobench.papers.hsieh2020.diagnostics import (
    DELTA,
    NORMS,
    REPLICAS,
    TRAVELLING,
    channels,
    delta_table,
    having,
    known_classes,
    norms_table,
    over_rounds,
    replicas_table,
    travelling_table,
)
from silobench.papers.hsieh2020.matching import alike
from silobench.papers.hsieh2020.savings import Saving, savings, savings_table
from silobench.report.drawing import Drawing, Section, named
from silobench.report.figures import Bars, Line, bars_svg, lines_svg

_SAVED = "BSP's traffic over its own"


def decentralised(cells: Sequence[CellResult]) -> list[Section]:
    """All of them; those without a row are left out by who asks."""
    return [
        Section("What is lost against BSP on iid data", list(_lost(cells)), bsp_loss_table(cells)),
        Section("What is saved of BSP's traffic", list(_saved(cells)), savings_table(cells)),
        Section("What the controller decided, and why", list(_decided(cells)), decisions_table(cells)),
        Section(
            "What models lose away from home",
            list(_over_rounds(cells, TRAVELLING, "loss", "accuracy loss, points")), travelling_table(cells),
        ),
        Section(
            "What parties learnt alone", list(_over_rounds(cells, DELTA, "mean", "|Δw / w|, percent")),
            delta_table(cells),
        ),
        Section("What each party's model knows", list(_known(cells)), replicas_table(cells)),
        Section("How far apart minibatches are", list(_channels(cells)), norms_table(cells)),
    ]  # fmt: skip


def _grouped(cells: Sequence[CellResult], key: Callable[[CellResult], str]) -> list[list[CellResult]]:
    found: dict[str, list[CellResult]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return list(found.values())


def _names(cells: Sequence[CellResult], *but: str) -> list[str]:
    """What tells figures apart."""
    return [name for name in told_choices(cells) if name not in but]


# --- what is lost, what is saved ----------------------------------------------------------------------


def _lost(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """For each network and number of parties a bar of each method on each partition, where nobody turns its knob."""
    found = [one for one in bsp_losses(cells) if not one.how.controlled]
    names = _names([one.cell for one in found], "partition")
    studies: dict[str, list[BspLoss]] = {}
    for one in sorted(found, key=lambda one: one.cell.emd_weighted):
        studies.setdefault(alike(one.cell, "partition"), []).append(one)
    for study in studies.values():
        methods = [str(how) for how in sorted({one.how for one in study}, key=_in_order)]
        bars = []
        for colour, partition in enumerate(dict.fromkeys(str(one.cell.label["partition"]) for one in study)):
            own = {str(one.how): one.cell for one in study if one.cell.label["partition"] == partition}
            own |= {"bsp": study[0].bsp} if partition == IID else {}
            bars.append(Bars(partition, [_height(own.get(method)) for method in methods], colour))
        level = 100 * study[0].bsp.accuracy.mean
        yield Drawing(named(study[0].cell, names, cells), bars_svg(methods, bars, "test accuracy, percent", level))


def _in_order(how: Exchange) -> tuple[int, str, float]:
    """BSP first, then method by method, that which sends most before."""
    return int(how.method != "bsp"), how.method, how.looseness


def _height(cell: CellResult | None) -> tuple[float, float | None] | None:
    if cell is None:
        return None
    return 100 * cell.accuracy.mean, None if cell.accuracy.std is None else 100 * cell.accuracy.std


def _saved(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """For each method two bars a partition: SkewScout's saving and Oracle's."""
    found = savings(cells)
    names = _names([one.cell for one in found], "partition")
    studies: dict[str, list[Saving]] = {}
    for one in sorted(found, key=lambda one: one.cell.emd_weighted):
        studies.setdefault(rest_of(one.cell, "partition", "algorithm") + one.method, []).append(one)
    for study in studies.values():
        sides = {"SkewScout": [one.scout for one in study], "Oracle": [one.chosen for one in study]}
        bars = [
            Bars(name, [_factor(one, cell) for one, cell in zip(study, of, strict=True)], colour)
            for colour, (name, of) in enumerate(sides.items())
            if any(of)
        ]
        if bars:
            groups = [str(one.cell.label["partition"]) for one in study]
            title = " · ".join((named(study[0].cell, names, cells), study[0].method))
            yield Drawing(title, bars_svg(groups, bars, _SAVED, 1.0))


def _factor(one: Saving, cell: CellResult | None) -> tuple[float, float | None] | None:
    saved = one.saved_by(cell)
    return None if saved is None else (saved, None)


def _decided(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """The accuracy loss that a run saw and, on the axis on the right, the setting that it was seen at."""
    found = steered(cells)
    names = _names(found)
    for cell in found:
        made = decisions(cell.runs[0])
        losses = Line("accuracy loss", [(one.round, 100 * one.accuracy_loss, None) for one in made], 1)
        knob = Line(made[0].knob, [(one.round, one.theta, None) for one in made], 0, right=True)
        title = f"{named(cell, names, cells)} · {method_of(cell)}"
        yield Drawing(title, lines_svg([losses, knob], "round", "accuracy loss, points", made[0].knob))


# --- causes -------------------------------------------------------------------------------------------


def _over_rounds(cells: Sequence[CellResult], measure: str, key: str, y: str) -> Iterator[Drawing]:
    """For each partition and network a line of each method."""
    found = having(cells, measure)
    names = _names(found, "controller")
    for study in _grouped(found, alike):
        lines = []
        for colour, cell in enumerate(study):
            points = [
                (at, 100 * of.mean, None if of.std is None else 100 * of.std)
                for at, of in over_rounds(cell, measure, key)
            ]
            lines += [Line(method_of(cell), points, colour)] if points else []
        if lines:
            yield Drawing(named(study[0], names, cells), lines_svg(lines, "round", y))


def _known(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """For each cell two bars a party: what its model gets right of its own classes, and of all others."""
    found = having(cells, REPLICAS)
    names = _names(found)
    for cell in found:
        own, others = ([known_classes(run, mine) for run in cell.runs] for mine in (True, False))
        parties = list(dict.fromkeys(party for of in own for party in of))
        bars = [
            Bars(name, [_accuracy([of[party] for of in both if party in of]) for party in parties], colour)
            for colour, (name, both) in enumerate((("its own classes", own), ("all others", others)))
        ]
        if parties:
            groups = [f"model of {party}" for party in parties]
            title = f"{named(cell, names, cells)} · {method_of(cell)}"
            yield Drawing(title, bars_svg(groups, bars, "test accuracy, percent"))


def _accuracy(values: Sequence[float]) -> tuple[float, float | None] | None:
    over = spread(values)
    return None if over is None else (100 * over.mean, None if over.std is None else 100 * over.std)


def _channels(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    """For each network a line a partition: the divergence of every channel of the first layer, in the first trial."""
    found = having(cells, NORMS)
    names = _names(found, "partition")
    for study in _grouped(found, lambda cell: rest_of(cell, "partition")):
        lines = []
        for colour, cell in enumerate(study):
            points = [(float(at), 100 * value, None) for at, value in enumerate(channels(cell.runs[0]))]
            lines += [Line(str(cell.label["partition"]), points, colour)] if points else []
        if lines:
            svg = lines_svg(lines, "channel of the first layer", "divergence of minibatch means, percent")
            yield Drawing(named(study[0], names, cells), svg)
