"""Ranks of algorithms over many settings, with ties where no difference is shown, and an interval of the mean rank.

A rank counts only algorithms that are practically better: 1 + those better + half of those that tie. Where ties are
consistent that is the mean of the shared places; "A ties with B, B with C, but A is better than C" has ranks as well,
and the ranks of a setting always add up to the same sum.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from silobench.analysis.bayes import DECIDED
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Question, paired, rope_of
from silobench.analysis.groups import by_metric, settings_of
from silobench.analysis.tables import Table, entries, folded, is_baseline
from silobench.tasks.metrics import ACCURACY, Metric

_RESAMPLES = 10_000
_AT_ONCE = 1_000_000  # numbers that are resampled at once
_SEQUENCES_AT_ONCE = 250  # with all their means, these take 20 MB


@dataclass(frozen=True)
class Standing:
    """One algorithm over all ranked settings."""

    algorithm: str
    ranks: list[float]  # by setting
    mean_rank: float
    interval: tuple[float, float] | None  # 95%, by resampling settings; None for one setting
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


def rankings(cells: Sequence[CellResult], every: bool = False) -> list[dict[str, Any]]:
    """Return one ranking per main metric, as JSON."""
    return [{"metric": group[0].metric.name, **ranking(group, every=every).as_json()} for group in by_metric(cells)]


def ranking(
    cells: Sequence[CellResult], rope: float | None = None, rho: float | None = None, every: bool = False
) -> Ranking:
    """Rank algorithms by the main metric in every setting that has them all, and over these settings.

    Cells that are judged by another metric than the first group of `by_metric` are left out: their scores do not
    compare. FedProx over a grid of mu is one algorithm, at the best mu in each setting, unless `every` is set.
    """
    cells = next(iter(by_metric(cells)), [])
    metric = cells[0].metric if cells else ACCURACY
    question = Question(metric.name, rope_of(metric) if rope is None else rope, rho, score=metric)
    chosen = cells if every else folded(cells)
    rivals = [cell for cell in chosen if not is_baseline(str(cell.label["algorithm"]))]
    names = list(dict.fromkeys(cell.label["algorithm"] for cell in rivals))
    settings = [{cell.label["algorithm"]: cell for cell in setting} for setting in settings_of(rivals)]
    whole = [setting for setting in settings if len(setting) == len(names) > 1]
    places = [_places(setting, question) for setting in whole]
    standings = _standings({name: [place[name] for place in places] for name in names if places})
    blind = sum(len(set.intersection(*(set(cell.seeds) for cell in setting.values()))) < 2 for setting in whole)
    return Ranking(sorted(standings, key=lambda s: s.mean_rank), len(whole), len(settings) - len(whole), blind)


@dataclass(frozen=True)
class Place:
    """The place of an algorithm in one setting, by how many others are better, equal and worse."""

    above: int
    ties: int
    below: int

    @property
    def rank(self) -> float:
        """The place, where those that tie share the mean of theirs."""
        return 1 + self.above + self.ties / 2

    @property
    def won(self) -> bool:
        return self.above == self.ties == 0

    @property
    def shared(self) -> bool:
        return self.above == 0 < self.ties


def places_of(names: Iterable[str], better: Set[tuple[str, str]]) -> dict[str, Place]:
    """Return the place of each name, by the pairs of which the first is better than the second."""
    every = list(names)
    places = {}
    for name in every:
        above = sum((other, name) in better for other in every)
        below = sum((name, other) in better for other in every)
        places[name] = Place(above, len(every) - 1 - above - below, below)
    return places


def _places(setting: Mapping[str, CellResult], question: Question) -> dict[str, Place]:
    """Return the place of each algorithm in a setting."""
    better = set()
    for pair in combinations(setting, 2):
        first, second = _better(setting[pair[0]], setting[pair[1]], question)
        better |= {pair} if first else {pair[::-1]} if second else set()
    return places_of(setting, better)


def _standings(places: Mapping[str, Sequence[Place]]) -> list[Standing]:
    ranks = {name: [place.rank for place in each] for name, each in places.items()}
    intervals = intervals_of(list(ranks.values()))
    return [
        Standing(
            name, ranks[name], fmean(ranks[name]), interval,
            sum(place.won for place in each), sum(place.shared for place in each),
        )
        for (name, each), interval in zip(places.items(), intervals, strict=True)
    ]  # fmt: skip


def _better(a: CellResult, b: CellResult, question: Question) -> tuple[bool, bool]:
    """Whether `a` is better by the correlated t-test, and whether `b` is; without a spread, by more than the region."""
    failures = [not math.isfinite(cell.score.mean) for cell in (a, b)]
    if any(failures):  # an algorithm with a trial that diverged is worse than one without
        return failures == [False, True], failures == [True, False]
    pairs = paired(a, b, question)
    if pairs and pairs.odds:
        return pairs.odds.better_a > DECIDED, pairs.odds.better_b > DECIDED
    gain = a.metric.gain(pairs.mean, 0.0) if pairs else a.metric.gain(a.score.mean, b.score.mean)
    return gain > question.rope, -gain > question.rope


def interval_of(ranks: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of ranks, by resampling settings; None for one setting."""
    return intervals_of([ranks])[0]


def intervals_of(every: Sequence[Sequence[float]]) -> list[tuple[float, float] | None]:
    """Return the interval of each of several sequences of ranks in the same settings, by the same resamples."""
    if not every or len(every[0]) < 2:
        return [None for _ in every]
    starts = range(0, len(every), _SEQUENCES_AT_ONCE)
    return [interval for start in starts for interval in _intervals(every[start : start + _SEQUENCES_AT_ONCE])]


def _intervals(every: Sequence[Sequence[float]]) -> list[tuple[float, float] | None]:
    import numpy as np

    from silobench.rng import stream

    ranks, rng, count = np.array(every), stream(0, "ranking"), len(every[0])
    parts = np.array_split(np.arange(_RESAMPLES), math.ceil(_RESAMPLES * count / _AT_ONCE))  # of resamples
    picked = (rng.integers(count, size=(len(part), count)) for part in parts)
    means = np.concatenate([[one[places].mean(1) for one in ranks] for places in picked], axis=1)
    low, high = np.quantile(means, (0.025, 0.975), axis=1).tolist()
    return list(zip(low, high, strict=True))


def ranking_tables(cells: Sequence[CellResult], every: bool = False) -> list[Table]:
    """Return one table of ranks per main metric."""
    return [ranking_table(group, every) for group in by_metric(cells)]


def ranking_table(cells: Sequence[CellResult], every: bool = False) -> Table:
    """Return the mean rank over settings, with its 95% interval, and how often an algorithm is first.

    The table has no rows if no setting has a second trial: ranks then have no error to judge them by.
    """
    ranks = ranking(cells, every=every)
    rows = []
    for standing in ranks.standings if ranks.without_spread < ranks.settings else ():
        interval = "-" if standing.interval is None else "[{:.2f}, {:.2f}]".format(*standing.interval)
        texts = [f"{standing.mean_rank:.2f}", interval, str(standing.won), str(standing.shared)]
        rows.append(entries(standing.algorithm, *texts))
    metric = cells[0].metric if cells else ACCURACY
    title = f"Rank by {metric.title} over {ranks.settings} setting{'s' * (ranks.settings != 1)} (1 is best)"
    columns = ["algorithm", "mean rank", "95% interval", "sole firsts", "ties for first"]
    personal = "; the scores are those on all test rows" if any(cell.has_party_models for cell in cells) else ""
    return Table(title, columns, rows, _note(ranks, metric) + personal)


def _note(ranks: Ranking, metric: Metric) -> str:
    if not ranks.standings:
        return "no setting has runs of all algorithms, so there is nothing to rank"
    step = f"{metric.factor * rope_of(metric):g}"
    unit = "percentage point" if metric.is_share else metric.unit or f"of {metric.title}"
    notes = [
        f"two algorithms tie unless one is better by more than {step} {unit} with a probability above 0.95",
        "a rank is 1 + the number of better algorithms + half of the ties, so an algorithm whose trials scatter widely "
        "can tie with one that has a better mean",
        "sole firsts: settings in which it is better than every other algorithm",
        "ties for first: settings in which no other is better, but some tie with it",
    ]
    if ranks.without_spread:
        few = "all" if ranks.without_spread == ranks.settings else str(ranks.without_spread)
        wins = f"a difference above {step} {unit.removeprefix('percentage ')} wins"
        notes.append(f"{few} settings have one trial and no spread to judge by: there, {wins}")
    if ranks.left_out:
        notes.append(f"{ranks.left_out} settings without all algorithms are left out")
    return "; ".join(notes)
