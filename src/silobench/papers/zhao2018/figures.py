"""Sections of the HTML page for Zhao et al. (2018)."""

from collections.abc import Iterator, Mapping, Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import grouped
from silobench.analysis.methods import setting_name
from silobench.papers.zhao2018.divergence import (
    divergence,
    divergence_table,
    layers_over_rounds,
    measured_studies,
    rounds_of,
)
from silobench.papers.zhao2018.emd import accuracy_by_emd, by_kind, emd_table, has_several_emds, study_choices
from silobench.papers.zhao2018.loss import loss_table
from silobench.papers.zhao2018.numbers import dataset_of, table2
from silobench.papers.zhao2018.sharing import SharingCell, sharing_studies, sharing_table
from silobench.report.charts.values import Axis, Line, LineChart, Point
from silobench.report.drawing import Drawing, Section

_ACCURACY = Axis("test accuracy", "percent")
_COLOURS = {"target-emd": 0, "iid and shards": 1}
_GREY = 5


def sections(cells: Sequence[CellResult]) -> list[Section]:
    """Return all sections; the caller drops those without rows."""
    return [
        Section("Loss against centralised SGD", (), loss_table(cells)),
        Section("Accuracy against EMD", list(_accuracy(cells)), emd_table(cells)),
        Section("Weight divergence against EMD", list(_divergence(cells)), divergence_table(cells)),
        Section("Sharing a little data", list(_sharing(cells)), sharing_table(cells)),
    ]


def _names(studies: Sequence[Sequence[CellResult]], cells: Sequence[CellResult]) -> list[str]:
    """Return a name for each study: the choices in which studies differ."""
    names = study_choices([cell for study in studies for cell in study])
    return [setting_name(study[0], names, cells) for study in studies]


def _percent(at: float, mean: float, std: float | None) -> Point:
    return Point(at, 100 * mean, None if std is None else 100 * std)


def _accuracy_at(at: float, cell: CellResult) -> Point:
    return _percent(at, cell.score.mean, cell.score.std)


# --- accuracy against EMD -----------------------------------------------------------------------------


def _accuracy(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = accuracy_by_emd(cells)
    for name, study in zip(_names(studies, cells), studies, strict=True):
        lines = [
            Line(kind, [_accuracy_at(cell.emd_weighted, cell) for cell in ladder], _COLOURS[kind])
            for kind, ladder in by_kind(study).items()
        ]
        yield Drawing(name, LineChart("test accuracy by EMD", Axis("EMD"), _ACCURACY, [*lines, *_papers(study)]))


def _papers(study: Sequence[CellResult]) -> Iterator[Line]:
    """Yield Table 2 as a whole if it has one of the cells, and the cells of Table 3 at their measured EMD."""
    known = [(cell.emd_weighted, cell.paper) for cell in study if cell.paper]
    if any(paper.table == "Zhao Table 2" for _, paper in known):
        points = [_percent(*point) for point in table2(dataset_of(study[0].label))]
        yield Line("Zhao et al., Table 2", points, _COLOURS["target-emd"], published=True)
    if third := [_percent(at, paper.mean, None) for at, paper in known if paper.table == "Zhao Table 3"]:
        yield Line("Zhao et al., Table 3", third, _COLOURS["iid and shards"], published=True)


# --- weight divergence --------------------------------------------------------------------------------


def _divergence(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = measured_studies(cells)
    for name, study in zip(_names(studies, cells), studies, strict=True):
        for kind, ladder in by_kind(study).items():
            if has_several_emds(ladder) and (drawn := _by_emd(ladder)):
                yield Drawing(f"{name}: {kind}, after the first measured round", drawn)
        worst = study[-1]
        if len(rounds_of(worst)) > 1 and (drawn := _by_round(worst)):
            yield Drawing(f"{name}: {worst.label['partition']}, over rounds", drawn)


def _by_emd(ladder: Sequence[CellResult]) -> LineChart | None:
    points: dict[str, list[Point]] = {}
    for cell in ladder:
        for layer, over in divergence(cell, rounds_of(cell)[0]).layers.items():
            points.setdefault(layer, []).append(Point(cell.emd_weighted, over.mean, over.std))
    return _by_layer(points, Axis("EMD"))


def _by_round(cell: CellResult) -> LineChart | None:
    layers = layers_over_rounds(cell).items()
    points = {name: [Point(at, over.mean, over.std) for at, over in rounds] for name, rounds in layers}
    return _by_layer(points, Axis("round", scale="whole"))


def _by_layer(points: Mapping[str, list[Point]], x: Axis) -> LineChart | None:
    """Return a chart with a line per layer; None if a run diverged and has no numbers."""
    if not points:
        return None
    lines = [Line(layer, line, colour) for colour, (layer, line) in enumerate(points.items())]
    return LineChart(f"weight divergence by {x.title}", x, Axis("weight divergence"), lines)


# --- sharing ------------------------------------------------------------------------------------------


def _sharing(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = sharing_studies(cells)
    for name, study in zip(_names([[one.cell for one in study] for study in studies], cells), studies, strict=True):
        if len({one.sharing.beta for one in _whole(study)} | ({0.0} if study[0].without else set())) > 1:
            lines, base = list(_by_beta(_whole(study), study[0].without)), study[0].sharing.base
            chart = LineChart("test accuracy by beta", Axis("beta"), _ACCURACY, lines, Axis("EMD"))
            yield Drawing(f"{name}: {base}, all of G to everyone", chart)
        if lines := list(_by_alpha(study)):
            chart = LineChart("test accuracy by alpha", Axis("alpha"), _ACCURACY, lines)
            yield Drawing(f"{name}: {study[0].sharing.base}, a part of G to everyone", chart)


def _whole(study: Sequence[SharingCell]) -> list[SharingCell]:
    return [one for one in study if one.sharing.alpha == 1]


def _by_beta(whole: Sequence[SharingCell], without: CellResult | None) -> Iterator[Line]:
    """Yield a line per warm-up, with the cell that shares nothing at 0, the paper's, and the EMD on the right axis."""
    for colour, warmup in enumerate(dict.fromkeys(one.sharing.warmup for one in whole)):
        points = [(one.sharing.beta, one.cell) for one in whole if one.sharing.warmup == warmup]
        points = [(0.0, without), *points] if without and not warmup else points
        yield Line(_start(warmup), [_accuracy_at(*point) for point in points], colour)
        if paper := [Point(at, 100 * cell.paper.mean) for at, cell in points if cell.paper]:
            yield Line(f"Zhao et al., {_start(warmup)}", paper, colour, published=True)
    distances = {one.sharing.beta: one.cell.emd_weighted for one in whole}
    distances |= {0.0: without.emd_weighted} if without else {}
    yield Line("EMD", [Point(beta, emd) for beta, emd in sorted(distances.items())], _GREY, right=True)


def _by_alpha(study: Sequence[SharingCell]) -> Iterator[Line]:
    """Yield a line per beta and warm-up with several alphas, and the paper's points."""
    groups = grouped(study, lambda one: (one.sharing.beta, one.sharing.warmup))
    for colour, group in enumerate(group for group in groups if len(group) > 1):
        beta, warmup = group[0].sharing.beta, group[0].sharing.warmup
        points = [(one.sharing.alpha, one.cell) for one in group]
        yield Line(f"beta={beta:g}, {_start(warmup)}", [_accuracy_at(*point) for point in points], colour)
        if paper := [Point(at, 100 * cell.paper.mean) for at, cell in points if cell.paper]:
            yield Line(f"Zhao et al., beta={beta:g}", paper, colour, published=True)


def _start(warmup: int) -> str:
    return f"{warmup} epochs of warm-up" if warmup else "from scratch"
