"""The gain from sharing a little data with all parties (Zhao et al., section 4 and Figure 7)."""

from collections.abc import Hashable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, accuracy_json, accuracy_text, grouped, label_json
from silobench.analysis.specs import arguments
from silobench.analysis.tables import Entry, Table, accuracy_entry, entries, shown_choices
from silobench.analysis.units import size
from silobench.papers.zhao2018.emd import study_choices
from silobench.runs.label import Label
from silobench.runs.stored import SharedRows


@dataclass(frozen=True)
class Sharing:
    """The choice to give every party some rows of all classes, G (Zhao et al., section 4)."""

    base: str  # the partition without it
    beta: float  # rows of G, as a share of the parties' rows
    alpha: float  # share of G that each party gets
    warmup: int  # epochs of a first model, trained on G
    holdout: float | None  # share of all rows from which G is drawn

    @property
    def received(self) -> float:
        """The rows that each party gets, as a share of all parties' rows."""
        return self.alpha * self.beta


def sharing_of(label: Label) -> Sharing | None:
    """Return what is shared; None if nothing is.

    >>> sharing_of(Label({"partition": "shards(per_party=1) + share(beta=0.1, alpha=0.5)"}))
    Sharing(base='shards(per_party=1)', beta=0.1, alpha=0.5, warmup=0, holdout=None)
    """
    share = next((arguments(term) for term in label.partition if term.name == "share"), None)
    if share is None:
        return None
    base = " + ".join(str(term) for term in label.partition if term.name != "share")
    return Sharing(base, share["beta"], share.get("alpha", 1.0), share.get("warmup", 0), share.get("holdout"))


@dataclass(frozen=True)
class SharingCell:
    """A cell whose parties share rows, and the cell that differs only in sharing nothing."""

    cell: CellResult
    sharing: Sharing
    without: CellResult | None

    def mean(self, name: str) -> float:
        """Return a number of the shared rows, as a mean over trials."""
        return fmean(getattr(facts, name) for facts in shared_rows(self.cell))

    def as_json(self) -> dict[str, Any]:
        return {
            **label_json(self.cell),
            "beta": self.sharing.beta,
            "alpha": self.sharing.alpha,
            "warmup": self.sharing.warmup,
            "holdout": self.sharing.holdout,
            "shared_rows": self.mean("rows"),
            "rows_each": self.mean("each"),
            "bytes": self.mean("bytes"),
            "emd_weighted_before": self.mean("emd_weighted_before"),
            "emd_weighted": self.cell.emd_weighted,
            "accuracy": accuracy_json(self.cell),
            "trials": len(self.cell.seeds),
            "without": self.without and accuracy_json(self.without),
            "paper": self.cell.paper and self.cell.paper.as_json(),
        }

    @property
    def study(self) -> Hashable:
        """A key of all choices except how much is shared."""
        return self.cell.label.without("partition"), self.sharing.base, self.sharing.holdout


def shared_rows(cell: CellResult) -> list[SharedRows]:
    """Return the facts of each trial about its shared rows."""
    return [run.partition.shared for run in cell.runs if run.partition.shared]


def sharing_cells(cells: Cells) -> list[SharingCell]:
    """Return all cells that share rows, by study, then warm-up, beta and alpha."""
    return [one for study in sharing_studies(cells) for one in study]


def sharing_studies(cells: Cells) -> list[list[SharingCell]]:
    """Return groups of cells that differ only in how much is shared."""
    without = dict(filter(None, map(_without, cells)))
    sharing = []
    for cell in cells:
        if (choice := sharing_of(cell.label)) and shared_rows(cell):
            rest = (cell.label.without("partition"), choice.base)
            sharing.append(SharingCell(cell, choice, without.get((*rest, choice.holdout), without.get((*rest, None)))))
    return [sorted(study, key=_order) for study in grouped(sharing, lambda one: one.study)]


def _without(cell: CellResult) -> tuple[Hashable, CellResult] | None:
    """Return a cell that shares nothing, with the key by which cells that share something find it."""
    sharing, rest = sharing_of(cell.label), cell.label.without("partition")
    if sharing is None:
        return (rest, cell.label["partition"], None), cell
    return ((rest, sharing.base, sharing.holdout), cell) if sharing.beta == 0 else None


def _order(one: SharingCell) -> tuple[float, ...]:
    return (one.sharing.warmup, one.sharing.beta, one.sharing.alpha)


# --- tables -------------------------------------------------------------------------------------------


def sharing_table(cells: Cells) -> Table:
    """Return one row per beta and alpha: what is shared, at what cost, the EMD before and after, the accuracy."""
    sharing = sharing_cells(cells)
    names = study_choices([one.cell for one in sharing])
    rows = [[*shown_choices(one.cell, names, cells), *_entries(one)] for one in sharing]
    columns = [
        "partition", "beta", "alpha", "warm-up", "held out", "shared", "each gets", "sent", "EMD", "accuracy",
        "without", "gain",
    ]  # fmt: skip
    note = (
        "beta: shared rows as a share of the parties' rows; alpha: the share of them that each party gets; warm-up: "
        "epochs of a first model on them; held out: share of all rows that they are drawn from; EMD: before and after"
    )
    return Table("Sharing a little data, accuracy in percent", [*names, *columns], rows, note)


def _entries(one: SharingCell) -> list[Entry]:
    cell, sharing, without = one.cell, one.sharing, one.without
    gain = "" if without is None else f"{100 * (cell.score.mean - without.score.mean):+z.1f}"
    choice = (sharing.base, f"{sharing.beta:g}", f"{sharing.alpha:g}", str(sharing.warmup), f"{sharing.holdout or 0:g}")
    sent = (f"{one.mean('rows'):.0f}", f"{one.mean('each'):.0f}", size(one.mean("bytes")))
    distances = f"{one.mean('emd_weighted_before'):.3f} to {cell.emd_weighted:.3f}"
    accuracy = accuracy_text(without) if without else ""
    return [*entries(*choice, *sent, distances), accuracy_entry(cell), *entries(accuracy, gain)]
