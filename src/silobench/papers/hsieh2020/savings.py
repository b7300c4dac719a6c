"""How much of BSP's traffic SkewScout and Oracle save (Hsieh et al., 2020, Figure 8).

A contest is a group of cells that differ only in the communication method. Oracle is the cheapest setting of a
method's knob that keeps the accuracy of BSP on the same partition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Cells, accuracy_json, accuracy_text, by_seed, grouped, label_json
from silobench.analysis.statistics import bytes_until
from silobench.analysis.tables import Entry, Table, entries, method_choices, shown_choices
from silobench.analysis.units import size
from silobench.papers.hsieh2020.communication import Exchange
from silobench.papers.hsieh2020.matching import contest_key, exchanging, sent
from silobench.papers.hsieh2020.numbers import Range, quantity
from silobench.runs.report_types import is_decision
from silobench.runs.stored import StoredRun

TOLERANCE = 0.01  # of accuracy: a smaller loss counts as none
_SAVING = "saving of SkewScout over BSP with Gaia on CIFAR-10"
_RATIO = "traffic of SkewScout relative to Oracle"
Settings = Mapping[float, CellResult]


@dataclass(frozen=True)
class Saving:
    """A method in a contest: all fixed settings of its knob that were run, and a cell in which SkewScout turned it."""

    method: str
    knob: str
    bsp: CellResult
    settings: dict[float, CellResult]
    scout: CellResult | None
    tolerance: float = TOLERANCE

    @property
    def best(self) -> float | None:
        """Oracle's setting; None if there is one setting only, or none keeps the accuracy."""
        return oracle(self.bsp, self.settings, self.tolerance) if len(self.settings) > 1 else None

    @property
    def chosen(self) -> CellResult | None:
        """Oracle's cell."""
        return None if self.best is None else self.settings[self.best]

    @property
    def cell(self) -> CellResult:
        """One of the cells, for the choices that they share."""
        return self.scout or next(iter(self.settings.values()))

    @property
    def ratio(self) -> float | None:
        """SkewScout's traffic over Oracle's."""
        return None if self.scout is None or self.chosen is None else sent(self.scout) / sent(self.chosen)

    @property
    def ratio_by_seed(self) -> dict[int, float]:
        """SkewScout's traffic over Oracle's in each trial; empty where there is no such ratio."""
        return _ratios(self.scout, self.chosen) if self.scout and self.chosen else {}

    def saved_by_seed(self, cell: CellResult | None) -> dict[int, float]:
        """Return how many times as much BSP sends in each trial; without trials in which a cell never sends."""
        return {} if cell is None else _ratios(self.bsp, cell)

    def keeps(self, cell: CellResult) -> bool:
        """Whether a cell has BSP's accuracy, or nearly."""
        return cell.score.mean >= self.bsp.score.mean - self.tolerance

    def saved_by(self, cell: CellResult | None) -> float | None:
        """Return how many times as much BSP sends; None for a cell that never sends."""
        return None if cell is None or not sent(cell) else sent(self.bsp) / sent(cell)

    @property
    def travelling(self) -> float | None:
        """The share of travelling models in what a run under SkewScout sends."""
        if self.scout is None or not sent(self.scout):
            return None
        return fmean(map(_travelled, self.scout.runs)) / sent(self.scout)

    def as_json(self) -> dict[str, Any]:
        return {
            **label_json(self.cell), "parties": self.cell.parties, "method": self.method, "knob": self.knob,
            "tolerance": self.tolerance, "bsp": _json(self.bsp),
            "oracle": self.chosen and {"theta": self.best, **_json(self.chosen), "saving": self.saved_by(self.chosen)},
            "skewscout": self.scout and {
                "controller": self.scout.label["controller"], **_json(self.scout),
                "saving": self.saved_by(self.scout), "to_oracle": self.ratio, "travelling": self.travelling,
            },
        }  # fmt: skip


def oracle(bsp: CellResult, settings: Settings, tolerance: float = TOLERANCE) -> float | None:
    """Return the setting that sends least among those that lose at most `tolerance` to BSP; None if all lose more.

    A setting that never sends is not one of them: its parties did not train together.
    """
    least = bsp.score.mean - tolerance
    good = [theta for theta, cell in settings.items() if cell.score.mean >= least and sent(cell)]
    return min(good, key=lambda theta: sent(settings[theta]), default=None)


def _ratios(a: CellResult, b: CellResult) -> dict[int, float]:
    """Return the bytes of `a` over those of `b` by seed."""
    over, under = (by_seed(cell, lambda run: float(bytes_until(run, len(run.rounds)))) for cell in (a, b))
    return {seed: over[seed] / under[seed] for seed in over.keys() & under.keys() if under[seed]}


def _travelled(run: StoredRun) -> float:
    """Return the bytes of models that travelled."""
    return float(sum(row.control["travelled"] for row in run.rounds if is_decision(row.control)))


def _json(cell: CellResult) -> dict[str, Any]:
    return {"accuracy": accuracy_json(cell), "bytes": sent(cell)}


# --- reading ------------------------------------------------------------------------------------------


def savings(cells: Cells) -> list[Saving]:
    """Return one saving per contest, method and cell of SkewScout; one for Oracle where SkewScout was not run."""
    contests = grouped(exchanging(cells), lambda pair: contest_key(pair[0]))
    return [saving for contest in contests for saving in _of_contest(contest)]


def _of_contest(contest: list[tuple[CellResult, Exchange]]) -> Iterator[Saving]:
    bsp = next((cell for cell, how in contest if how.method == "bsp"), None)
    if bsp is None:
        return
    for method, knob in dict.fromkeys((how.method, how.knob) for _, how in contest if how.knob):
        rivals = [(cell, how) for cell, how in contest if (how.method, how.knob) == (method, knob)]
        settings = {how.theta: cell for cell, how in rivals if not how.controlled and how.theta is not None}
        scouts = [cell for cell, how in rivals if how.controller == "skewscout"]
        yield from (Saving(method, knob, bsp, settings, scout) for scout in scouts)
        if not scouts and len(settings) > 1:
            yield Saving(method, knob, bsp, settings, None)


# --- tables -------------------------------------------------------------------------------------------


def savings_table(cells: Cells) -> Table:
    """Return one row per method and partition: BSP's accuracy and bytes, Oracle's choice, and SkewScout's result."""
    rivals = savings(cells)
    names = method_choices([saving.cell for saving in rivals])
    rows = [[*shown_choices(saving.cell, names, cells), *_entries(saving)] for saving in rivals]
    columns = [
        "method", "BSP", "BSP sends", "Oracle", "its accuracy", "Oracle saves", "SkewScout", "sends",
        "SkewScout saves", "vs Oracle", "travelling",
    ]  # fmt: skip
    note = (
        f"Oracle: the setting that sends least among those within {100 * TOLERANCE:g} point of BSP's accuracy on the "
        "same partition; saves: BSP's traffic over its own; vs Oracle: SkewScout's traffic over Oracle's; "
        "travelling: share of travelling models in what SkewScout sends"
    )
    return Table("Savings of BSP's traffic, accuracy in percent", [*names, *columns], rows, note)


def _entries(one: Saving) -> list[Entry]:
    chosen, scout = one.chosen, one.scout
    setting = f"{one.knob} {one.best:g}" if one.best is not None else "none keeps it" if len(one.settings) > 1 else ""
    share = one.travelling
    papers = one.method == "gaia" and one.cell.dataset.name == "cifar-10"
    return [
        *entries(one.method, accuracy_text(one.bsp), size(sent(one.bsp)), setting),
        *entries(accuracy_text(chosen) if chosen else "", times(one.saved_by(chosen))),
        *entries(_scout_accuracy(one), size(sent(scout)) if scout else ""),
        Entry(times(one.saved_by(scout)), paper=_range(quantity(_SAVING)) if papers and scout else ""),
        Entry(times(one.ratio), paper=_range(quantity(_RATIO)) if papers and one.ratio else ""),
        Entry("" if share is None else f"{100 * share:.1f}%"),
    ]


def _scout_accuracy(one: Saving) -> str:
    if one.scout is None:
        return ""
    return accuracy_text(one.scout) + ("" if one.keeps(one.scout) else " (not kept)")


def times(factor: float | None) -> str:
    """Return a factor such as "1.5x"; empty if there is none."""
    return "" if factor is None else f"{factor:.1f}x"


def _range(published: Range | None) -> str:
    return f"paper {published.least:g} to {published.most:g}x" if published else ""
