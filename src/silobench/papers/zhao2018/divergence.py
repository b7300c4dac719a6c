"""Weight divergence from centralised SGD, by layer, EMD and round (Zhao et al., Figures 2 and 4)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells, by_seed, rest_of
from silobench.analysis.statistics import Spread, spread
from silobench.analysis.tables import Entry, Table, shown
from silobench.papers.zhao2018.emd import choices, of_label, studies
from silobench.runs.record import StoredRun

MEASURE = "weight-divergence"
_LONG = 1e5  # numbers above it are read by their exponents


@dataclass(frozen=True)
class Divergence:
    """||w - w_sgd|| / ||w_sgd|| after one round of a cell, over its trials."""

    cell: CellResult
    round: int
    layers: dict[str, Spread]  # in the order of the network, but those that are zero
    whole: Spread | None
    distance: Spread | None  # ||w - w_sgd||
    bound: Spread | None  # of the distance, by Proposition 3.1; None where it was not asked for
    estimated: bool  # the bound's constants are estimates
    sgd_accuracy: float | None

    def as_json(self) -> dict[str, Any]:
        own = {
            "all": _plain(self.whole), "distance": _plain(self.distance), "bound": _plain(self.bound),
            "estimated": self.estimated, "sgd_accuracy": self.sgd_accuracy,
        }  # fmt: skip
        layers = {name: _plain(over) for name, over in self.layers.items()}
        return {
            **of_label(self.cell), "emd_weighted": self.cell.emd_weighted, "trials": len(self.cell.seeds),
            "round": self.round, "layers": layers, **own,
        }  # fmt: skip


def _plain(over: Spread | None) -> dict[str, float | None] | None:
    return None if over is None else {key: asdict(over)[key] for key in ("mean", "std")}


# --- reading ------------------------------------------------------------------------------------------


def measured(run: StoredRun) -> dict[int, dict[str, Any]]:
    """What was measured, by round."""
    return {row["round"]: row["measures"][MEASURE] for row in run.rounds if MEASURE in (row.get("measures") or {})}


def rounds_of(cell: CellResult) -> list[int]:
    """The rounds after which all trials measured."""
    return sorted(set.intersection(*(set(measured(run)) for run in cell.runs)))


def layers_of(cell: CellResult) -> list[str]:
    """In the order of the network, first to last."""
    return list(dict.fromkeys(name for run in cell.runs for row in measured(run).values() for name in row["layers"]))


def of_layer(cell: CellResult, layer: str, round: int) -> dict[int, float]:
    """The divergence of one layer, by seed."""
    return by_seed(cell, lambda run: measured(run).get(round, {"layers": {}})["layers"].get(layer))


def divergence(cell: CellResult, round: int) -> Divergence:
    """What trials measured after a round that all of them measured."""
    rows = [measured(run)[round] for run in cell.runs]
    layers = {name: spread(of_layer(cell, name, round).values()) for name in layers_of(cell)}
    whole, distance, bound = (spread(_known(rows, key)) for key in ("all", "distance", "bound"))
    accuracy, estimated = spread(_known(rows, "sgd_accuracy")), any(row.get("estimated") for row in rows)
    found = {name: over for name, over in layers.items() if over}
    return Divergence(cell, round, found, whole, distance, bound, estimated, accuracy.mean if accuracy else None)


def _known(rows: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows if row.get(key) is not None]


def over_rounds(cell: CellResult) -> dict[str, list[tuple[int, Spread]]]:
    """The divergence of each layer after every measured round."""
    trials = [measured(run) for run in cell.runs]
    found: dict[str, list[tuple[int, Spread]]] = {}
    for round in rounds_of(cell):
        for name in trials[0][round]["layers"]:
            known = [rows[round]["layers"][name] for rows in trials if rows[round]["layers"][name] is not None]
            if over := spread(known):
                found.setdefault(name, []).append((round, over))
    return found


def measured_studies(cells: Cells) -> list[list[CellResult]]:
    """Cells with measures that differ in the partition alone; by rising EMD where they deal rows by label."""
    told = [cell for cell in cells if rounds_of(cell)]
    dealt = studies(told)
    rest: dict[str, list[CellResult]] = {}
    for cell in told:
        if not any(cell is other for study in dealt for other in study):
            rest.setdefault(rest_of(cell, "partition"), []).append(cell)
    return [*dealt, *rest.values()]


def divergences(cells: Cells) -> list[Divergence]:
    """Of every cell with measures, after its first measured round and its last."""
    told = [cell for study in measured_studies(cells) for cell in study]
    return [
        divergence(cell, round) for cell in told for round in dict.fromkeys((rounds_of(cell)[0], rounds_of(cell)[-1]))
    ]


# --- what a person sees -------------------------------------------------------------------------------


def divergence_table(cells: Cells) -> Table:
    """One row a partition and round: each layer's divergence, the distance, and its bound where there is one."""
    found = divergences(cells)
    told = [one.cell for one in found]
    names = [name for name in choices(told) if name != "measure"]  # which the columns show
    layers = list(dict.fromkeys(name for cell in told for name in layers_of(cell)))
    bounded = any(one.bound for one in found)
    rows = [
        [
            *(Entry(shown(one.cell, name, cells)) for name in names),
            *map(Entry, (str(one.cell.label["partition"]), f"{one.cell.emd_weighted:.3f}", str(one.round))),
            *(Entry(_number(one.layers.get(layer))) for layer in layers),
            *map(Entry, (_number(one.whole), _number(one.distance))),
            *([Entry(_bound(one))] if bounded else ()),
        ]
        for one in found
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
    decimals = max(0, 2 - math.floor(math.log10(over.mean))) if over.mean else 3  # three digits that count
    form = f".{decimals}f" if over.mean < _LONG else ".2e"
    return f"{over.mean:{form}}" + ("" if over.std is None else f" ± {over.std:{form}}")


def _bound(one: Divergence) -> str:
    return _number(one.bound) + (" (estimate)" if one.bound and one.estimated else "")
