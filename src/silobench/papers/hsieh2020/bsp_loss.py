"""Accuracy lost against BSP on iid data: the "-x%" above the bars of the quagmire study (Hsieh et al., 2020)."""

from dataclasses import dataclass
from typing import Any

from silobench.analysis.groups import Cells, accuracy_json, label_json
from silobench.analysis.tables import Entry, Table, method_choices, shown_choices
from silobench.papers.hsieh2020.communication import Exchange
from silobench.papers.hsieh2020.matching import contest_key, exchanging, fixed, is_iid
from silobench.papers.hsieh2020.numbers import published_loss
from silobench.papers.losses import Loss


@dataclass(frozen=True)
class BspLoss(Loss):
    """A cell, and BSP with the same network, parties and training on iid data."""

    how: Exchange

    @property
    def paper(self) -> float | None:
        return None if self.how.controlled else published_loss(self.cell.label, self.cell.parties)

    def as_json(self) -> dict[str, Any]:
        return {
            **label_json(self.cell),
            "parties": self.cell.parties,
            "method": self.how.method,
            "theta": self.how.theta,
            "controller": self.how.controller,
            "bsp_accuracy": accuracy_json(self.reference),
            "lost": self.lost,
            "paper": self.paper,
        }


def bsp_losses(cells: Cells) -> list[BspLoss]:
    """Return the losses of all cells that have such a reference, in their order; without the references."""
    references = {contest_key(cell, "partition"): cell for cell, _ in fixed(cells, "bsp") if is_iid(cell)}
    losses = []
    for cell, how in exchanging(cells):
        reference = references.get(contest_key(cell, "partition"))
        if reference is not None and reference is not cell:
            losses.append(BspLoss(cell, reference, how))
    return losses


def bsp_loss_table(cells: Cells) -> Table:
    """Return one row per cell: accuracy of BSP on iid data and of the cell, and the difference beside the paper's."""
    losses = bsp_losses(cells)
    names = method_choices([loss.cell for loss in losses])
    rows = [[*shown_choices(loss.cell, names, cells), Entry(str(loss.how)), *loss.entries()] for loss in losses]
    note = "BSP on iid data: the same network, parties and minibatches, everything exchanged after each"
    columns = [*names, "method", "BSP on iid data", "accuracy", "lost"]
    return Table("Loss against BSP on iid data, points of accuracy", columns, rows, note)
