"""Why skew costs accuracy, from diagnostics of the parties' models (Hsieh et al., 2020, Figures 4 and 21 to 24).

Accuracy away from home, the distance of parties from the shared model, each model's accuracy on its own party's classes
and on others, and how much minibatches differ between parties.
"""

from collections.abc import Callable, Mapping
from statistics import fmean, median
from typing import Any, TypeAlias

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, label_json
from silobench.analysis.measured import averages, cells_with, known, over_rounds
from silobench.analysis.statistics import Spread, spread
from silobench.analysis.tables import Entry, Table, entries, method_choices, shown_choices
from silobench.analysis.units import percent
from silobench.papers.hsieh2020.communication import IID, NONIID, exchange_of
from silobench.papers.hsieh2020.matching import method_name
from silobench.papers.hsieh2020.numbers import quantity
from silobench.runs.stored import StoredRun

TRAVELLING = "accuracy-loss"
DELTA = "update-delta"
REPLICAS = "replicas"
NORMS = "norm-divergence"
_SKEWS = {IID: "iid", NONIID: "noniid"}
_PAPERS = {  # by measure, network and method
    (TRAVELLING, "googlenet", "gaia"): "accuracy loss of travelling models",
    (DELTA, "resnet(depth=20)", "dgc"): "residual update delta of dgc",
    (DELTA, "alexnet", "fedavg"): "local update delta of fedavg",
    (NORMS, "lenet(norm=batch)", "bsp"): "divergence of minibatch means",
}


# --- reading ------------------------------------------------------------------------------------------


def number_over_rounds(cell: CellResult, measure: str, key: str) -> list[tuple[int, Spread]]:
    """Return a number that a measure states by name, over trials, after every measured round."""
    return over_rounds(cell, measure, lambda row: row[key])


def number_by_seed(cell: CellResult, measure: str, key: str) -> dict[int, float]:
    """Return a number's mean over all measured rounds, by seed."""
    return averages(cell, measure, lambda row: row[key])


def home_classes(run: StoredRun) -> dict[str, set[str]]:
    """Return the classes of each party: those of which no party has more rows."""
    counts, parties, classes = run.partition.counts, run.partition.parties, run.dataset.classes
    if not parties or not counts:
        return {}
    owners = [max(range(len(parties)), key=lambda party: counts[party][place]) for place in range(len(classes))]
    return {
        name: {label for label, owner in zip(classes, owners, strict=True) if owner == party}
        for party, name in enumerate(parties)
    }


def class_accuracies(run: StoredRun) -> dict[str, tuple[float, float]]:
    """Return the accuracy of each party's final model on its own classes and on others; parties need both."""
    rows = run.measured(REPLICAS)
    by_class = rows[max(rows)]["by_class"]
    accuracies = {}
    for party, classes in home_classes(run).items():
        of_party = by_class.get(party, {})
        at_home = known(accuracy for label, accuracy in of_party.items() if label in classes)
        others = known(accuracy for label, accuracy in of_party.items() if label not in classes)
        if at_home and others:
            accuracies[party] = (fmean(at_home), fmean(others))
    return accuracies


def specialisation(run: StoredRun) -> float | None:
    """Return how much better models are on their own party's classes than on others, on average."""
    accuracies = class_accuracies(run)
    return fmean(at_home - others for at_home, others in accuracies.values()) if accuracies else None


def channels(run: StoredRun, kind: str = "mean") -> list[float]:
    """Return how much the parties' minibatches differ, by channel of the first layer, on average over rounds."""
    layers = [list(rows[kind].values()) for rows in run.measured(NORMS).values()]
    first = [values[0] for values in layers if values]  # a network without convolutions has no layer
    each = [known(values) for values in zip(*first, strict=False)]
    return [fmean(values) for values in each if values]


# --- tables -------------------------------------------------------------------------------------------

RowsOf: TypeAlias = Callable[[CellResult], list[list[Entry]]]


def _table(cells: Cells, measure: str, columns: list[str], rows_of: RowsOf, title: str, note: str) -> Table:
    measured = cells_with(cells, measure)
    names = method_choices(measured)
    rows = [
        [*shown_choices(cell, names, cells), Entry(method_name(cell)), *row]
        for cell in measured
        for row in rows_of(cell)
    ]
    return Table(title, [*names, "method", *columns], rows, note)


def travelling_table(cells: Cells) -> Table:
    """Return one row per cell: what models lose on other parties' data, over the run and at its end."""

    def rows_of(cell: CellResult) -> list[list[Entry]]:
        ends = [_at_the_end(cell, TRAVELLING, key) for key in ("loss", "home", "away")]
        return [[_average(cell, TRAVELLING, "loss"), *entries(*ends)]]

    title = "Loss of models on other parties' data, points of training accuracy"
    note = "on average: over all measured rounds; the rest at the end; at home: on the data of the model's own party"
    return _table(cells, TRAVELLING, ["on average", "at the end", "at home", "away"], rows_of, title, note)


def delta_table(cells: Cells) -> Table:
    """Return one row per cell: how far parties are from the shared model by what they have not shared."""

    def rows_of(cell: CellResult) -> list[list[Entry]]:
        ends = [_at_the_end(cell, DELTA, key) for key in ("mean", "ratio")]
        return [[_average(cell, DELTA, "mean"), *entries(*ends)]]

    title = "Local changes of parties, percent of the weights"
    note = "|Δw / w|: mean over weights and parties, on average over the measured rounds; the rest at the end"
    return _table(cells, DELTA, ["|Δw / w|", "at the end", "‖Δw‖ / ‖w‖"], rows_of, title, note)


def replicas_table(cells: Cells) -> Table:
    """Return one row per party: the accuracy of its model on its own classes and on the others."""

    def rows_of(cell: CellResult) -> list[list[Entry]]:
        trials = [class_accuracies(run) for run in cell.runs]
        return [
            entries(party, *(_percent(spread(t[party][side] for t in trials if party in t)) for side in (0, 1)))
            for party in dict.fromkeys(party for trial in trials for party in trial)
        ]

    title = "Each party's model by class, test accuracy in percent"
    note = "its own classes: those of which no party has more rows"
    return _table(cells, REPLICAS, ["model of party", "its own classes", "all others"], rows_of, title, note)


def norms_table(cells: Cells) -> Table:
    """Return one row per cell: how much the parties' minibatches differ in the first layer."""

    def rows_of(cell: CellResult) -> list[list[Entry]]:
        means, variances = ([channels(run, kind) for run in cell.runs] for kind in ("mean", "variance"))
        return [[Entry(_range(means), paper=_paper(cell, NORMS)), *entries(_middle(means), _range(variances))]]

    title = "Differences between parties' minibatches, channels of the first layer, percent"
    note = (
        "|μ_0 - μ_1| over the mean of both, of the outputs of the first convolution: the least and the most of all "
        "channels, and the middle one; on average over the measured rounds"
    )
    return _table(cells, NORMS, ["means", "middle channel", "variances"], rows_of, title, note)


def _at_the_end(cell: CellResult, measure: str, key: str) -> str:
    """Return the last known number; empty if a diverged run has none."""
    points = number_over_rounds(cell, measure, key)
    return _percent(points[-1][1]) if points else ""


def _average(cell: CellResult, measure: str, key: str) -> Entry:
    return Entry(_percent(spread(number_by_seed(cell, measure, key).values())), paper=_paper(cell, measure))


def _paper(cell: CellResult, measure: str) -> str:
    """Return the paper's number for CIFAR-10, where network and method are the paper's."""
    how = exchange_of(cell.label)
    method = how.method if how else cell.label["algorithm"]
    name = _PAPERS.get((measure, cell.label["model"], method))
    skew = _SKEWS.get(cell.label["partition"])
    published = quantity(f"{name} {skew}") if name and cell.dataset.name == "cifar-10" else None
    if published is None:
        return ""
    least, most = 100 * published.least, 100 * published.most
    return f"paper {least:.3g}" if least == most else f"paper {least:.3g} to {most:.3g}"


def _percent(over: Spread | None) -> str:
    return "" if over is None else percent(over.mean, over.std)


def _range(trials: list[list[float]]) -> str:
    values = [value for trial in trials for value in trial]
    return f"{100 * min(values):.3g} to {100 * max(values):.3g}" if values else ""


def _middle(trials: list[list[float]]) -> str:
    return _percent(spread(median(values) for values in trials if values))


def causes_json(cells: Cells) -> list[dict[str, Any]]:
    """Return what was measured, by cell, measure and seed, with its rounds."""
    return [
        {**label_json(cell), "measure": name, "seed": seed, "rounds": _json(run.measured(name))}
        for name in (TRAVELLING, DELTA, REPLICAS, NORMS)
        for cell in cells_with(cells, name)
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
    ]


def _json(rows: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"round": round, **values} for round, values in rows.items()]
