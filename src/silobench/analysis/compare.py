"""Comparison of two algorithms, or two values of another key: runs are paired by setting and seed, then tested."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import Any

from silobench.analysis.bayes import DRAWS, PRIOR_STRENGTH, Odds, Posterior, correlated_t, signed_rank
from silobench.analysis.cells import CellResult
from silobench.analysis.quantities import COSTS
from silobench.analysis.quantities import Question as Question  # "X as X": who compares needs only this module
from silobench.analysis.quantities import Ropes as Ropes
from silobench.analysis.quantities import checked_question as checked_question
from silobench.analysis.quantities import rope_of as rope_of
from silobench.analysis.rivals import ALGORITHM, checked_key, present, rivals_of, value_name, value_of
from silobench.analysis.rivals import checked_names as checked_names
from silobench.analysis.rivals import matching as matching
from silobench.analysis.statistics import judged_rows
from silobench.errors import ConfigError, RecordError
from silobench.tasks.metrics import ACCURACY

FEWEST_WITH_SPREAD = 3  # settings with two or more pairs each, for a verdict over settings
FEWEST_SETTINGS = 6  # settings of any kind: by chance all differences have the same sign in 2 of 2^6 cases, below 0.05


@dataclass(frozen=True)
class Paired:
    """One setting: the differences A - B over the seeds that both have, and their posterior."""

    setting: str
    seeds: list[int]
    differences: list[float]
    never: tuple[int, int]  # trials of A and of B that did not get there: they count with all their rounds
    posterior: Posterior | None  # None for a single pair, which has no spread
    odds: Odds | None
    failed: tuple[int, int] = (0, 0)  # trials of A and of B without a finite score: their pairs are left out
    neither: int = 0  # pairs of which no trial got there: they are left out
    level: float = 0.0  # the mean size of the values of A and B

    @property
    def mean(self) -> float:
        return fmean(self.differences)

    def verdict(self, a: str, b: str) -> str:
        if not self.odds:
            return "one pair, no spread"
        return _verdict(self.odds, a, b, self.doubts)

    @property
    def doubts(self) -> tuple[bool, bool, bool]:
        """Whether what the odds leave out speaks against A being better, against equality and against B being better.

        A run that never reached the target, or never converged, counts with too few rounds: it shows neither that its
        algorithm is better nor that the two are equal. A run without a finite score is not counted, so its algorithm is
        not shown to be better than the other, or equal to it.
        """
        a, b = (never + failed > 0 for never, failed in zip(self.never, self.failed, strict=True))
        return a, a or b or self.neither > 0, b

    def as_json(self, a: str, b: str) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "seeds": self.seeds,
            "n": len(self.differences),
            "mean_difference": self.mean,
            "differences": self.differences,
            "never_reached": {"a": self.never[0], "b": self.never[1]},
            "without_score": {"a": self.failed[0], "b": self.failed[1]},
            "neither_reached": self.neither,
            **(self.odds._asdict() if self.odds else dict.fromkeys(Odds._fields)),
            "verdict": self.verdict(a, b),
            "posterior": _facts(self.posterior) if self.posterior else None,
        }


@dataclass(frozen=True)
class Comparison:
    """Two algorithms, or two values of another key, over one or several settings."""

    a: str
    b: str
    question: Question
    settings: list[Paired]
    odds: Odds | None  # None if the settings are too few to decide over settings
    left_out: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    """Settings without a pair to compare, and whether A and B have trials without a finite score there."""
    by: str = ALGORITHM  # the key of an experiment that A and B are values of

    @property
    def names(self) -> tuple[str, str]:
        """A and B as sentences name them."""
        return value_name(self.by, self.a), value_name(self.by, self.b)

    @property
    def method(self) -> str:
        one = len(self.settings) == 1
        return "Bayesian correlated t-test" if one else "Bayesian signed-rank test over settings"

    @property
    def verdict(self) -> str:
        if self.odds is None:
            return "undecided"
        is_counted = bool(self.question.kind.until)  # a setting that is left out then has runs that did not get there
        left_out = [(a, a or b or is_counted, b) for a, b in self.left_out.values()]
        each = [*(paired.doubts for paired in self.settings), *left_out]
        a, equal, b = (any(doubts[place] for doubts in each) for place in range(3))
        return _verdict(self.odds, *self.names, (a, equal, b))

    def as_json(self) -> dict[str, Any]:
        only, kind = self.settings[0], self.question.kind
        over_settings = {"settings": len(self.settings), "prior_strength": PRIOR_STRENGTH, "draws": DRAWS}
        return {
            "by": self.by,
            "a": self.a,
            "b": self.b,
            "metric": self.question.metric,
            "target": self.question.target,
            "higher_is_better": kind.higher_is_better,
            "relative": kind.relative,
            "rope": self.question.rope,
            "rope_of": self.question.study or None,
            **(self.odds._asdict() if self.odds else dict.fromkeys(Odds._fields)),
            "verdict": self.verdict,
            "method": self.method,
            "mean_difference": fmean(paired.mean for paired in self.settings),
            "unit": self.question.json_unit,
            "posterior": over_settings if len(self.settings) > 1 else only.posterior and _facts(only.posterior),
            "settings": [paired.as_json(*self.names) for paired in self.settings],
            "left_out": list(self.left_out),
        }


def _verdict(odds: Odds, a: str, b: str, doubts: tuple[bool, bool, bool]) -> str:
    """Return the verdict, if what the odds leave out does not speak against it."""
    doubted = any(doubt and p == max(odds) for doubt, p in zip(doubts, odds, strict=True))
    return "undecided" if doubted else odds.verdict(a, b)


def _facts(posterior: Posterior) -> dict[str, Any]:
    return {**vars(posterior), "interval": list(posterior.interval())}


# --- comparing ---------------------------------------------------------------------------------------


def compare(
    cells: Sequence[CellResult], a: str, b: str, question: Question, only: str = "*", by: str = ALGORITHM
) -> Comparison:
    """Pair runs that differ only in one key, by setting and seed, and test the differences between two of its values.

    `by` is the key, such as algorithm or transforms; `only` is a glob of settings.
    """
    checked_key(by, cells)
    a, b = (present(name, cells, by) for name in (a, b))
    name_a, name_b = value_name(by, a), value_name(by, b)
    if a == b:
        what = "algorithms" if by == ALGORITHM else f"values of {by}"
        raise ConfigError(f"both are {name_a}: name two different {what} to compare.")
    suited = [cell for cell in cells if question.applies_to(cell)]
    for value in (a, b) if question.metric in COSTS else ():
        if value not in {value_of(cell, by) for cell in suited}:
            raise RecordError(
                f"no finished run of {value_name(by, value)} has a value of {question.metric}: choose another --metric."
            )
    rivals = rivals_of(suited, a, b, only, by)
    pairs = {name: paired(*rival, question, name) for name, rival in rivals.items()}
    settings = [one for one in pairs.values() if one]
    left_out = {name: _failures(rivals[name], question) for name, one in pairs.items() if not one}
    if not settings:
        raise RecordError(_why_no_pair(name_a, name_b, rivals, question))
    first = settings[0]
    if len(settings) == 1 and not first.odds:
        raise RecordError(
            f"{name_a} and {name_b} share one trial only, in {first.setting} with seed {first.seeds[0]}, and one pair "
            "has no spread to judge by: run the same experiment again with --trials 3 or more."
        )
    return Comparison(a, b, question, settings, _odds(settings, question), left_out, by)


def _odds(settings: Sequence[Paired], question: Question) -> Odds | None:
    """Return the odds of one setting, or over several; None if these are too few to decide.

    The signed-rank test alone would call two differences in the same direction decided, which chance gives in one of
    two cases.
    """
    if len(settings) == 1:
        return settings[0].odds
    with_spread = sum(setting.posterior is not None for setting in settings)
    if with_spread < FEWEST_WITH_SPREAD and len(settings) < FEWEST_SETTINGS:
        return None
    differences = [setting.posterior or setting.mean for setting in settings]
    return signed_rank(differences, question.rope, question.kind.higher_is_better)


def _failures(rivals: tuple[CellResult, CellResult], question: Question) -> tuple[bool, bool]:
    """Return whether each of two cells has trials without a finite score, if scores are compared."""
    name = question.score.name
    one, other = (question.metric not in COSTS and not math.isfinite(cell.metrics[name][1].mean) for cell in rivals)
    return one, other


def paired(a: CellResult, b: CellResult, question: Question, setting: str = "") -> Paired | None:
    """Return the differences of two cells over their shared seeds; None if there is no informative pair."""
    runs, kind = [dict(zip(cell.seeds, cell.runs, strict=True)) for cell in (a, b)], question.kind
    seeds, differences, sizes, never, failed, neither = [], [], [], [0, 0], [0, 0], 0
    for seed in sorted(runs[0].keys() & runs[1].keys()):
        lasts = [question.last_round(run[seed]) for run in runs]
        if lasts == [None, None]:  # neither got there, so neither was sooner
            neither += 1
            continue
        one, other = (
            kind.of(run[seed], len(run[seed].rounds) if last is None else last)
            for run, last in zip(runs, lasts, strict=True)
        )
        failed = [count + (not math.isfinite(value)) for count, value in zip(failed, (one, other), strict=True)]
        if not math.isfinite(one) or not math.isfinite(other):
            continue
        seeds.append(seed)
        never = [count + (last is None) for count, last in zip(never, lasts, strict=True)]
        differences.append(_difference(one, other, kind.relative))
        sizes.append((abs(one) + abs(other)) / 2)
    if not seeds:
        return None
    posterior = correlated_t(differences, _rho(a, question), _grain(a, question)) if len(seeds) > 1 else None
    odds = posterior.odds(question.rope, kind.higher_is_better) if posterior else None
    return Paired(
        setting,
        seeds,
        differences,
        (never[0], never[1]),
        posterior,
        odds,
        (failed[0], failed[1]),
        neither,
        fmean(sizes),
    )


def _difference(one: float, other: float, relative: bool) -> float:
    """Return A - B; a relative one is a share of their mean, so that the order does not matter and bytes may be 0."""
    if not relative:
        return one - other
    return 2 * (one - other) / (one + other) if one + other else 0.0


def _grain(cell: CellResult, question: Question) -> float:
    """Return the step in which a metric is counted: one test row, or the rounds between two tests."""
    if question.score.name == ACCURACY.name and question.metric not in COSTS:
        return 1 / judged_rows(cell.runs[0])
    tested = cell.runs[0].totals.tested
    return float(max((b - a for a, b in pairwise(tested)), default=1)) if question.kind.unit == "rounds" else 0.0


def _rho(cell: CellResult, question: Question) -> float:
    if question.rho is not None:
        return question.rho
    rows = cell.dataset
    return rows.test / (rows.train + rows.test) if question.kind.on_test_rows else 0.0


def _why_no_pair(a: str, b: str, rivals: dict[str, tuple[CellResult, CellResult]], question: Question) -> str:
    one, other = next(iter(rivals.values()))
    if not any(set(pair[0].seeds) & set(pair[1].seeds) for pair in rivals.values()):
        return f"{a} (seeds {one.seeds}) and {b} (seeds {other.seeds}) share no seed: run both with the same seeds."
    score = question.score
    if question.kind.until == "convergence":
        return (
            f"no run of {a} or {b} converged: rounds to convergence need a learning rate that ends the run, such as "
            "lr=plateau(start=0.1), and enough rounds."
        )
    if question.metric in COSTS and question.target is None:
        return f"every pair of {a} and {b} has a run without a {question.metric}: choose another --metric."
    if question.target is None:
        return f"every pair of {a} and {b} has a run without a finite {score.title}: use a smaller learning rate."
    curves = [run.curve(score) for pair in rivals.values() for cell in pair for run in cell.runs]
    best = score.best(value for curve in curves for _, value in curve)
    easier = "lower" if score.higher_is_better else "higher"
    return (
        f"no pair of {a} and {b} has a run with a {score.title} that reaches {question.target}; "
        f"the best is {best:.3f}: use a {easier} --target, or run more rounds."
    )
