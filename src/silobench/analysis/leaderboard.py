"""A leaderboard: methods ranked in every setting, with ties where no difference is decided, and over all settings.

In a setting, one method is better than another if the Bayesian correlated t-test of `bayes` says so with a probability
above 0.95: better by more than the region of practical equivalence, over the seeds that both have. Everything else is
a tie. docs/leaderboard.md states the rules.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from silobench.analysis.bayes import DECIDED
from silobench.analysis.budget import Budget
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import FEWEST_SETTINGS, Question, paired, rope_of
from silobench.analysis.contests import Contest, contests, inside
from silobench.analysis.ranking import Place, interval_of, intervals_of, places_of
from silobench.runs.stored import StoredRun

FEWEST_TRIALS = 2  # with one, there is no spread to judge by
FEWEST_SHARE = 4  # a method is listed over settings if it entered a quarter of those of the most frequent method


@dataclass(frozen=True)
class RankedContest:
    """A setting with the pairs of methods of which the first is better than the second."""

    contest: Contest
    ranked: tuple[str, ...]  # methods with enough trials, the best mean first; empty if there is nothing to rank
    better: frozenset[tuple[str, str]]

    @cached_property
    def places(self) -> dict[str, Place]:
        """The place of each ranked method."""
        return places_of(self.ranked, self.better)

    @property
    def listed(self) -> list[str]:
        """All methods: the ranked ones by place and mean, then those with too few trials."""
        places = self.places
        first = sorted(self.ranked, key=lambda name: places[name].above)
        return [*first, *(name for name in self.contest.methods if name not in places)]

    def relative(self, name: str) -> float:
        """Return the share of the rivals of a method that are better than it; a tie counts half."""
        return (self.places[name].rank - 1) / (len(self.ranked) - 1)


@dataclass(frozen=True)
class Standing:
    """One method over all settings in which it is ranked."""

    method: str
    rank: int  # 1 + the methods that are better over the settings that both have; equal for methods that tie
    settings: int
    mean_rank: float
    interval: tuple[float, float] | None  # 95%, by resampling settings; None for one setting
    beaten: float  # the mean share of rivals that are better; a tie counts half
    first: int  # settings in which no other is better
    alone: int  # of these, settings in which it is better than every other
    wins: int  # pairs of a setting and a rival
    ties: int
    losses: int


@dataclass(frozen=True)
class Board:
    """Contests with their ranks, the standings over them, and what was left out."""

    contests: list[RankedContest]
    standings: list[Standing]
    budget: Budget = field(default_factory=Budget)

    @property
    def ranked(self) -> list[RankedContest]:
        """The settings that have ranks."""
        return [one for one in self.contests if one.ranked]

    @property
    def listed(self) -> list[Standing]:
        """The standings of methods that entered many settings; a mean rank over few of them says little."""
        most = max((standing.settings for standing in self.standings), default=0)
        return [standing for standing in self.standings if FEWEST_SHARE * standing.settings >= most]

    @property
    def other_partition(self) -> int:
        """Runs that were left out, because their parties have other rows than those of the same seed."""
        return sum(one.contest.other_partition for one in self.contests)


def leaderboard(runs: Iterable[StoredRun], budget: Budget = Budget()) -> Board:  # noqa: B008 - frozen
    """Rank the methods of finished runs in each setting and over settings, by their scores within a budget."""
    return board_of(contests(runs), budget)


def board_of(settings: Sequence[Contest], budget: Budget = Budget()) -> Board:  # noqa: B008 - frozen
    """Rank the methods of some contests, by their scores within a budget."""
    ranked = [rank(inside(contest, budget)) for contest in settings]
    return Board(ranked, standings([one for one in ranked if one.ranked]), budget)


# --- one setting --------------------------------------------------------------------------------------


def rank(contest: Contest) -> RankedContest:
    """Decide all pairs of methods of a setting that have two trials or more."""
    metric = contest.metric
    question = Question(metric.name, rope_of(metric), score=metric)
    cells = {name: cell for name, cell in contest.methods.items() if len(cell.runs) >= FEWEST_TRIALS}
    if len(cells) < 2:
        return RankedContest(contest, (), frozenset())
    names = sorted(cells, key=lambda name: metric.gain(cells[name].score.mean, 0.0), reverse=True)
    decided = (_winner(cells, pair, question) for pair in combinations(names, 2))
    return RankedContest(contest, tuple(names), frozenset(pair for pair in decided if pair))


def _winner(cells: dict[str, CellResult], pair: tuple[str, str], question: Question) -> tuple[str, str] | None:
    """Return a pair of methods with the better one first; None if they tie."""
    a, b = (cells[name] for name in pair)
    if len(set(a.seeds) & set(b.seeds)) < FEWEST_TRIALS:
        return None
    failures = [not math.isfinite(cell.score.mean) for cell in (a, b)]
    if any(failures):  # a method with a trial without a score is worse than one without such a trial
        better = (not failures[0], not failures[1])
    else:
        pairs = paired(a, b, question)
        odds = pairs.odds if pairs else None
        better = (odds.better_a > DECIDED, odds.better_b > DECIDED) if odds else (False, False)
    if better[0] == better[1]:
        return None
    return pair if better[0] else (pair[1], pair[0])


# --- over settings ------------------------------------------------------------------------------------


def standings(settings: Sequence[RankedContest]) -> list[Standing]:
    """Return the standing of each method over settings, the one with the fewest better rivals first.

    The ranks over a single setting are those in it.
    """
    names = list(dict.fromkeys(name for setting in settings for name in setting.ranked))
    relative = {name: _relative_ranks(name, settings) for name in names}
    better = settings[0].better if len(settings) == 1 else _ahead(relative)
    every = [_standing(name, settings, sum((other, name) in better for other in names)) for name in names]
    return sorted(every, key=lambda standing: (standing.beaten, -standing.settings, standing.method))


def _relative_ranks(name: str, settings: Sequence[RankedContest]) -> dict[int, float]:
    return {place: setting.relative(name) for place, setting in enumerate(settings) if name in setting.places}


def _ahead(relative: Mapping[str, Mapping[int, float]]) -> set[tuple[str, str]]:
    """Return the pairs of which the first has the smaller mean share of better rivals, over the settings of both.

    These must be six or more. Pairs with the same number of settings are judged by the same resamples.
    """
    by_count: dict[int, dict[tuple[str, str], list[float]]] = {}
    for a, b in combinations(relative, 2):
        shared = sorted(relative[a].keys() & relative[b].keys())
        if len(shared) >= FEWEST_SETTINGS:
            differences = [relative[a][place] - relative[b][place] for place in shared]
            by_count.setdefault(len(shared), {})[a, b] = differences
    ahead = set()
    for pairs in by_count.values():
        for (a, b), interval in zip(pairs, intervals_of(list(pairs.values())), strict=True):
            if interval is not None and (interval[1] < 0 or interval[0] > 0):
                ahead.add((a, b) if interval[1] < 0 else (b, a))
    return ahead


def _standing(name: str, settings: Sequence[RankedContest], ahead: int) -> Standing:
    entered = [setting for setting in settings if name in setting.places]
    places = [setting.places[name] for setting in entered]
    ranks = [place.rank for place in places]
    return Standing(
        name,
        1 + ahead,
        len(places),
        fmean(ranks),
        interval_of(ranks),
        fmean(setting.relative(name) for setting in entered),
        sum(place.above == 0 for place in places),
        sum(place.won for place in places),
        sum(place.below for place in places),
        sum(place.ties for place in places),
        sum(place.above for place in places),
    )


# --- JSON ---------------------------------------------------------------------------------------------


def board_json(board: Board) -> dict[str, Any]:
    """Return a leaderboard as JSON."""
    return {
        "budget": vars(board.budget),
        "standings": [vars(standing) for standing in board.standings],
        "settings": [_contest_json(one) for one in board.contests],
        "runs_on_another_partition": board.other_partition,
    }


def _contest_json(one: RankedContest) -> dict[str, Any]:
    contest = one.contest
    cells = {name: contest.methods[name] for name in one.listed} | contest.baselines
    return {
        **dict(contest.choices),
        "skew": contest.skew,
        "metric": contest.metric.name,
        "higher_is_better": contest.metric.higher_is_better,
        "rope": rope_of(contest.metric),
        "entries": [_entry_json(name, cell, one.places.get(name)) for name, cell in cells.items()],
        "better": sorted(map(list, one.better)),
        "outside_budget": list(contest.outside),
    }


def _entry_json(name: str, cell: CellResult, place: Place | None) -> dict[str, Any]:
    return {
        "method": name,
        "rank": place and place.above + 1,
        "tied_with": place and place.ties,
        **cell.score.as_json(),
        "paper": cell.paper and cell.paper.as_json(),
        "replications": {other.by: other.as_json() for other in cell.replications},
        "seeds": cell.seeds,
        "rounds": cell.rounds,
        "bytes": cell.bytes_up + cell.bytes_down,
        "virtual_seconds": cell.virtual_seconds,
        "runs": [str(run.path) for run in cell.runs],
    }
