"""Why skew costs accuracy, from what runs measured of parties' models (Hsieh et al., 2020, Figures 4 and 21 to 24).

What models lose away from home, how far parties went alone, what each party's model knows of its own classes and of
others', and how far the minibatches are apart that normalisation sees.
"""

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells, by_seed
from silobench.analysis.statistics import Spread, spread
from silobench.analysis.tables import Entry, Table, shown, told_choices
from silobench.papers.hsieh2020.communication import IID, NONIID
from silobench.papers.hsieh2020.decisions import method_of
from silobench.papers.hsieh2020.numbers import quantity
from silobench.papers.zhao2018.emd import of_label
from silobench.runs.record import StoredRun

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


def measured(run: StoredRun, name: str) -> dict[int, dict[str, Any]]:
    """What a measure found, by round."""
    rows = ((row["round"], (row.get("measures") or {}).get(name)) for row in run.rounds)
    return {round: found for round, found in rows if found}


def having(cells: Cells, name: str) -> list[CellResult]:
    """The cells of which all trials measured it."""
    return [cell for cell in cells if all(measured(run, name) for run in cell.runs)]


def over_rounds(cell: CellResult, name: str, key: str) -> list[tuple[int, Spread]]:
    """A number after every round in which it was measured, over trials."""
    trials = [measured(run, name) for run in cell.runs]
    rounds = sorted(set.intersection(*map(set, trials)))
    found = ((round, spread(_known(rows[round][key] for rows in trials))) for round in rounds)
    return [(round, over) for round, over in found if over]


def on_average(run: StoredRun, name: str, key: str) -> float | None:
    """A number's mean over all rounds in which it was measured."""
    known = _known(found[key] for found in measured(run, name).values())
    return fmean(known) if known else None


def averages(cell: CellResult, name: str, key: str) -> dict[int, float]:
    """The same by seed."""
    return by_seed(cell, lambda run: on_average(run, name, key))


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def own_classes(run: StoredRun) -> dict[str, set[str]]:
    """The classes of each party: those of which nobody has more rows."""
    counts, parties = run.facts["partition"]["counts"], run.facts["partition"]["parties"]
    classes = run.facts["dataset"]["classes"]
    owners = [max(range(len(parties)), key=lambda party: counts[party][place]) for place in range(len(classes))]
    return {
        name: {label for label, owner in zip(classes, owners, strict=True) if owner == party}
        for party, name in enumerate(parties)
    }


def known_classes(run: StoredRun, own: bool) -> dict[str, float]:
    """What each party's last model gets right of its own classes, or of all others; those that have both alone."""
    by_class = measured(run, REPLICAS)[max(measured(run, REPLICAS))]["by_class"]
    found = {}
    for party, mine in own_classes(run).items():
        groups = [
            _known(a for label, a in by_class[party].items() if (label in mine) == ours) for ours in (True, False)
        ]
        if all(groups):
            found[party] = fmean(groups[0 if own else 1])
    return found


def specialised(run: StoredRun) -> float | None:
    """How much more a model knows of its own party's classes than of others', on average."""
    own, others = known_classes(run, True), known_classes(run, False)
    return fmean(own[party] - others[party] for party in own) if own else None


def channels(run: StoredRun, kind: str = "mean") -> list[float]:
    """By channel of the first layer, how far parties' minibatches are apart; on average over the rounds measured."""
    layers = [list(rows[kind].values()) for rows in measured(run, NORMS).values()]
    found = [values[0] for values in layers if values]  # a network without convolutions has no layer
    each = [_known(values) for values in zip(*found, strict=True)]
    return [fmean(values) for values in each if values]


# --- what a person sees -------------------------------------------------------------------------------

Told = Callable[[CellResult], list[list[Entry]]]  # the rows of a cell


def _table(cells: Cells, measure: str, columns: list[str], told: Told, title: str, note: str) -> Table:
    found = having(cells, measure)
    names = told_choices(found)
    rows = [
        [*(Entry(shown(cell, name, cells)) for name in names), Entry(method_of(cell)), *row]
        for cell in found
        for row in told(cell)
    ]
    return Table(title, [*names, "method", *columns], rows, note)


def travelling_table(cells: Cells) -> Table:
    """One row a cell: what models lose away from home, over the run and at its end."""

    def told(cell: CellResult) -> list[list[Entry]]:
        ends = [_at_the_end(cell, TRAVELLING, key) for key in ("loss", "home", "away")]
        return [[_average(cell, TRAVELLING, "loss"), *map(Entry, ends)]]

    title = "What models lose away from home, points of training accuracy"
    note = "on average: over all rounds in which it was measured; the rest at the end"
    return _table(cells, TRAVELLING, ["on average", "at the end", "at home", "away"], told, title, note)


def delta_table(cells: Cells) -> Table:
    """One row a cell: how far parties are from the shared model by what they learnt alone."""

    def told(cell: CellResult) -> list[list[Entry]]:
        ends = [_at_the_end(cell, DELTA, key) for key in ("mean", "ratio")]
        return [[_average(cell, DELTA, "mean"), *map(Entry, ends)]]

    title = "What parties learnt alone, percent of the weights"
    note = "|Δw / w|: mean over weights and parties, on average over the rounds measured; the rest at the end"
    return _table(cells, DELTA, ["|Δw / w|", "at the end", "‖Δw‖ / ‖w‖"], told, title, note)


def replicas_table(cells: Cells) -> Table:
    """One row a party: what its model gets right of its own classes, and of the others."""

    def told(cell: CellResult) -> list[list[Entry]]:
        own, others = ([known_classes(run, mine) for run in cell.runs] for mine in (True, False))
        return [
            [
                Entry(party),
                *(Entry(_percent(spread(of[party] for of in both if party in of))) for both in (own, others)),
            ]
            for party in dict.fromkeys(party for of in own for party in of)
        ]

    title = "What each party's model knows, test accuracy in percent"
    note = "its own classes: those of which no party has more rows"
    return _table(cells, REPLICAS, ["model of party", "its own classes", "all others"], told, title, note)


def norms_table(cells: Cells) -> Table:
    """One row a cell: how far apart the minibatches of parties are in the first layer."""

    def told(cell: CellResult) -> list[list[Entry]]:
        means, variances = ([channels(run, kind) for run in cell.runs] for kind in ("mean", "variance"))
        return [[Entry(_range(means), paper=_paper(cell, NORMS)), Entry(_middle(means)), Entry(_range(variances))]]

    title = "How far apart parties' minibatches are, channels of the first layer, percent"
    note = (
        "|μ_0 - μ_1| over the mean of both, of the outputs of the first convolution: the least and the most of all "
        "channels, and the middle one; on average over the rounds measured"
    )
    return _table(cells, NORMS, ["means", "middle channel", "variances"], told, title, note)


def _at_the_end(cell: CellResult, measure: str, key: str) -> str:
    """Return the last number that is known; nothing where a diverged run has none."""
    known = over_rounds(cell, measure, key)
    return _percent(known[-1][1]) if known else ""


def _average(cell: CellResult, measure: str, key: str) -> Entry:
    return Entry(_percent(spread(averages(cell, measure, key).values())), paper=_paper(cell, measure))


def _paper(cell: CellResult, measure: str) -> str:
    """The paper's number of CIFAR-10, where network and method are its own."""
    method = method_of(cell).split()[0]
    name = _PAPERS.get((measure, str(cell.label["model"]), method))
    here = cell.runs[0].facts["dataset"]["name"] == "cifar-10"
    found = quantity(f"{name} {_SKEWS.get(str(cell.label['partition']))}") if name and here else None
    if found is None:
        return ""
    least, most = 100 * found.least, 100 * found.most
    return f"paper {least:.3g}" if least == most else f"paper {least:.3g} to {most:.3g}"


def _percent(over: Spread | None) -> str:
    if over is None:
        return ""
    return f"{100 * over.mean:.1f}" + ("" if over.std is None else f" ± {100 * over.std:.1f}")


def _range(trials: list[list[float]]) -> str:
    known = [value for values in trials for value in values]
    return f"{100 * min(known):.3g} to {100 * max(known):.3g}" if known else ""


def _middle(trials: list[list[float]]) -> str:
    return _percent(spread(sorted(values)[len(values) // 2] for values in trials if values))


def causes_json(cells: Cells) -> list[dict[str, Any]]:
    """What was measured, by cell, measure and seed, with its rounds."""
    return [
        {**of_label(cell), "measure": name, "seed": seed, "rounds": _plain(measured(run, name))}
        for name in (TRAVELLING, DELTA, REPLICAS, NORMS)
        for cell in having(cells, name)
        for seed, run in zip(cell.seeds, cell.runs, strict=True)
    ]


def _plain(found: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"round": round, **values} for round, values in found.items()]
