"""Parts of the page that only some runs have: those of Zhao et al. here, and those of the quagmire study."""

from collections.abc import Iterator, Mapping, Sequence

from silobench.analysis import CellResult
from silobench.papers.hsieh2020.figures import decentralised
from silobench.papers.zhao2018.divergence import divergence, divergence_table, measured_studies, over_rounds, rounds_of
from silobench.papers.zhao2018.emd import accuracy_by_emd, by_kind, choices, emd_table, several
from silobench.papers.zhao2018.loss import loss_table
from silobench.papers.zhao2018.numbers import dataset_of, table2
from silobench.papers.zhao2018.sharing import Shared, sharing_studies, sharing_table
from silobench.report.drawing import Drawing, Section, named
from silobench.report.figures import Line, Point, lines_svg

_ACCURACY = "test accuracy, percent"
_COLOURS = {"target-emd": 0, "iid and shards": 1}
_GREY = 5


def sections(cells: Sequence[CellResult]) -> list[Section]:
    """Those that these cells bear on."""
    found = [
        Section("What is lost against centralised SGD", (), loss_table(cells)),
        Section("Accuracy against EMD", list(_accuracy(cells)), emd_table(cells)),
        Section("Weight divergence against EMD", list(_divergence(cells)), divergence_table(cells)),
        Section("Sharing a little data", list(_sharing(cells)), sharing_table(cells)),
        *decentralised(cells),
    ]
    return [section for section in found if section.table.rows]


def _names(studies: Sequence[Sequence[CellResult]], cells: Sequence[CellResult]) -> list[str]:
    """What tells each study from the others."""
    names = choices([cell for study in studies for cell in study])
    return [named(study[0], names, cells) for study in studies]


def _percent(at: float, mean: float, std: float | None) -> Point:
    return at, 100 * mean, None if std is None else 100 * std


def _accuracy_at(at: float, cell: CellResult) -> Point:
    return _percent(at, cell.accuracy.mean, cell.accuracy.std)


# --- accuracy against EMD -----------------------------------------------------------------------------


def _accuracy(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = accuracy_by_emd(cells)
    for name, study in zip(_names(studies, cells), studies, strict=True):
        lines = [
            Line(kind, [_accuracy_at(cell.emd_weighted, cell) for cell in ladder], _COLOURS[kind])
            for kind, ladder in by_kind(study).items()
        ]
        yield Drawing(name, lines_svg([*lines, *_papers(study)], "EMD", _ACCURACY))


def _papers(study: Sequence[CellResult]) -> Iterator[Line]:
    """The whole of Table 2 where a cell is of it; of Table 3 what was run, at the EMD that was measured."""
    known = [(cell.emd_weighted, cell.paper) for cell in study if cell.paper]
    if any(paper["table"] == "Zhao Table 2" for _, paper in known):
        points = [_percent(*point) for point in table2(dataset_of(study[0].label))]
        yield Line("Zhao et al., Table 2", points, _COLOURS["target-emd"], paper=True)
    if third := [_percent(at, paper["mean"], None) for at, paper in known if paper["table"] == "Zhao Table 3"]:
        yield Line("Zhao et al., Table 3", third, _COLOURS["iid and shards"], paper=True)


# --- weight divergence --------------------------------------------------------------------------------


def _divergence(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = measured_studies(cells)
    for name, study in zip(_names(studies, cells), studies, strict=True):
        for kind, ladder in by_kind(study).items():
            if several(ladder) and (drawn := _by_emd(ladder)):
                yield Drawing(f"{name}: {kind}, after the first measured round", drawn)
        worst = study[-1]
        if len(rounds_of(worst)) > 1 and (drawn := _by_round(worst)):
            yield Drawing(f"{name}: {worst.label['partition']}, over rounds", drawn)


def _by_emd(ladder: Sequence[CellResult]) -> str:
    points: dict[str, list[Point]] = {}
    for cell in ladder:
        for layer, over in divergence(cell, rounds_of(cell)[0]).layers.items():
            points.setdefault(layer, []).append((cell.emd_weighted, over.mean, over.std))
    return _by_layer(points, "EMD")


def _by_round(cell: CellResult) -> str:
    return _by_layer({name: [(at, s.mean, s.std) for at, s in of] for name, of in over_rounds(cell).items()}, "round")


def _by_layer(points: Mapping[str, list[Point]], x: str) -> str:
    """Nothing of a run that diverged beyond all numbers."""
    if not points:
        return ""
    lines = [Line(layer, found, colour) for colour, (layer, found) in enumerate(points.items())]
    return lines_svg(lines, x, "weight divergence")


# --- sharing ------------------------------------------------------------------------------------------


def _sharing(cells: Sequence[CellResult]) -> Iterator[Drawing]:
    studies = sharing_studies(cells)
    for name, study in zip(_names([[one.cell for one in study] for study in studies], cells), studies, strict=True):
        if len({one.sharing.beta for one in _whole(study)} | ({0.0} if study[0].alone else set())) > 1:
            lines, base = list(_by_beta(_whole(study), study[0].alone)), study[0].sharing.base
            yield Drawing(f"{name}: {base}, all of G to everyone", lines_svg(lines, "beta", _ACCURACY, "EMD"))
        if lines := list(_by_alpha(study)):
            yield Drawing(
                f"{name}: {study[0].sharing.base}, a part of G to everyone", lines_svg(lines, "alpha", _ACCURACY)
            )


def _whole(study: Sequence[Shared]) -> list[Shared]:
    return [one for one in study if one.sharing.alpha == 1]


def _by_beta(whole: Sequence[Shared], alone: CellResult | None) -> Iterator[Line]:
    """A line for each warm-up, with the point of no sharing at 0; the paper's; and the EMD on the other axis."""
    for colour, warmup in enumerate(dict.fromkeys(one.sharing.warmup for one in whole)):
        own = [(one.sharing.beta, one.cell) for one in whole if one.sharing.warmup == warmup]
        own = [(0.0, alone), *own] if alone and not warmup else own
        yield Line(_warmed(warmup), [_accuracy_at(*point) for point in own], colour)
        if paper := [(at, 100 * cell.paper["mean"], None) for at, cell in own if cell.paper]:
            yield Line(f"Zhao et al., {_warmed(warmup)}", paper, colour, paper=True)
    distances = {one.sharing.beta: one.cell.emd_weighted for one in whole}
    distances |= {0.0: alone.emd_weighted} if alone else {}
    yield Line("EMD", [(beta, emd, None) for beta, emd in sorted(distances.items())], _GREY, right=True)


def _by_alpha(study: Sequence[Shared]) -> Iterator[Line]:
    """A line for each beta and warm-up of which there are several alphas, and the paper's point where it has one."""
    found: dict[tuple[float, int], list[Shared]] = {}
    for one in study:
        found.setdefault((one.sharing.beta, one.sharing.warmup), []).append(one)
    for colour, ((beta, warmup), own) in enumerate((key, own) for key, own in found.items() if len(own) > 1):
        name = f"beta={beta:g}, {_warmed(warmup)}"
        yield Line(name, [_accuracy_at(one.sharing.alpha, one.cell) for one in own], colour)
        if paper := [(one.sharing.alpha, 100 * one.cell.paper["mean"], None) for one in own if one.cell.paper]:
            yield Line(f"Zhao et al., beta={beta:g}", paper, colour, paper=True)


def _warmed(warmup: int) -> str:
    return f"{warmup} epochs of warm-up" if warmup else "from scratch"
