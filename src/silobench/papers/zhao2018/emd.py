"""Accuracy against the earth mover's distance (EMD) of the parties' labels from the whole, as in Zhao et al., Figure 5.

A study is cells that differ in the partition alone; its ladders are its partitions of one kind, by rising EMD.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.choices import kinds_of, sharing_of
from silobench.analysis.families import Cells, percent, rest_of
from silobench.analysis.tables import BASELINES, Entry, Table, beside, shown
from silobench.runs.record import distinguishing

APART = 0.05  # EMDs that are closer than this count as one
LEARNT = 5  # rounds: a model that has hardly begun has no accuracy to lose
_LADDERS = (("target-emd",), ("iid", "shards"))  # distributions drawn for an EMD; the paper's iid, 2-class and 1-class


def studies(cells: Cells) -> list[list[CellResult]]:
    """Cells that differ in how rows are dealt by label alone, by rising EMD; baselines know no parties."""
    found: dict[str, list[CellResult]] = {}
    for cell in cells:
        if _kind(cell) in (kind for kinds in _LADDERS for kind in kinds) and cell.label["algorithm"] not in BASELINES:
            found.setdefault(rest_of(cell, "partition"), []).append(cell)
    return [sorted(study, key=lambda cell: cell.emd_weighted) for study in found.values()]


def ladders(cells: Cells) -> Iterator[list[CellResult]]:
    """The partitions of one kind in each study, where they have more than one EMD."""
    for study in studies(cells):
        yield from (ladder for ladder in by_kind(study).values() if several(ladder))


def by_kind(study: Cells) -> dict[str, list[CellResult]]:
    """The partitions of each kind that a study has."""
    found = {" and ".join(kinds): [cell for cell in study if _kind(cell) in kinds] for kinds in _LADDERS}
    return {kind: ladder for kind, ladder in found.items() if ladder}


def several(cells: Cells) -> bool:
    """Whether cells have more than one EMD."""
    found = [cell.emd_weighted for cell in cells]
    return bool(found) and max(found) - min(found) > APART


def _kind(cell: CellResult) -> str:
    return "" if sharing_of(cell.label) else " + ".join(kinds_of(cell.label))


# --- what a person sees -------------------------------------------------------------------------------


def accuracy_by_emd(cells: Cells) -> list[list[CellResult]]:
    """The studies in which there is more than one EMD; not of runs that end too soon to have learnt, but measured."""
    whole = [cell for cell in cells if cell.label["rounds"] >= LEARNT or not cell.label.get("measure")]
    return [study for study in studies(whole) if several(study)]


def emd_table(cells: Cells) -> Table:
    """One row a partition: its measured EMD, the accuracy with the paper's, and over how many trials."""
    told = [cell for study in accuracy_by_emd(cells) for cell in study]
    names = choices(told)
    rows = [
        [
            *(Entry(shown(cell, name, cells)) for name in names),
            Entry(str(cell.label["partition"])),
            Entry(f"{cell.emd_weighted:.3f}"),
            Entry(percent(cell), paper=beside(cell)),
            Entry(str(len(cell.seeds))),
        ]
        for cell in told
    ]
    note = (
        "EMD: the sum over classes of |share at the party - share in all|, from 0 to 2; the mean over parties, by rows"
    )
    return Table("Accuracy against EMD, percent", [*names, "partition", "EMD", "accuracy", "trials"], rows, note)


def emd_json(cells: Cells) -> list[dict[str, Any]]:
    """The same as plain values."""
    return [
        {
            **of_label(cell),
            "emd_weighted": cell.emd_weighted,
            "accuracy": {"mean": cell.accuracy.mean, "std": cell.accuracy.std},
            "trials": len(cell.seeds),
            "paper": cell.paper,
        }
        for study in accuracy_by_emd(cells)
        for cell in study
    ]


def choices(cells: Cells) -> list[str]:
    """The dataset, and what else but the partition tells cells apart."""
    but = ("dataset", "partition")
    return ["dataset", *distinguishing([cell.label for cell in cells], but)]


def of_label(cell: CellResult) -> dict[str, Any]:
    names: Sequence[str] = ("dataset", "partition", "model", "algorithm", "solver", "rounds", "start")
    return {name: cell.label[name] for name in names if name in cell.label}
