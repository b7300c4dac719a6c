"""Algorithms ranked over many settings: ties where a difference is not shown, and how sure the mean rank is.

A rank counts only who is practically better: 1 + those better than you + half of those that tie with you. Where ties
are plain that is the mean of the shared places; "A ties with B, B with C, but A is better than C" has ranks as well,
and the ranks of a setting always add up to the same sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from silobench.analysis.bayes import DECIDED
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Question, paired
from silobench.analysis.tables import BASELINES, Entry, Table, folded, settings_of
from silobench.rng import stream

_RESAMPLES = 10_000


@dataclass(frozen=True)
class Standing:
    """One algorithm over all ranked settings."""

    algorithm: str
    ranks: list[float]  # by setting
    mean_rank: float
    interval: tuple[float, float] | None  # 95%, by resampling settings; None of one setting
    won: int  # settings in which it is practically better than every other
    shared: int  # settings in which none is practically better, but some are equal


@dataclass(frozen=True)
class Ranking:
    """Standings, the best mean rank first."""

    standings: list[Standing]
    settings: int
    left_out: int  # settings that lack one of the algorithms: ranks among fewer are not the same
    without_spread: int  # settings whose algorithms share fewer than two seeds

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ranking(
    cells: Sequence[CellResult], rope: float = Question.rope, rho: float | None = None, every: bool = False
) -> Ranking:
    """Rank algorithms by accuracy in every setting that has them all, and over these settings.

    FedProx over a grid of mu is one algorithm, at the best of them in each setting, unless `every` is wanted.
    """
    chosen = cells if every else folded(cells)
    rivals = [cell for cell in chosen if cell.label["algorithm"] not in BASELINES]
    names = list(dict.fromkeys(cell.label["algorithm"] for cell in rivals))
    settings = [{cell.label["algorithm"]: cell for cell in setting} for setting in settings_of(rivals)]
    whole = [setting for setting in settings if len(setting) == len(names) > 1]
    places = [_places(setting, Question(rope=rope, rho=rho)) for setting in whole]
    standings = [_standing(name, [place[name] for place in places]) for name in names if places]
    blind = sum(len(set.intersection(*(set(cell.seeds) for cell in setting.values()))) < 2 for setting in whole)
    return Ranking(sorted(standings, key=lambda s: s.mean_rank), len(whole), len(settings) - len(whole), blind)


@dataclass(frozen=True)
class _Place:
    rank: float
    won: bool
    shared: bool


def _places(setting: Mapping[str, CellResult], asked: Question) -> dict[str, _Place]:
    """Where each algorithm of a setting stands."""
    pairs = [(i, j) for i in setting for j in setting if i != j]
    better = {(i, j) for i, j in pairs if _better(setting[i], setting[j], asked)}
    places = {}
    for name in setting:
        above = sum((other, name) in better for other in setting)
        below = sum((name, other) in better for other in setting)
        ties = len(setting) - 1 - above - below
        places[name] = _Place(1 + above + ties / 2, won=above == ties == 0, shared=above == 0 < ties)
    return places


def _standing(name: str, places: Sequence[_Place]) -> Standing:
    ranks = [place.rank for place in places]
    won, shared = sum(place.won for place in places), sum(place.shared for place in places)
    return Standing(name, ranks, fmean(ranks), _interval(ranks), won, shared)


def _better(a: CellResult, b: CellResult, asked: Question) -> bool:
    """By the correlated t-test; without a spread, whatever is beyond the region of practical equivalence."""
    found = paired(a, b, asked)
    if found and found.odds:
        return found.odds.better_a > DECIDED
    return (found.mean if found else a.accuracy.mean - b.accuracy.mean) > asked.rope


def _interval(ranks: Sequence[float]) -> tuple[float, float] | None:
    if len(ranks) < 2:
        return None
    picked = stream(0, "ranking").integers(len(ranks), size=(_RESAMPLES, len(ranks)))
    low, high = np.quantile(np.array(ranks)[picked].mean(1), (0.025, 0.975)).tolist()
    return low, high


def ranking_table(cells: Sequence[CellResult], every: bool = False) -> Table:
    """Mean rank over settings, with its 95% interval, and how many settings an algorithm won or shared.

    Without rows if no setting has a second trial: there is then no error to judge a rank by.
    """
    found = ranking(cells, every=every)
    rows = []
    for standing in found.standings if found.without_spread < found.settings else ():
        interval = "-" if standing.interval is None else "[{:.2f}, {:.2f}]".format(*standing.interval)
        texts = [f"{standing.mean_rank:.2f}", interval, str(standing.won), str(standing.shared)]
        rows.append([Entry(standing.algorithm), *map(Entry, texts)])
    title = f"Rank by accuracy over {found.settings} setting{'s' * (found.settings != 1)} (1 is best)"
    return Table(title, ["algorithm", "mean rank", "95% interval", "won alone", "shared"], rows, _reading(found))


def _reading(found: Ranking) -> str:
    if not found.standings:
        return "no setting has runs of all algorithms, so that there is nothing to rank"
    said = ["two tie unless one is better by more than 1 percentage point with a probability above 0.95"]
    if found.without_spread:
        few = "all" if found.without_spread == found.settings else str(found.without_spread)
        said.append(f"{few} settings have one trial and no spread to judge by: whatever differs by more wins there")
    if found.left_out:
        said.append(f"{found.left_out} settings that lack an algorithm are left out")
    return "; ".join(said)
