"""Accuracy against the earth mover's distance (EMD) of the parties' labels from the whole, as in Zhao et al., Figure 5.

A study is a group of cells that differ in the partition only. A ladder is the cells of a study whose partitions are of
one kind, by rising EMD: its first cell has the least skew, its last cell has the most.
"""

from collections.abc import Iterator
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, accuracy_json, grouped, label_json
from silobench.analysis.specs import partition_kinds
from silobench.analysis.tables import BASELINES, Entry, Table, accuracy_entry, shown_choices
from silobench.runs.label import distinguishing

EMD_TOLERANCE = 0.05  # EMDs that differ by less count as one
MIN_ROUNDS = 5  # a model that has hardly started has no accuracy to lose
_LADDERS = (("target-emd",), ("iid", "shards"))  # distributions drawn for an EMD; the paper's iid, 2-class and 1-class


def studies(cells: Cells) -> list[list[CellResult]]:
    """Return cells that differ only in how rows are dealt by label, by rising EMD; without baselines."""
    kinds = {kind for ladder in _LADDERS for kind in ladder}
    dealt = [cell for cell in cells if _kind(cell) in kinds and cell.label["algorithm"] not in BASELINES]
    groups = grouped(dealt, lambda cell: cell.label.without("partition"))
    return [sorted(study, key=lambda cell: cell.emd_weighted) for study in groups]


def ladders(cells: Cells) -> Iterator[list[CellResult]]:
    """Yield the cells of each study whose partitions are of one kind, by rising EMD, if they have more than one EMD."""
    for study in studies(cells):
        yield from (ladder for ladder in by_kind(study).values() if has_several_emds(ladder))


def by_kind(study: Cells) -> dict[str, list[CellResult]]:
    """Return the ladders of a study by their kind of partition, also those with one EMD."""
    every = {" and ".join(kinds): [cell for cell in study if _kind(cell) in kinds] for kinds in _LADDERS}
    return {kind: ladder for kind, ladder in every.items() if ladder}


def has_several_emds(cells: Cells) -> bool:
    """Whether cells have more than one EMD, apart from small differences."""
    distances = [cell.emd_weighted for cell in cells]
    return bool(distances) and max(distances) - min(distances) > EMD_TOLERANCE


def _kind(cell: CellResult) -> str:
    """Return the kind of a partition; empty if parties share rows."""
    kinds = partition_kinds(cell.label)
    return " + ".join(kinds) if len(kinds) == len(cell.label.partition) else ""


# --- tables -------------------------------------------------------------------------------------------


def accuracy_by_emd(cells: Cells) -> list[list[CellResult]]:
    """Return the studies with more than one EMD, without short runs that were made only to be measured."""
    trained = [cell for cell in cells if cell.label.rounds >= MIN_ROUNDS or not cell.label.measure]
    return [study for study in studies(trained) if has_several_emds(study)]


def emd_table(cells: Cells) -> Table:
    """Return one row per partition: its measured EMD, the accuracy with the paper's, and the number of trials."""
    studied = [cell for study in accuracy_by_emd(cells) for cell in study]
    names = study_choices(studied)
    rows = [
        [
            *shown_choices(cell, (*names, "partition"), cells),
            Entry(f"{cell.emd_weighted:.3f}"),
            accuracy_entry(cell),
            Entry(str(len(cell.seeds))),
        ]
        for cell in studied
    ]
    note = (
        "EMD: the sum over classes of |share at the party - share in all|, from 0 to 2; the mean over parties, "
        "weighted by rows"
    )
    return Table("Accuracy against EMD, percent", [*names, "partition", "EMD", "accuracy", "trials"], rows, note)


def emd_json(cells: Cells) -> list[dict[str, Any]]:
    """Return the rows of the table as plain values."""
    return [
        {
            **label_json(cell),
            "emd_weighted": cell.emd_weighted,
            "accuracy": accuracy_json(cell),
            "trials": len(cell.seeds),
            "paper": cell.paper and cell.paper.as_json(),
        }
        for study in accuracy_by_emd(cells)
        for cell in study
    ]


def study_choices(cells: Cells) -> list[str]:
    """Return the dataset and what else differs between cells, without the partition."""
    return ["dataset", *distinguishing([cell.label for cell in cells], but=("dataset", "partition"))]
