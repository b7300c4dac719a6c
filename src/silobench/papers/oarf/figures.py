"""Sections of the HTML page for OARF: Figures 4 to 7 (skew, privacy, local epochs, the hybrid) and its tables."""

from collections.abc import Iterator, Mapping, Sequence

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, dataset_name, grouped
from silobench.papers.oarf.compression import families_of_epochs
from silobench.papers.oarf.hybrid import protections, task_name
from silobench.papers.oarf.numbers import privacy_row
from silobench.papers.oarf.privacy import ladders
from silobench.papers.oarf.protection_tables import hybrid_cells, hybrid_table, privacy_table, sharing_table
from silobench.papers.oarf.skew import skews
from silobench.papers.oarf.tables import compression_table, cost_table, epochs_table, skew_table, source_table
from silobench.report.charts.values import Axis, Level, Line, LineChart, Point
from silobench.report.drawing import Drawing, Section
from silobench.report.evidence import stacked_chart


def sections(cells: Sequence[CellResult]) -> list[Section]:
    """Return all sections; the caller drops those without rows."""
    return [
        Section("Models on the rows of each source", (), source_table(cells)),
        Section("Rounds, throughput and overhead", (), cost_table(cells)),
        Section("Label skew and quantity skew", list(_skew(cells)), skew_table(cells)),
        Section("Sums of secret shares", (), sharing_table(cells)),
        Section("Accuracy by epsilon", list(_privacy(cells)), privacy_table(cells)),
        Section("Local epochs", list(_epochs(cells)), epochs_table(cells)),
        Section("Compression", (), compression_table(cells)),
        Section("Shares, noise and compression together", list(_hybrid(cells)), hybrid_table(cells)),
    ]


def _skew(cells: Cells) -> Iterator[Drawing]:
    """Yield accuracy, throughput and overhead against alpha, with iid data as a level line."""
    for iid, by_label, by_quantity in skews(cells):
        ladders = {"label skew": by_label, "quantity skew": by_quantity}
        alphas = sorted(by_label.keys() | by_quantity.keys())
        if len(alphas) < 2:
            continue
        for number, y in _NUMBERS.items():
            lines = [
                Line(name, points, colour)
                for colour, (name, ladder) in enumerate(ladders.items())
                if (points := _points(ladder, number))
            ]
            level = _value(iid, number)
            if lines and level:
                chart = LineChart(f"{y.title} by alpha", Axis("alpha"), y, lines, levels=[Level("iid", level[0])])
                yield Drawing(f"{dataset_name(iid)}: {y.label}", chart)


def _points(ladder: Mapping[float, CellResult], number: str) -> list[Point]:
    return [Point(at, *value) for at, cell in ladder.items() if (value := _value(cell, number))]


def _value(cell: CellResult, number: str) -> tuple[float, float | None] | None:
    """Return a mean with its deviation, in the unit of its axis."""
    if number == "accuracy":
        return 100 * cell.score.mean, None if cell.score.std is None else 100 * cell.score.std
    mean, factor = costs.mean_of(cell.runs, costs.NUMBERS[number]), 100 if number == "overhead" else 1
    if mean is None:
        return None
    return factor * mean.mean, None if mean.std is None else factor * mean.std


_NUMBERS = {
    "accuracy": Axis("accuracy", "percent"),
    "throughput": Axis("throughput", "rows/s"),
    "overhead": Axis("overhead", "percent"),
}


def _epochs(cells: Cells) -> Iterator[Drawing]:
    for family in families_of_epochs(cells):
        line = Line("federated", _points(dict(sorted(family.items())), "accuracy"), 0)
        chart = LineChart("accuracy by local epochs", Axis("local epochs", scale="whole"), _NUMBERS["accuracy"], [line])
        yield Drawing(dataset_name(family[1]), chart)


def _privacy(cells: Cells) -> Iterator[Drawing]:
    """Yield accuracy against epsilon, which doubles from one point to the next, with the paper's where it states it."""
    for ladder, plain in ladders(cells):
        if len(ladder) < 2:
            continue
        lines = [Line("private", _points(ladder, "accuracy"), 0)]
        first = next(iter(ladder.values()))
        printed = {epsilon: privacy_row(first.label, first.parties, epsilon) for epsilon in ladder}
        if paper := [Point(epsilon, *_printed(row)) for epsilon, row in printed.items() if row]:
            lines.append(Line("paper", paper, 1, published=True))
        accuracy = _value(plain, "accuracy") if plain else None
        levels = [Level("without noise", accuracy[0])] if accuracy else []
        x = Axis("epsilon", scale="log")
        yield Drawing(task_name(first), LineChart("accuracy by epsilon", x, _NUMBERS["accuracy"], lines, levels=levels))


def _printed(row: Mapping[str, str]) -> tuple[float, float]:
    return float(row["accuracy_percent"]), float(row["std_percent"])


def _hybrid(cells: Cells) -> Iterator[Drawing]:
    """Yield the bars of server and mean party, of the baseline and the hybrids of each task, in seconds per round."""
    for group in grouped(hybrid_cells(cells), task_name):
        bars = {
            f"{protections(cell) or 'baseline'}, {name}": {part: time / cell.rounds for part, time in times.items()}
            for cell in group
            for name, times in costs.mean_decomposition(cell.runs).items()
        }
        if bars:
            yield Drawing(
                f"{task_name(group[0])}: seconds per round",
                stacked_chart("seconds per round of server and parties, by part", bars),
            )
