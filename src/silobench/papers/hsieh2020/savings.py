"""What SkewScout and Oracle save of BSP's traffic (Hsieh et al., 2020, Figure 8).

A contest is cells that differ in how they exchange alone. Oracle is the cheapest setting of a method's knob that keeps
the accuracy of BSP on the same partition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.families import Cells, by_seed, percent
from silobench.analysis.statistics import bytes_until
from silobench.analysis.tables import Entry, Table, shown, told_choices
from silobench.papers.hsieh2020.communication import Exchange
from silobench.papers.hsieh2020.matching import alike, exchanging, sent
from silobench.papers.hsieh2020.numbers import Range, quantity
from silobench.papers.zhao2018.emd import of_label
from silobench.runs.record import StoredRun
from silobench.units import size

TOLERANCE = 0.01  # of accuracy: what counts as kept
_SAVING = "saving of SkewScout over BSP with Gaia on CIFAR-10"
_RATIO = "traffic of SkewScout relative to Oracle"
Settings = Mapping[float, CellResult]


@dataclass(frozen=True)
class Saving:
    """A method in a contest: all settings of its knob that were run, and a run in which SkewScout turned it."""

    method: str
    knob: str
    bsp: CellResult
    settings: dict[float, CellResult]
    scout: CellResult | None
    tolerance: float = TOLERANCE

    @property
    def best(self) -> float | None:
        """Oracle's setting; None where there is nothing to choose among, or nothing keeps the accuracy."""
        return oracle(self.bsp, self.settings, self.tolerance) if len(self.settings) > 1 else None

    @property
    def chosen(self) -> CellResult | None:
        """Oracle's cell."""
        return None if self.best is None else self.settings[self.best]

    @property
    def cell(self) -> CellResult:
        """Any of them, for what they share."""
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
        return cell.accuracy.mean >= self.bsp.accuracy.mean - self.tolerance

    def saved_by(self, cell: CellResult | None) -> float | None:
        """Return how many times as much BSP sends; None for a cell that never sends."""
        return None if cell is None or not sent(cell) else sent(self.bsp) / sent(cell)

    @property
    def travelling(self) -> float | None:
        """Of what a run under SkewScout sends, the share of models that travel."""
        if self.scout is None or not sent(self.scout):
            return None
        return fmean(map(_travelled, self.scout.runs)) / sent(self.scout)

    def as_json(self) -> dict[str, Any]:
        return {
            **of_label(self.cell), "parties": self.cell.parties, "method": self.method, "knob": self.knob,
            "tolerance": self.tolerance, "bsp": _plain(self.bsp),
            "oracle": self.chosen and {"theta": self.best, **_plain(self.chosen), "saving": self.saved_by(self.chosen)},
            "skewscout": self.scout and {
                "controller": self.scout.label["controller"], **_plain(self.scout),
                "saving": self.saved_by(self.scout), "to_oracle": self.ratio, "travelling": self.travelling,
            },
        }  # fmt: skip


def oracle(bsp: CellResult, settings: Settings, tolerance: float = TOLERANCE) -> float | None:
    """Return the setting that sends least among those that lose at most `tolerance` to BSP; None if all lose more.

    A setting that never sends is not one of them: its parties did not train together.
    """
    least = bsp.accuracy.mean - tolerance
    kept = [theta for theta, cell in settings.items() if cell.accuracy.mean >= least and sent(cell)]
    return min(kept, key=lambda theta: sent(settings[theta]), default=None)


def _ratios(a: CellResult, b: CellResult) -> dict[int, float]:
    """Return the bytes of `a` over those of `b` by seed."""
    over, under = (by_seed(cell, lambda run: float(bytes_until(run, len(run.rounds)))) for cell in (a, b))
    return {seed: over[seed] / under[seed] for seed in over.keys() & under.keys() if under[seed]}


def _travelled(run: StoredRun) -> float:
    return float(sum(row["control"]["travelled"] for row in run.rounds if row.get("control")))


def _plain(cell: CellResult) -> dict[str, Any]:
    return {"accuracy": {"mean": cell.accuracy.mean, "std": cell.accuracy.std}, "bytes": sent(cell)}


# --- reading ------------------------------------------------------------------------------------------


def savings(cells: Cells) -> list[Saving]:
    """By contest and method, one for each run of SkewScout; one for Oracle alone where there is none."""
    contests: dict[str, list[tuple[CellResult, Exchange]]] = {}
    for cell, how in exchanging(cells):
        contests.setdefault(alike(cell), []).append((cell, how))
    return [one for contest in contests.values() for one in _of_contest(contest)]


def _of_contest(contest: list[tuple[CellResult, Exchange]]) -> Iterator[Saving]:
    bsp = next((cell for cell, how in contest if how.method == "bsp"), None)
    if bsp is None:
        return
    for method, knob in dict.fromkeys((how.method, how.knob) for _, how in contest if how.knob):
        own = [(cell, how) for cell, how in contest if (how.method, how.knob) == (method, knob)]
        settings = {how.theta: cell for cell, how in own if not how.controlled and how.theta is not None}
        scouts = [cell for cell, how in own if how.controller == "skewscout"]
        yield from (Saving(method, knob, bsp, settings, scout) for scout in scouts)
        if not scouts and len(settings) > 1:
            yield Saving(method, knob, bsp, settings, None)


# --- what a person sees -------------------------------------------------------------------------------


def savings_table(cells: Cells) -> Table:
    """One row a method and partition: BSP's accuracy and bytes, what Oracle would choose, what SkewScout did."""
    found = savings(cells)
    names = told_choices([one.cell for one in found])
    rows = [[*(Entry(shown(one.cell, name, cells)) for name in names), *_told(one)] for one in found]
    columns = [
        "method", "BSP", "BSP sends", "Oracle", "its accuracy", "Oracle saves", "SkewScout", "sends",
        "SkewScout saves", "to Oracle", "travelling",
    ]  # fmt: skip
    note = (
        f"Oracle: the setting that sends least among those within {100 * TOLERANCE:g} point of BSP's accuracy on the "
        "same partition; saves: how many times as much BSP sends; to Oracle: SkewScout's traffic over Oracle's; "
        "travelling: share of models that travel in what SkewScout sends"
    )
    return Table("What is saved of BSP's traffic, accuracy in percent", [*names, *columns], rows, note)


def _told(one: Saving) -> list[Entry]:
    chosen, scout = one.chosen, one.scout
    setting = f"{one.knob} {one.best:g}" if one.best is not None else "none keeps it" if len(one.settings) > 1 else ""
    share = one.travelling
    papers = one.method == "gaia" and one.cell.runs[0].facts["dataset"]["name"] == "cifar-10"
    return [
        *map(Entry, (one.method, percent(one.bsp), size(sent(one.bsp)), setting)),
        *map(Entry, (percent(chosen) if chosen else "", times(one.saved_by(chosen)))),
        *map(Entry, (_accuracy(one), size(sent(scout)) if scout else "")),
        Entry(times(one.saved_by(scout)), paper=_range(quantity(_SAVING)) if papers and scout else ""),
        Entry(times(one.ratio), paper=_range(quantity(_RATIO)) if papers and one.ratio else ""),
        Entry("" if share is None else f"{100 * share:.1f}%"),
    ]


def _accuracy(one: Saving) -> str:
    """SkewScout's."""
    if one.scout is None:
        return ""
    return percent(one.scout) + ("" if one.keeps(one.scout) else " (not kept)")


def times(factor: float | None) -> str:
    return "" if factor is None else f"{factor:.1f}x"


def _range(known: Range | None) -> str:
    return f"paper {known.least:g} to {known.most:g}x" if known else ""
