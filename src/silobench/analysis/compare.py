"""Two algorithms against each other: their runs paired by setting and seed, then tested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from statistics import fmean
from typing import Any

from silobench.analysis.bayes import DRAWS, PRIOR_STRENGTH, Odds, Posterior, correlated_t, signed_rank
from silobench.analysis.cells import CellResult
from silobench.analysis.statistics import bytes_until, curve_of, rounds_to
from silobench.analysis.tables import Entry, Table, settings_of
from silobench.errors import ConfigError, RecordError, suggest
from silobench.method.algorithms import ALGORITHMS
from silobench.runs.record import LATER, StoredRun, distinguishing


@dataclass(frozen=True)
class Metric:
    """What is compared. `of` reads it off a run, given the round that counts as its last."""

    of: Callable[[StoredRun, int], float]
    rope: float  # differences up to this do not matter
    higher_is_better: bool = False
    relative: bool = False  # a difference is a share of the mean of the two
    to_target: bool = False  # it counts until a target accuracy is reached
    on_test_rows: bool = True  # trials share the test rows that it depends on


METRICS = {
    "accuracy": Metric(lambda run, _: curve_of(run)[-1][1], rope=0.01, higher_is_better=True),
    "best": Metric(lambda run, _: max(a for _, a in curve_of(run)), rope=0.01, higher_is_better=True),
    "rounds": Metric(lambda _, last: last, rope=10, to_target=True),
    "bytes": Metric(bytes_until, rope=0.1, relative=True, to_target=True),
    "seconds": Metric(
        lambda run, _: sum(sum(row["seconds"].values()) for row in run.rounds), rope=0.1, relative=True,
        on_test_rows=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """What is asked of every setting. `rho` of None is the share of test rows, where the metric depends on them."""

    metric: str = "accuracy"
    rope: float = METRICS["accuracy"].rope
    rho: float | None = None
    target: float | None = None

    @property
    def kind(self) -> Metric:
        return METRICS[self.metric]


@dataclass(frozen=True)
class Paired:
    """One setting: the differences A - B over the seeds that both have, and what they make believe."""

    setting: str
    seeds: list[int]
    differences: list[float]
    never: tuple[int, int]  # trials of A and of B that did not reach the target, and count with all their rounds
    posterior: Posterior | None  # None of a single pair, which has no spread
    odds: Odds | None

    @property
    def mean(self) -> float:
        return fmean(self.differences)

    def verdict(self, a: str, b: str) -> str:
        return _verdict(self.odds, a, b, censored=any(self.never)) if self.odds else "one pair, no spread"

    def as_json(self, a: str, b: str) -> dict[str, Any]:
        return {
            "setting": self.setting,
            "seeds": self.seeds,
            "n": len(self.differences),
            "mean_difference": self.mean,
            "differences": self.differences,
            "never_reached": {"a": self.never[0], "b": self.never[1]},
            **(self.odds._asdict() if self.odds else dict.fromkeys(Odds._fields)),
            "verdict": self.verdict(a, b),
            "posterior": _facts(self.posterior) if self.posterior else None,
        }


@dataclass(frozen=True)
class Comparison:
    """Two algorithms over one or several settings."""

    a: str
    b: str
    question: Question
    settings: list[Paired]
    odds: Odds

    @property
    def method(self) -> str:
        one = len(self.settings) == 1
        return "Bayesian correlated t-test" if one else "Bayesian signed-rank test over settings"

    @property
    def verdict(self) -> str:
        return _verdict(self.odds, self.a, self.b, censored=any(any(paired.never) for paired in self.settings))

    def as_json(self) -> dict[str, Any]:
        only, kind = self.settings[0], self.question.kind
        over_settings = {"settings": len(self.settings), "prior_strength": PRIOR_STRENGTH, "draws": DRAWS}
        return {
            "a": self.a,
            "b": self.b,
            "metric": self.question.metric,
            "target": self.question.target,
            "higher_is_better": kind.higher_is_better,
            "relative": kind.relative,
            "rope": self.question.rope,
            **self.odds._asdict(),
            "verdict": self.verdict,
            "method": self.method,
            "mean_difference": fmean(paired.mean for paired in self.settings),
            "posterior": over_settings if len(self.settings) > 1 else only.posterior and _facts(only.posterior),
            "settings": [paired.as_json(self.a, self.b) for paired in self.settings],
        }


def _verdict(odds: Odds, a: str, b: str, censored: bool) -> str:
    """A run that never reached the target is further behind than it counts: it is no evidence of equality."""
    said = odds.verdict(a, b)
    return "undecided" if censored and said == "practically equal" else said


def _facts(posterior: Posterior) -> dict[str, Any]:
    return {**vars(posterior), "interval": list(posterior.interval())}


# --- asking ------------------------------------------------------------------------------------------


def question(
    metric: str = "accuracy", rope: float | None = None, rho: float | None = None, target: float | None = None
) -> Question:
    """A question that makes sense, or a sentence on why it does not."""
    if metric not in METRICS:
        raise ConfigError(f"there is no metric '{metric}': {suggest(metric, METRICS)}")
    kind = METRICS[metric]
    if kind.to_target and target is None:
        raise ConfigError(f"{metric} are counted until an accuracy is reached: say which, as --target 0.8.")
    if not kind.to_target and target is not None:
        raise ConfigError(f"{metric} has no target: leave out --target, or take --metric rounds or bytes.")
    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"--target is an accuracy above 0 and up to 1, as 0.8, but {target} was given.")
    if rope is not None and not 0 <= rope < float("inf"):
        raise ConfigError(f"--rope is a difference too small to matter, of 0 or more, but {rope} was given.")
    if rho is not None and not 0 <= rho < 1:
        raise ConfigError(f"--rho is a correlation of at least 0 and below 1, but {rho} was given.")
    return Question(metric, kind.rope if rope is None else rope, rho, target)


def compare(cells: Sequence[CellResult], a: str, b: str, asked: Question, only: str = "*") -> Comparison:
    """Pair the runs of two algorithms by setting and seed, and test their differences."""
    a, b = (_present(name, cells) for name in (a, b))
    if a == b:
        raise ConfigError(f"both are {a}: name two different algorithms to compare.")
    rivals = _rivals(cells, a, b, only)
    found = [paired(*pair, asked, name) for name, pair in rivals.items()]
    told = [setting for setting in found if setting]
    if not told:
        raise RecordError(_why_no_pair(a, b, rivals, asked))
    kind, alone = asked.kind, told[0]
    if len(told) > 1:
        odds = signed_rank([s.posterior or s.mean for s in told], asked.rope, kind.higher_is_better)
    elif alone.odds:
        odds = alone.odds
    else:
        raise RecordError(
            f"{a} and {b} share one trial only, in {alone.setting} with seed {alone.seeds[0]}, and one pair has no "
            "spread to judge by: run the same experiment again with --trials 3 or more."
        )
    return Comparison(a, b, asked, told, odds)


def paired(a: CellResult, b: CellResult, asked: Question, setting: str = "") -> Paired | None:
    """The differences of two cells over their shared seeds; None if there is no pair that says anything."""
    runs = [dict(zip(cell.seeds, cell.runs, strict=True)) for cell in (a, b)]
    seeds, differences, never = [], [], [0, 0]
    for seed in sorted(runs[0].keys() & runs[1].keys()):
        lasts = [_last(run[seed], asked) for run in runs]
        if lasts == [None, None]:  # neither got there: that says nothing of which is sooner
            continue
        seeds.append(seed)
        never = [count + (last is None) for count, last in zip(never, lasts, strict=True)]
        one, other = (
            asked.kind.of(run[seed], len(run[seed].rounds) if last is None else last)
            for run, last in zip(runs, lasts, strict=True)
        )
        differences.append(_difference(one, other, asked.kind.relative))
    if not seeds:
        return None
    posterior = correlated_t(differences, _rho(a, asked), _grain(a, asked)) if len(seeds) > 1 else None
    odds = posterior.odds(asked.rope, asked.kind.higher_is_better) if posterior else None
    return Paired(setting, seeds, differences, (never[0], never[1]), posterior, odds)


def _last(run: StoredRun, asked: Question) -> int | None:
    """The round until which a run counts; None if it never reaches the target."""
    return len(run.rounds) if asked.target is None else rounds_to(curve_of(run), asked.target)


def _difference(one: float, other: float, relative: bool) -> float:
    """A - B; relative to the mean of both, so that neither is the yardstick and bytes may be 0."""
    if not relative:
        return one - other
    return 2 * (one - other) / (one + other) if one + other else 0.0


def _grain(cell: CellResult, asked: Question) -> float:
    """The step in which a metric is counted: a test row, or the rounds from one test to the next."""
    if asked.metric in ("accuracy", "best"):
        return 1 / int(cell.runs[0].facts["dataset"]["test"])
    tested = [row["round"] for row in cell.runs[0].rounds if row["accuracy"] is not None]
    return float(max((b - a for a, b in pairwise(tested)), default=1)) if asked.metric == "rounds" else 0.0


def _rho(cell: CellResult, asked: Question) -> float:
    if asked.rho is not None:
        return asked.rho
    rows = cell.runs[0].facts["dataset"]
    return float(rows["test"] / (rows["train"] + rows["test"])) if asked.kind.on_test_rows else 0.0


# --- finding pairs -----------------------------------------------------------------------------------


def _present(name: str, cells: Sequence[CellResult]) -> str:
    """An algorithm as the runs call it, whatever the spelling."""
    known = list(dict.fromkeys(cell.label["algorithm"] for cell in cells))
    if not known:
        raise RecordError("no run here is finished: run the same experiment again to go on, then compare.")
    if name in known:  # also one of a plugin, which is not loaded here
        return name
    spelled = str(ALGORITHMS.bind(name).short)
    if spelled not in known:
        raise RecordError(f"no finished run here is of {spelled}: there are {', '.join(known)}.")
    return spelled


def _rivals(cells: Sequence[CellResult], a: str, b: str, only: str) -> dict[str, tuple[CellResult, CellResult]]:
    """The settings by name in which both were run on the same data."""
    names = ["dataset", "partition"]
    names += distinguishing([cell.label for cell in cells], but=(*names, "algorithm"))
    found = {}
    for setting in settings_of(cells):
        one, other = ([cell for cell in setting if cell.label["algorithm"] == name] for name in (a, b))
        if one and other and _data(one[0]) == _data(other[0]):
            label = LATER | one[0].label
            name = " / ".join(str(label[key]) for key in names if key in label)
            found[name] = (one[0], other[0])
    if not found:
        raise RecordError(f"no setting has finished runs of both {a} and {b}: run them in one experiment.")
    chosen = {name: pair for name, pair in found.items() if fnmatch(name, only)}
    if not chosen:
        raise ConfigError(f"--only '{only}' matches none of {len(found)} settings, such as '{next(iter(found))}'.")
    return chosen


def _data(cell: CellResult) -> str:
    return str(cell.runs[0].facts["dataset"]["checksum"])


def _why_no_pair(a: str, b: str, rivals: dict[str, tuple[CellResult, CellResult]], asked: Question) -> str:
    one, other = next(iter(rivals.values()))
    if not any(set(pair[0].seeds) & set(pair[1].seeds) for pair in rivals.values()):
        return f"{a} (seeds {one.seeds}) and {b} (seeds {other.seeds}) share no seed: run both with the same seeds."
    best = max(acc for pair in rivals.values() for cell in pair for run in cell.runs for _, acc in curve_of(run))
    return (
        f"no pair of {a} and {b} has a run that reaches an accuracy of {asked.target}; the best is {best:.3f}: "
        "take a lower --target, or run more rounds."
    )


# --- showing -----------------------------------------------------------------------------------------


def comparison_table(found: Comparison) -> Table:
    """One row a setting: the mean difference with its 95% credible interval, three probabilities, a verdict."""
    a, b, asked = found.a, found.b, found.question
    columns = ["setting", "pairs", f"A - B, {_unit(asked)} [95%]", "P(A better)", "P(equal)", "P(B better)", "verdict"]
    rows = []
    for setting in found.settings:
        odds = [f"{p:.3f}" for p in setting.odds] if setting.odds else ["-"] * 3
        rows.append([setting.setting, str(len(setting.seeds)), _shown(setting, asked), *odds, setting.verdict(a, b)])
    if len(rows) > 1:
        overall = [f"{p:.3f}" for p in found.odds]
        rows.append([f"all {len(rows)} settings", "", "", *overall, found.verdict])
    better = "more is better" if asked.kind.higher_is_better else "less is better"
    title = f"A = {a}, B = {b}: {_metric(asked)}, {better}"
    return Table(title, columns, [[Entry(text) for text in row] for row in rows], _reading(found))


def _metric(asked: Question) -> str:
    told = {"accuracy": "test accuracy in the last round", "best": "best test accuracy", "seconds": "computing time"}
    return told.get(asked.metric, f"{asked.metric} until accuracy {asked.target}")


def _unit(asked: Question) -> str:
    if asked.kind.relative:
        return "percent of their mean"
    return "rounds" if asked.metric == "rounds" else "percentage points"


def _shown(setting: Paired, asked: Question) -> str:
    times = 1 if asked.metric == "rounds" else 100
    text = f"{times * setting.mean:+.2f}"
    if setting.posterior:
        low, high = setting.posterior.interval()
        text += f" [{times * low:+.2f}, {times * high:+.2f}]"
    return text


def _reading(found: Comparison) -> str:
    asked, settings = found.question, found.settings
    said = [f"equal: within ±{asked.rope * (1 if asked.metric == 'rounds' else 100):g} {_unit(asked)}"]
    rhos = sorted({f"{setting.posterior.rho:.2f}" for setting in settings if setting.posterior})
    if rhos:
        upto = f" to {rhos[-1]}" if len(rhos) > 1 else ""
        said.append(f"each setting: Bayesian correlated t-test with rho {rhos[0]}{upto}")
    if len(settings) > 1:
        said.append("all: Bayesian signed-rank test of the settings' differences, each as uncertain as it is")
    never = sum(sum(setting.never) for setting in settings)
    if never:
        said.append(f"runs that never got there count with all their rounds, which is too few: {never}")
    return "; ".join([*said, "a verdict is given above 0.95"])
