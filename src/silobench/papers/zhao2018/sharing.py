"""What a little data shared with all parties brings (Zhao et al., section 4 and Figure 7)."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.choices import Sharing, sharing_of
from silobench.analysis.families import Cells, percent, rest_of
from silobench.analysis.tables import Entry, Table, beside, shown
from silobench.papers.zhao2018.emd import choices, of_label
from silobench.units import size


@dataclass(frozen=True)
class Shared:
    """A cell whose parties share rows, and the cell that is the same without."""

    cell: CellResult
    sharing: Sharing
    alone: CellResult | None

    @property
    def fact(self) -> dict[str, float]:
        """Rows of G, rows that a party gets, bytes sent, EMD before: the mean over trials."""
        told = [run.facts["partition"]["shared"] for run in self.cell.runs]
        return {key: fmean(fact[key] for fact in told) for key in ("rows", "each", "bytes", "emd_weighted_before")}

    def as_json(self) -> dict[str, Any]:
        facts, alone = self.fact, self.alone
        return {
            **of_label(self.cell),
            "beta": self.sharing.beta,
            "alpha": self.sharing.alpha,
            "warmup": self.sharing.warmup,
            "holdout": self.sharing.holdout,
            "shared_rows": facts["rows"],
            "rows_each": facts["each"],
            "bytes": facts["bytes"],
            "emd_weighted_before": facts["emd_weighted_before"],
            "emd_weighted": self.cell.emd_weighted,
            "accuracy": {"mean": self.cell.accuracy.mean, "std": self.cell.accuracy.std},
            "trials": len(self.cell.seeds),
            "without": None if alone is None else {"mean": alone.accuracy.mean, "std": alone.accuracy.std},
            "paper": self.cell.paper,
        }


def shared(cells: Cells) -> list[Shared]:
    """All cells that share rows, by study, then warm-up, beta and alpha."""
    without = dict(filter(None, map(_without, cells)))
    found = []
    for cell in cells:
        if (sharing := sharing_of(cell.label)) and "shared" in cell.runs[0].facts["partition"]:
            same = rest_of(cell, "partition") + sharing.base
            alone = without.get((same, sharing.holdout), without.get((same, None)))
            found.append(Shared(cell, sharing, alone))
    places = {study: place for place, study in enumerate(dict.fromkeys(map(study_of, found)))}
    return sorted(found, key=lambda one: (places[study_of(one)], *_order(one.sharing)))


def _without(cell: CellResult) -> tuple[tuple[str, float | None], CellResult] | None:
    """A cell that shares nothing, by what else it chose and how much it sets aside all the same."""
    sharing, rest = sharing_of(cell.label), rest_of(cell, "partition")
    if sharing is None:
        return (rest + str(cell.label["partition"]), None), cell
    return ((rest + sharing.base, sharing.holdout), cell) if sharing.beta == 0 else None


def _order(sharing: Sharing) -> tuple[float, ...]:
    return (sharing.warmup, sharing.beta, sharing.alpha)


def study_of(one: Shared) -> str:
    """All but what is shared, to tell studies apart by."""
    return f"{rest_of(one.cell, 'partition')} {one.sharing.base} {one.sharing.holdout}"


def sharing_studies(cells: Cells) -> list[list[Shared]]:
    """Cells that differ in what is shared alone."""
    found: dict[str, list[Shared]] = {}
    for one in shared(cells):
        found.setdefault(study_of(one), []).append(one)
    return list(found.values())


# --- what a person sees -------------------------------------------------------------------------------


def sharing_table(cells: Cells) -> Table:
    """One row a choice of beta and alpha: what is shared, at what cost, the EMD before and after, the accuracy."""
    found = shared(cells)
    names = choices([one.cell for one in found])
    rows = [[*(Entry(shown(one.cell, name, cells)) for name in names), *_told(one)] for one in found]
    columns = [
        "partition", "beta", "alpha", "warm-up", "held out", "shared", "each gets", "sent", "EMD", "accuracy",
        "without", "gain",
    ]  # fmt: skip
    note = (
        "beta: shared rows as a share of the parties'; alpha: of them, what each party gets; warm-up: epochs of a "
        "first model, on them; held out: share of all rows that they are drawn from; "
        "EMD before and after"
    )
    return Table("Sharing a little data, accuracy in percent", [*names, *columns], rows, note)


def _told(one: Shared) -> list[Entry]:
    facts, cell, sharing, alone = one.fact, one.cell, one.sharing, one.alone
    gain = "" if alone is None else f"{100 * (cell.accuracy.mean - alone.accuracy.mean):+.1f}"
    choice = (sharing.base, f"{sharing.beta:g}", f"{sharing.alpha:g}", str(sharing.warmup), f"{sharing.holdout or 0:g}")
    sent = (f"{facts['rows']:.0f}", f"{facts['each']:.0f}", size(facts["bytes"]))
    distances = f"{facts['emd_weighted_before']:.3f} to {cell.emd_weighted:.3f}"
    own = Entry(percent(cell), paper=beside(cell))
    return [*map(Entry, (*choice, *sent, distances)), own, Entry(percent(alone) if alone else ""), Entry(gain)]
