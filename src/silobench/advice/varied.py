"""Evidence on one choice: stored runs that differ in local epochs, normalisation or compression only."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from scipy.stats import binomtest

from silobench.advice.components import Regime
from silobench.advice.evidence import TIE, is_evidence, regime_of
from silobench.analysis.cells import CellResult
from silobench.analysis.groups import Family, families, solver_families
from silobench.analysis.specs import arguments

LEAST_DATASETS = 2  # what holds on one dataset is an anecdote
_CHANCE = 0.05  # of a value that is no better than the next one, to be recommended
Families: TypeAlias = Sequence[Family]


@dataclass(frozen=True)
class Variation:
    """The best value of a choice over comparisons of stored runs."""

    value: str
    regret: float  # mean points of accuracy below the best value of each comparison
    comparisons: int
    values: tuple[str, ...]  # that were compared


def best_epochs(cells: Sequence[CellResult], regime: Regime) -> Variation | None:
    """Return the number of local epochs that loses least under a skew; None if stored runs do not decide it."""
    return _best(list(solver_families(_of_regime(cells, regime), "epochs")), _fewest_loss)


def best_normalisation(cells: Sequence[CellResult], regime: Regime) -> Variation | None:
    """Return the normalisation that loses least under a skew; None if stored runs do not decide it."""
    return _best(_model_families(_of_regime(cells, regime)), _fewest_loss)


def best_compression(cells: Sequence[CellResult], regime: Regime) -> Variation | None:
    """Return the chain of transforms with the fewest bytes that ties with the best; None if too few runs vary it."""
    return _best(list(families(_of_regime(cells, regime), "transforms")), _cheapest)


def _of_regime(cells: Iterable[CellResult], regime: Regime) -> list[CellResult]:
    return [cell for cell in cells if is_evidence(cell) and regime_of(cell) == regime]


def _model_families(cells: Iterable[CellResult]) -> list[Family]:
    groups: dict[Hashable, Family] = {}
    for cell in cells:
        others = arguments(cell.config.model)
        norm = others.pop("norm", None)
        if norm is not None:
            key = cell.label.without("model"), cell.config.model.name, repr(others)
            groups.setdefault(key, {})[norm] = cell
    return [family for family in groups.values() if len(family) > 1]


def _best(groups: Families, choose: Callable[[dict[Any, float], Families], Any]) -> Variation | None:
    """Return the best value among those that at least half of the comparisons have; None if none is shown to be."""
    if len({next(iter(family.values())).dataset.name for family in groups}) < LEAST_DATASETS:
        return None
    losses: dict[Any, list[float]] = {}
    for family in groups:
        best = max(_points(cell) for cell in family.values())
        for value, cell in family.items():
            losses.setdefault(value, []).append(best - _points(cell))
    means = {value: fmean(each) for value, each in losses.items() if 2 * len(each) >= len(groups)}
    value = choose(means, groups) if len(means) > 1 else None
    if value is None:
        return None
    values = sorted(means, key=lambda each: (not isinstance(each, int), each if isinstance(each, int) else str(each)))
    return Variation(str(value) or "none", means[value], len(groups), tuple(str(each) or "none" for each in values))


def _points(cell: CellResult) -> float:
    return cell.metric.factor * cell.score.mean


def _fewest_loss(means: dict[Any, float], groups: Families) -> Any | None:
    """Return the value with the smallest mean loss, if it leads every other one more often than chance explains.

    This is a sign test; differences within a tie do not count. It is stricter for more values, of which one is first
    by chance.
    """
    best = min(means, key=lambda value: means[value])
    level = _CHANCE / (len(means) - 1)
    return best if all(_sign_test(best, other, groups) <= level for other in means if other != best) else None


def _sign_test(a: Any, b: Any, groups: Families) -> float:
    """Return the probability that a fair coin has `a` ahead of `b` as often as the comparisons have."""
    gaps = [_points(family[a]) - _points(family[b]) for family in groups if a in family and b in family]
    wins, losses = sum(gap > TIE for gap in gaps), sum(gap < -TIE for gap in gaps)
    return float(binomtest(wins, wins + losses, alternative="greater").pvalue) if wins else 1.0


def _cheapest(means: dict[Any, float], groups: Families) -> Any:
    """Return the value with the fewest bytes among those that lose less than a tie against the best value."""
    least = min(means.values())
    ties = [value for value, loss in means.items() if loss < least + TIE]
    return min(ties, key=lambda value: fmean(family[value].bytes_up for family in groups if value in family))
