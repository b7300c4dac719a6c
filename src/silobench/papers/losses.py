"""The accuracy that a cell loses against a reference cell, with the loss in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass

from silobench.analysis.cells import CellResult
from silobench.analysis.tables import Entry, accuracy_entry


@dataclass(frozen=True)
class Loss:
    """A cell, and the reference cell that it is compared with."""

    cell: CellResult
    reference: CellResult

    @property
    def lost(self) -> float:
        """Accuracy of the reference minus that of the cell."""
        return self.reference.score.mean - self.cell.score.mean

    @property
    def paper(self) -> float | None:
        """The loss in the paper, if it prints both numbers."""
        cell, reference = self.cell.paper, self.reference.paper
        return reference.mean - cell.mean if cell and reference else None

    def entries(self) -> Sequence[Entry]:
        """Return the last entries of a row: both accuracies, and the difference beside the paper's."""
        paper = "" if self.paper is None else f"paper {100 * self.paper:.1f}"
        return accuracy_entry(self.reference), accuracy_entry(self.cell), Entry(f"{100 * self.lost:.1f}", paper=paper)
