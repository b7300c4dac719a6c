"""Weight divergence from centralised SGD, by layer, EMD and round (Zhao et al., Figures 2 and 4)."""

import math
from dataclasses import dataclass
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, by_seed, grouped, label_json
from silobench.analysis.measured import known, measured_rounds, over_rounds
from silobench.analysis.statistics import Spread, spread
from silobench.analysis.tables import Entry, Table, entries, shown_choices
from silobench.papers.zhao2018.emd import studies, study_choices

MEASURE = "weight-divergence"
_LONG = 1e5  # larger numbers are shown with an exponent


@dataclass(frozen=True)
class Divergence:
    """||w - w_sgd|| / ||w_sgd|| after one round of a cell, over its trials."""

    cell: CellResult
    round: int
    layers: dict[str, Spread]  # in the order of the network, without layers of zeros
    whole: Spread | None
    distance: Spread | None  # ||w - w_sgd||
    bound: Spread | None  # of the distance, by Proposition 3.1; None if it was not measured
    estimated: bool  # whether the bound's constants are estimates
    sgd_accuracy: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            **label_json(self.cell),
            "emd_weighted": self.cell.emd_weighted,
            "trials": len(self.cell.seeds),
            "round": self.round,
            "layers": {name: _json(over) for name, over in self.layers.items()},
            "all": _json(self.whole),
            "distance": _json(self.distance),
            "bound": _json(self.bound),
            "estimated": self.estimated,
            "sgd_accuracy": self.sgd_accuracy,
        }


def _json(over: Spread | None) -> dict[str, float | None] | None:
    return None if over is None else {"mean": over.mean, "std": over.std}


# --- reading ------------------------------------------------------------------------------------------


def rounds_of(cell: CellResult) -> list[int]:
    """Return the rounds after which all trials were measured."""
    return measured_rounds(cell, MEASURE)


def layers_of(cell: CellResult) -> list[str]:
    """Return the layers in the order of the network."""
    rows = (row for run in cell.runs for row in run.measured(MEASURE).values())
    return list(dict.fromkeys(name for row in rows for name in row["layers"]))


def of_layer(cell: CellResult, layer: str, round: int) -> dict[int, float]:
    """Return the divergence of one layer by seed."""
    return by_seed(cell, lambda run: run.measured(MEASURE).get(round, {"layers": {}})["layers"].get(layer))


def divergence(cell: CellResult, round: int) -> Divergence:
    """Return what trials measured after a round that all of them measured."""
    rows = [run.measured(MEASURE)[round] for run in cell.runs]
    layers = {name: spread(of_layer(cell, name, round).values()) for name in layers_of(cell)}
    whole, distance, bound, accuracy = (
        spread(known(row.get(key) for row in rows)) for key in ("all", "distance", "bound", "sgd_accuracy")
    )
    return Divergence(
        cell,
        round,
        {name: over for name, over in layers.items() if over},
        whole,
        distance,
        bound,
        estimated=any(row.get("estimated") for row in rows),
        sgd_accuracy=accuracy.mean if accuracy else None,
    )


def layers_over_rounds(cell: CellResult) -> dict[str, list[tuple[int, Spread]]]:
    """Return the divergence of each layer after every measured round."""

    def points(layer: str) -> list[tuple[int, Spread]]:
        return over_rounds(cell, MEASURE, lambda row: row["layers"].get(layer))

    layers = {layer: points(layer) for layer in layers_of(cell)}
    return {layer: line for layer, line in layers.items() if line}


def measured_studies(cells: Cells) -> list[list[CellResult]]:
    """Return measured cells that differ only in the partition; by rising EMD where rows are dealt by label."""
    measured = [cell for cell in cells if rounds_of(cell)]
    dealt = studies(measured)
    ids = {id(cell) for study in dealt for cell in study}
    rest = [cell for cell in measured if id(cell) not in ids]
    return [*dealt, *grouped(rest, lambda cell: cell.label.without("partition"))]


def divergences(cells: Cells) -> list[Divergence]:
    """Return the divergence of every measured cell after its first and its last measured round."""
    return [
        divergence(cell, round)
        for study in measured_studies(cells)
        for cell in study
        for round in dict.fromkeys((rounds_of(cell)[0], rounds_of(cell)[-1]))
    ]


# --- tables -------------------------------------------------------------------------------------------


def divergence_table(cells: Cells) -> Table:
    """Return one row per partition and round: each layer's divergence, the distance, and its bound if measured."""
    shown = divergences(cells)
    measured = [one.cell for one in shown]
    names = [name for name in study_choices(measured) if name != "measure"]  # the columns show what was measured
    layers = list(dict.fromkeys(name for cell in measured for name in layers_of(cell)))
    bounded = any(one.bound for one in shown)
    rows = [
        [
            *shown_choices(one.cell, (*names, "partition"), cells),
            *entries(f"{one.cell.emd_weighted:.3f}", str(one.round)),
            *(Entry(_number(one.layers.get(layer))) for layer in layers),
            *entries(_number(one.whole), _number(one.distance)),
            *([Entry(_bound(one))] if bounded else ()),
        ]
        for one in shown
    ]
    columns = [*names, "partition", "EMD", "round", *layers, "all", "distance", *(["bound"] if bounded else ())]
    note = (
        "||w - w_sgd|| / ||w_sgd|| by layer and of all weights, mean ± std over trials; w_sgd: centralised SGD from "
        "the same first weights; distance: ||w - w_sgd||"
        + ("; bound: of the distance (Proposition 3.1)" if bounded else "")
    )
    return Table("Weight divergence from centralised SGD", columns, rows, note)


def _number(over: Spread | None) -> str:
    if over is None:
        return ""
    decimals = max(0, 2 - math.floor(math.log10(over.mean))) if over.mean else 3  # three significant digits
    form = f".{decimals}f" if over.mean < _LONG else ".2e"
    return f"{over.mean:{form}}" + ("" if over.std is None else f" ± {over.std:{form}}")


def _bound(one: Divergence) -> str:
    return _number(one.bound) + (" (estimate)" if one.bound and one.estimated else "")
