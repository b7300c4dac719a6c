"""Studies of `silobench tune` on pages: the search, what each argument does, the confirmation, and what it all cost."""

import math
import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from silobench.errors import RecordError
from silobench.report.charts.values import (
    Axis,
    BarChart,
    Bars,
    Level,
    Line,
    LineChart,
    Mark,
    Point,
    ScatterChart,
    Value,
)
from silobench.report.drawing import Drawing, Section
from silobench.report.page import Page
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import Metric
from silobench.tuning.importance import importances
from silobench.tuning.ranges import Interval, Range
from silobench.tuning.study import STUDY, Outcome, TrialResult, final_score, read_outcome, read_study, study_directories
from silobench.tuning.tables import confirm_table, cost_table, trials_table
from silobench.tuning.verdict import sentences


def study_pages(runs: Iterable[StoredRun]) -> list[Page]:
    """Return the page of the studies that runs belong to; none without a study."""
    sections = [section for folder in _folders(runs) for section in _sections(folder)]
    page = Page("tuning.html", "Tuning", sections, "How the best setting was found, and what that cost.")
    return [page] if sections else []


def study_problems(runs: Iterable[StoredRun]) -> list[str]:
    """Return a sentence about each study that runs belong to and that is damaged."""
    return [problem for folder in _folders(runs) if (problem := _problem(folder))]


def _folders(runs: Iterable[StoredRun]) -> list[Path]:
    """Return the folders of the studies that runs belong to."""
    folders = sorted({run.path.parents[1] for run in runs if len(run.path.parents) > 1})
    return [folder for folder in folders if os.path.lexists(folder / STUDY)]


def _problem(folder: Path) -> str:
    try:
        read_study(folder)
    except RecordError as error:
        return str(error)
    return ""


def study_sections(directory: Path) -> list[Section]:
    """Return the sections of all studies under a directory; none without a study."""
    return [section for folder in study_directories(directory) for section in _sections(folder)]


def _sections(folder: Path) -> list[Section]:
    """Return the sections of a study; one that says what is wrong, if the study or a run of it is damaged."""
    name = folder.resolve().name
    try:
        outcome = read_outcome(read_study(folder), folder)
    except RecordError as error:
        return [Section(f"{name}: the study cannot be shown", lead=[str(error)])]
    if not outcome.finished:
        return []
    search = [_history(outcome), *_by_argument(outcome), *_importance(outcome)]
    answer = [f"{line[:1].upper()}{line[1:]}" for line in sentences(outcome)]
    sections = [Section(f"{name}: the search", search, trials_table(outcome), answer)]
    if outcome.confirm[0]:
        sections.append(Section(f"{name}: tuned and defaults", [_confirmed(outcome)], confirm_table(outcome)))
    return [*sections, Section(f"{name}: cost", [_spending(outcome)], cost_table(outcome))]


def _axis(metric: Metric, rows: str = "validation rows") -> Axis:
    return Axis(f"{metric.title} on {rows}", metric.unit_text)


def _shown(metric: Metric, score: float) -> float:
    return metric.factor * score


def _history(outcome: Outcome) -> Drawing:
    """Return the score of each trial in order, and the best one so far."""
    metric, trials = outcome.metric, outcome.finished
    points = [Point(each.trial.number, _shown(metric, each.score)) for each in trials]
    best = list(accumulate((_shown(metric, each.score) for each in trials), lambda a, b: metric.best([a, b])))
    so_far = [Point(each.trial.number, value) for each, value in zip(trials, best, strict=True)]
    default = Level("defaults", _shown(metric, outcome.default.score))
    levels = [default] if math.isfinite(default.value) else []
    lines = [Line("trial", points), Line("best so far", so_far)]
    chart = LineChart("Score by trial", Axis("trial", scale="whole"), _axis(metric), lines, levels=levels)
    return Drawing("Score by trial", chart, "Trial 0 is the experiment as it was written: its defaults.")


def _spread(metric: Metric, result: TrialResult) -> float | None:
    return None if result.std is None else _shown(metric, result.std)


def _by_argument(outcome: Outcome) -> list[Drawing]:
    """Return the score against each argument that was searched."""
    return [_against(outcome, key) for key in outcome.study.definition.space]


def _against(outcome: Outcome, key: str) -> Drawing:
    metric, each = outcome.metric, outcome.study.definition.space[key]
    trials = [trial for trial in outcome.finished if _has_place(trial, key, each)]
    used = [] if isinstance(each, Interval) else [*each.values, *(trial.trial.values[key] for trial in trials)]
    names = list(dict.fromkeys(map(str, used)))
    marks = [
        Mark(
            f"trial {trial.trial.number}",
            _place(trial, key, names),
            _shown(metric, trial.score),
            y_spread=_spread(metric, trial),
            group="best" if trial is outcome.best else "trials",
            colour=int(trial is outcome.best),
        )
        for trial in trials
    ]
    axis = Axis(key, scale="log" if isinstance(each, Interval) and each.is_log else "linear", names=names)
    chart = ScatterChart(f"Score by {key}", axis, _axis(metric), marks)
    return Drawing(f"Score by {key}", chart, "Each point is a finished trial; other arguments differ between them.")


def _has_place(trial: TrialResult, key: str, each: Range) -> bool:
    """Whether an axis has the value of a trial: that of the defaults may be None, or 0 on a logarithmic one."""
    values = trial.trial.values
    return key in values and (not isinstance(each, Interval) or each.has_on_scale(values[key]))


def _place(trial: TrialResult, key: str, names: Sequence[str]) -> float:
    value = trial.trial.values[key]
    return float(names.index(str(value))) if names else float(value)


def _importance(outcome: Outcome) -> list[Drawing]:
    """Return how much of the differences between trials each argument explains; nothing if that is not known."""
    shares = importances(outcome)
    if not shares:
        return []
    order = sorted(shares, key=lambda key: -shares[key])
    bars = [Bars("share", [Value(100 * shares[key]) for key in order])]
    chart = BarChart("Importance of arguments", order, Axis("share of the variance", "percent"), bars, horizontal=True)
    note = "By a random forest on the finished trials; few trials give a rough picture."
    return [Drawing("Importance of arguments", chart, note)]


def _confirmed(outcome: Outcome) -> Drawing:
    """Return the test scores of both settings by fresh seed."""
    metric = outcome.metric
    groups = [f"seed {run.seed}" for run in outcome.confirm[0]]
    bars = [
        Bars(name, [Value(_shown(metric, final_score(run))) for run in runs])
        for name, runs in zip(("defaults", "tuned"), outcome.confirm, strict=True)
    ]
    chart = BarChart("Tuned and defaults on test rows", groups, _axis(metric, "test rows"), bars)
    return Drawing("Tuned and defaults on test rows", chart, "Fresh seeds, with all training rows.")


def _spending(outcome: Outcome) -> Drawing:
    """Return the best score so far against the seconds that the search had taken."""
    metric, spent, best, points = outcome.metric, 0.0, None, []
    for trial in outcome.trials:
        spent += sum(run.totals.seconds for run in trial.runs)
        if trial.is_complete:
            best = trial.score if best is None else metric.best([best, trial.score])
            points.append(Point(spent, _shown(metric, best)))
    lines = [Line("best so far", points)]
    chart = LineChart("Best score by computing time", Axis("computing time of the search", "s"), _axis(metric), lines)
    return Drawing("Best score by computing time", chart, "Computing time is that of all trials until then.")
