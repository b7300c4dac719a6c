"""The numbers that two algorithms are compared by: scores and costs, with directions and regions of equivalence."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.privacy import epsilon_of
from silobench.analysis.statistics import bytes_until, rounds_to, score_on_own_rows
from silobench.errors import ConfigError, suggest
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import ACCURACY, Metric


@dataclass(frozen=True)
class Quantity:
    """A number to compare. `of` reads it from a run, up to the round that counts as its last; NaN if it is absent."""

    of: Callable[[StoredRun, int], float]
    rope: float  # region of practical equivalence: smaller differences do not matter
    higher_is_better: bool = False
    relative: bool = False  # a difference is a share of the mean of the two
    until: str = ""  # what ends the count of rounds: "target" or "convergence"; a run that has neither is censored
    on_test_rows: bool = True  # whether it depends on test rows, which trials share
    title: str = ""  # of a cost
    unit: str = ""  # of a difference that is not relative, as tables state it
    factor: float = 1  # by which tables multiply such a difference


def _recorded(name: str) -> Callable[[StoredRun, int], float]:
    """Return a function that reads a cost of a whole run."""
    number = _NUMBERS[name]

    def of(run: StoredRun, _: int) -> float:
        value = number(run)
        return math.nan if value is None else value

    return of


_NUMBERS = {**costs.NUMBERS, "epsilon": epsilon_of}

COSTS: Mapping[str, Quantity] = {
    "rounds": Quantity(lambda _, last: last, rope=10, until="target", unit="rounds"),
    "bytes": Quantity(bytes_until, rope=0.1, relative=True, until="target", unit="bytes"),
    "seconds": Quantity(
        lambda run, _: run.totals.seconds, rope=0.1, relative=True, on_test_rows=False,
        title="computing time", unit="seconds",
    ),
    "convergence": Quantity(
        lambda _, last: last, rope=10, until="convergence", title="rounds to convergence", unit="rounds"
    ),
    "throughput": Quantity(
        _recorded("throughput"), rope=0.1, higher_is_better=True, relative=True, on_test_rows=False,
        title="training rows per second of round time", unit="rows/s",
    ),
    "throughput-core": Quantity(
        _recorded("throughput-core"), rope=0.1, higher_is_better=True, relative=True, on_test_rows=False,
        title="training rows per core-second", unit="rows/s",
    ),
    "overhead": Quantity(
        _recorded("overhead"), rope=0.1, on_test_rows=False, title="framework overhead", unit="percentage points",
        factor=100,
    ),
    "uplink-ratio": Quantity(
        _recorded("uplink-ratio"), rope=0.1, higher_is_better=True, relative=True, on_test_rows=False,
        title="compression ratio of the uplink", unit="times",
    ),
    "epsilon": Quantity(
        _recorded("epsilon"), rope=0.1, relative=True, on_test_rows=False, title="epsilon of differential privacy",
    ),
}  # fmt: skip
BEST = "best"
OWN = "own"  # the mean over parties on their own test rows
_ERRORS = {"mae": 0.1, "rmse": 0.1, "mse": 0.01}  # in units of the target, where nothing is known about its scale
_ROPE = 0.01  # of any other metric: one point of a percentage
_OF_CONSTANT = 0.01  # a share of the error of the best constant answer
_WIDEST = 2  # of relative differences: that to 0


def rope_of(metric: Metric) -> float:
    """Return the default region of practical equivalence of a metric.

    For an error it is a hundredth of that of the best constant answer, to one digit, because errors of other targets
    have another scale.

    >>> rope_of(Metric("mae", "MAE", False, "years", constant=16.55)), rope_of(Metric("mae", "MAE", False, "years"))
    (0.2, 0.1)
    """
    if metric.name not in _ERRORS or not metric.constant:
        return _ERRORS.get(metric.name, _ROPE)
    return float(f"{_OF_CONSTANT * metric.constant:.1g}")


@dataclass(frozen=True)
class Ropes:
    """The regions of practical equivalence that a study states, by metric, as differences that are not relative."""

    study: str
    by_metric: Mapping[str, float]
    vertical: Mapping[str, float] = field(default_factory=dict)  # other ones where parties hold columns

    def of(self, cells: Sequence[CellResult]) -> Mapping[str, float]:
        """Return the regions for some cells, by metric."""
        is_vertical = bool(cells) and all(cell.is_vertical for cell in cells)
        return {**self.by_metric, **self.vertical} if is_vertical else self.by_metric


@dataclass(frozen=True)
class Question:
    """A metric, and the settings of its test. `rho` of None is the share of test rows, if the metric needs it."""

    metric: str = ACCURACY.name  # a recorded metric, the best round of the main one, or a cost
    rope: float = _ROPE
    rho: float | None = None
    target: float | None = None
    score: Metric = ACCURACY  # the metric to compare, or to reach the target
    study: str = ""  # that the rope is from; differences are then not relative

    @cached_property
    def kind(self) -> Quantity:
        if self.metric in COSTS:
            cost = COSTS[self.metric]
            return replace(cost, relative=False) if self.study else cost
        rope, higher = rope_of(self.score), self.score.higher_is_better
        if self.metric == BEST:
            return Quantity(lambda run, _: self.score.best(run.scores(self.score)), rope, higher)
        if self.metric == OWN:
            return Quantity(lambda run, _: score_on_own_rows(run) or 0.0, rope, higher)
        return Quantity(lambda run, _: run.scores(self.score)[-1], rope, higher)

    @property
    def unit(self) -> str:
        """The unit of a difference, as tables state it."""
        if self.kind.relative:
            return "percent of their mean"
        if self.metric in COSTS:
            return self.kind.unit
        return "percentage points" if self.score.is_share else self.score.unit or self.score.title

    @property
    def json_unit(self) -> str:
        """The unit of a difference in JSON, which is not multiplied by `factor`.

        >>> Question().json_unit, Question("throughput").json_unit, Question("throughput", study="OARF").json_unit
        ('fraction', 'fraction of their mean', 'rows/s')
        """
        if self.kind.relative:
            return "fraction of their mean"
        return "fraction" if self.unit == "percentage points" else self.unit

    @property
    def factor(self) -> float:
        """The factor by which tables multiply a difference."""
        if self.kind.relative:
            return 100
        return self.kind.factor if self.metric in COSTS else self.score.factor

    @property
    def needs_score(self) -> bool:
        """Whether the number depends on a score of the runs."""
        return self.metric not in COSTS or self.kind.until == "target"

    def applies_to(self, cell: CellResult) -> bool:
        """Whether a cell has the metric, in the same unit."""
        if self.metric in _NUMBERS:
            return _has_cost(cell, self.metric)
        if not self.needs_score:
            return True
        if self.metric == OWN and cell.on_own_rows is None:
            return False
        metric, _ = cell.metrics.get(self.score.name, (None, None))
        return metric is not None and metric.unit == self.score.unit

    def last_round(self, run: StoredRun) -> int | None:
        """Return the round until which a run counts; None if it is censored: it ended before what is counted to."""
        if self.kind.until == "convergence":
            return costs.convergence(run)
        if self.target is None:
            return len(run.rounds)
        return rounds_to(run.curve(self.score), self.target, self.score)


def _has_cost(cell: CellResult, name: str) -> bool:
    return any(_NUMBERS[name](run) is not None for run in cell.runs)


# --- checks -------------------------------------------------------------------------------------------


def checked_question(
    metric: str | None = None,
    rope: float | Ropes | None = None,
    rho: float | None = None,
    target: float | None = None,
    cells: Sequence[CellResult] = (),
) -> Question:
    """Return a checked question about some cells; a `ConfigError` explains what is wrong with it.

    Without a `metric` it asks for the main metric of the cells, or for accuracy if there are no cells.
    """
    name, score = _named(metric, cells)
    question = Question(name, score=score)
    _check_target(question, target, cells)
    if rho is not None and not 0 <= rho < 1:
        raise ConfigError(f"--rho must be a correlation of at least 0 and below 1, but {rho} was given.")
    if isinstance(rope, Ropes):
        return replace(question, rope=_rope_of_study(question, rope, cells), rho=rho, target=target, study=rope.study)
    _check_rope(question, rope)
    return replace(question, rope=question.kind.rope if rope is None else rope, rho=rho, target=target)


def _check_rope(question: Question, rope: float | None) -> None:
    if rope is None:
        return
    if not 0 <= rope < float("inf"):
        raise ConfigError(f"--rope must be a difference of 0 or more, too small to matter, but {rope} was given.")
    if question.kind.relative and rope >= _WIDEST:
        raise ConfigError(
            f"--rope of {question.metric} is a share of the mean of the two, such as 0.1 for a tenth, but {rope:g} was "
            "given, which no difference exceeds: use a smaller one."
        )


def _rope_of_study(question: Question, ropes: Ropes, cells: Sequence[CellResult]) -> float:
    """Return what a study states for the metric, or for the score of which a best or own value is compared."""
    names = (question.metric, *([question.score.name] if question.metric in (BEST, OWN) else []))
    by_metric = ropes.of(cells)
    known = [by_metric[name] for name in names if name in by_metric]
    if not known:
        raise ConfigError(
            f"{ropes.study} states no region of practical equivalence for {question.metric}, only for "
            f"{', '.join(sorted(ropes.by_metric))}: write --rope as a number."
        )
    return known[0]


def _named(name: str | None, cells: Sequence[CellResult]) -> tuple[str, Metric]:
    """Return the name of what is compared, and the metric behind it: a recorded one, or the main one."""
    mains = list({(cell.metric.name, cell.metric.unit): cell.metric for cell in cells}.values()) or [ACCURACY]
    recorded = [metric for cell in cells for metric, _ in cell.metrics.values()] or [ACCURACY]
    known = dict.fromkeys((*(metric.name for metric in recorded), BEST, OWN, *COSTS))
    if name is not None and name not in known:
        raise ConfigError(f"there is no metric '{name}': {suggest(name, known)}")
    if name == OWN and cells and all(cell.on_own_rows is None for cell in cells):
        raise ConfigError("these runs have no results on the parties' own test rows: leave out --metric own.")
    if name is not None and name in _NUMBERS and cells and not any(_has_cost(cell, name) for cell in cells):
        raise ConfigError(_why_no_cost(name, cells))
    if name is not None and name not in (BEST, OWN, *COSTS):
        units = {metric.unit: metric for metric in recorded if metric.name == name}
        return name, _only(list(units.values()))
    needs_score = name is None or Question(name).needs_score
    return name or _only(mains).name, _only(mains) if needs_score else mains[0]


def _why_no_cost(name: str, cells: Sequence[CellResult]) -> str:
    last = cells[0].runs[0].rounds[-1]
    if name == "epsilon":
        return "these runs state no epsilon, because nobody's privacy is protected in them: choose another --metric."
    if last.time is None:
        return f"these runs are from an earlier version, which did not record {name}: run the experiment again."
    return f"{name} is not defined for these runs, because they sent or took nothing: choose another --metric."


def _only(metrics: Sequence[Metric]) -> Metric:
    if len(metrics) > 1:
        names = ", ".join(sorted(metric.heading.replace(", ", " in ") for metric in metrics))
        raise ConfigError(
            f"these runs are scored by several metrics ({names}), which cannot be compared with each other: "
            "choose settings of one metric with --only, or a metric that they share with --metric."
        )
    return metrics[0]


def _check_target(question: Question, target: float | None, cells: Sequence[CellResult]) -> None:
    metric, score, is_share = question.metric, question.score, question.score.is_share
    example = 0.8 if is_share else next((f"{cell.score.mean:.3g}" for cell in cells if cell.metric == score), 1)
    has_target = question.kind.until == "target"
    if has_target and target is None:
        raise ConfigError(
            f"{metric} are counted until the {score.title} reaches a target: state it, such as --target {example}."
        )
    if not has_target and target is not None:
        raise ConfigError(f"{metric} has no target: leave out --target, or use --metric rounds or bytes.")
    if target is not None and (not math.isfinite(target) or (is_share and not 0 < target <= 1)):
        bounds = "above 0 and up to 1" if is_share else "that is a finite number"
        raise ConfigError(
            f"--target must be a value of {score.title} {bounds}, such as {example}, but {target} was given."
        )
