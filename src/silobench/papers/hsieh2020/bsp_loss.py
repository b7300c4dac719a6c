"""What methods lose against BSP on iid data: the "-x%" above the bars of the quagmire study (Hsieh et al., 2020)."""

from dataclasses import dataclass
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells, percent
from silobench.analysis.tables import Entry, Table, beside, shown, told_choices
from silobench.papers.hsieh2020.communication import Exchange
from silobench.papers.hsieh2020.matching import alike, exchanging, fixed, is_iid
from silobench.papers.hsieh2020.numbers import quagmire_loss
from silobench.papers.zhao2018.emd import of_label


@dataclass(frozen=True)
class BspLoss:
    """A cell, and that of BSP with the same network, parties and training on iid data."""

    cell: CellResult
    how: Exchange
    bsp: CellResult

    @property
    def lost(self) -> float:
        return self.bsp.accuracy.mean - self.cell.accuracy.mean

    @property
    def paper(self) -> float | None:
        return None if self.how.controlled else quagmire_loss(self.cell.label, self.cell.parties)

    def as_json(self) -> dict[str, Any]:
        bsp = {"mean": self.bsp.accuracy.mean, "std": self.bsp.accuracy.std}
        own = {"parties": self.cell.parties, "method": self.how.method, "theta": self.how.theta}
        return {
            **of_label(self.cell), **own, "controller": self.how.controller, "bsp_accuracy": bsp, "lost": self.lost,
            "paper": self.paper,
        }  # fmt: skip


def bsp_losses(cells: Cells) -> list[BspLoss]:
    """All cells that have such a rival, but the rivals, in their order."""
    rivals = {alike(cell, "partition"): cell for cell, _ in fixed(cells, "bsp") if is_iid(cell)}
    found = []
    for cell, how in exchanging(cells):
        rival = rivals.get(alike(cell, "partition"))
        if rival is not None and rival is not cell:
            found.append(BspLoss(cell, how, rival))
    return found


def bsp_loss_table(cells: Cells) -> Table:
    """One row a cell: BSP's accuracy on iid data, its own, and the difference beside the paper's."""
    found = bsp_losses(cells)
    names = told_choices([one.cell for one in found])
    rows = [
        [
            *(Entry(shown(one.cell, name, cells)) for name in names),
            Entry(str(one.how)),
            Entry(percent(one.bsp), paper=beside(one.bsp)),
            Entry(percent(one.cell), paper=beside(one.cell)),
            Entry(f"{100 * one.lost:.1f}", paper="" if one.paper is None else f"paper {100 * one.paper:.1f}"),
        ]
        for one in found
    ]
    note = "BSP on iid data: the same network, parties and minibatches, everything exchanged after each"
    columns = [*names, "method", "BSP on iid data", "accuracy", "lost"]
    return Table("What is lost against BSP on iid data, points of accuracy", columns, rows, note)
