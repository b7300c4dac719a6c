"""What a cell loses against a reference cell, beside what the paper's cell loses."""

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
        return self.reference.accuracy.mean - self.cell.accuracy.mean

    @property
    def paper(self) -> float | None:
        """What the paper's cell loses, where the paper prints both numbers."""
        own, reference = self.cell.paper, self.reference.paper
        return reference.mean - own.mean if own and reference else None

    def entries(self) -> Sequence[Entry]:
        """Return the last entries of a row: both accuracies, and the difference beside the paper's."""
        paper = "" if self.paper is None else f"paper {100 * self.paper:.1f}"
        return accuracy_entry(self.reference), accuracy_entry(self.cell), Entry(f"{100 * self.lost:.1f}", paper=paper)
