"""Stored runs as evidence: settings with their measured skew, and what each method loses there against the best."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np

from silobench.advice.components import Regime
from silobench.advice.profile import Profiles
from silobench.analysis.cells import CellResult, collect
from silobench.analysis.groups import settings_of
from silobench.analysis.tables import is_baseline
from silobench.partitions.measures import emd_weighted, gini
from silobench.runs.stored import StoredRun

TIE = 1.0  # points of accuracy: methods that are closer are equally good, as in OARF's comparisons
_FEATURE = {"noise", "octants", "by-group"}
_QUANTITY = {"quantity-dirichlet", "quantity-power-law"}


@dataclass(frozen=True)
class Traits:
    """What is known of a federation before training, as numbers that a tree can ask for."""

    emd: float  # mean distance of labels, 0 to 2
    gini: float  # of sizes, 0 to 1
    feature_shift: float  # of means, in standard deviations
    classes_held: float  # effective share of the classes that a party holds
    parties: float
    participation: float  # share of the parties in a round

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(cls.__dataclass_fields__)

    @property
    def vector(self) -> list[float]:
        return list(asdict(self).values())


TRAIT_WORDS = {
    "emd": "label distance (EMD)",
    "gini": "inequality of sizes (Gini)",
    "feature_shift": "feature shift",
    "classes_held": "share of classes a party holds",
    "parties": "number of parties",
    "participation": "parties per round (share)",
}


def effective_classes(counts: Sequence[Sequence[float]]) -> float:
    """Return the mean share of the classes that parties hold, each by the exponential of its entropy.

    >>> effective_classes([[10, 10], [20, 0]])
    0.75
    """
    table = np.maximum(np.array(counts, np.float64), 0)
    present = table[table.sum(1) > 0]
    shares = present / present.sum(1, keepdims=True)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(1)
    return float((np.exp(entropy) / max(1, (table.sum(0) > 0).sum())).mean())


def traits_of_profiles(profiles: Profiles, participation: float = 1.0) -> Traits:
    """Return the traits of profiled parties. Negative counts, which noise gives, count as 0."""
    counts = np.rint(np.maximum(profiles.labels, 0)).astype(np.int64)
    held = counts[counts.sum(1) > 0]
    return Traits(
        emd_weighted(held),
        gini(held.sum(1)),
        _bin_shift(profiles),
        effective_classes(held.tolist()),
        float(len(counts)),
        participation,
    )


def _bin_shift(profiles: Profiles) -> float:
    """Return the root mean square shift of bin shares between parties, in deviations of a bin: as `feature_shift`."""
    squares = []
    for table in profiles.features:
        counts = np.maximum(table.sum(1), 0)  # parties x bins
        sizes, whole = counts.sum(1), counts.sum(0)
        if not whole.sum():
            continue
        shares = counts / np.maximum(sizes[:, None], 1)
        p = whole / whole.sum()
        varying = (p > 0) & (p < 1)
        gaps = (shares - p)[:, varying] ** 2 / (p * (1 - p))[varying]
        squares.append(float(np.average(gaps, axis=0, weights=sizes).mean()))
    return float(np.sqrt(fmean(squares))) if squares else 0.0


@dataclass(frozen=True)
class Setting:
    """One setting of stored runs: what it is like, and what each method loses there."""

    name: str
    dataset: str
    regime: Regime
    traits: Traits
    regrets: Mapping[str, float]  # points of accuracy below the best method, 0 for those that tie with it
    trials: int


def settings(runs: Iterable[StoredRun]) -> list[Setting]:
    """Return the settings of runs in which two or more methods were compared by accuracy."""
    cells = [cell for cell in collect(runs) if is_evidence(cell)]
    return [_setting(group) for group in settings_of(cells) if len(group) > 1]


def is_evidence(cell: CellResult) -> bool:
    """Whether a cell says how well a method learns from parties with rows, without attacks or replaced parts."""
    return (
        cell.is_accuracy
        and not cell.is_vertical
        and not cell.label.has_replaced_parts
        and not is_baseline(str(cell.label["algorithm"]))
        and not any(run.facts.malicious for run in cell.runs)
        and bool(cell.runs[0].partition.counts)
    )


def _setting(group: Sequence[CellResult]) -> Setting:
    first = group[0]
    scores = {str(cell.label["algorithm"]): cell.metric.factor * cell.score.mean for cell in group}
    best = max(scores.values())
    regrets = {name: 0.0 if best - score < TIE else best - score for name, score in scores.items()}
    name = f"{first.dataset.name} {first.label['partition']}"
    trials = min(len(cell.seeds) for cell in group)
    return Setting(name, first.dataset.name, regime_of(first), traits_of_cell(first), regrets, trials)


def traits_of_cell(cell: CellResult) -> Traits:
    """Return the traits of a stored setting, as means over its trials."""
    facts = [run.partition for run in cell.runs]

    def mean(name: str) -> float:
        return fmean(getattr(each, name) for each in facts)

    held = fmean(effective_classes(each.counts) for each in facts)
    share = min(1.0, cell.cohort / max(1, cell.parties))
    return Traits(mean("emd_weighted"), mean("gini"), mean("feature_shift"), held, float(cell.parties), share)


def regime_of(cell: CellResult) -> Regime:
    """Return the kind of skew that the partition of a cell has by its name."""
    kinds = set[Regime]()
    for term in cell.label.partition:
        if term.name in ("iid", "share"):
            continue
        kinds.add("feature" if term.name in _FEATURE else "quantity" if term.name in _QUANTITY else "label")
    return "mixed" if len(kinds) > 1 else kinds.pop() if kinds else "none"
