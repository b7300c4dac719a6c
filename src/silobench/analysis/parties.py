"""Results by party: the main metric on each party's own test rows, who is worst and best, and how fair that is."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult, finite
from silobench.analysis.groups import settings_of
from silobench.analysis.statistics import deviation
from silobench.analysis.tables import Entry, Table, entries, shown, varying
from silobench.runs.stored import PartyResult, StoredRun
from silobench.tasks.metrics import Metric

MOST_PARTIES = 40  # rows of a table
_TENTH = 0.1  # of the parties: the worst ones
_ONE_OF_A_TENTH = 10  # parties: the worst tenth of these, or of fewer, is the worst party


@dataclass(frozen=True)
class Fairness:
    """How the main metric differs between parties, on their own test rows."""

    worst_party: str
    best_party: str
    worst: float
    best: float
    mean: float
    std: float | None  # None for a single party
    worst_tenth: float  # mean of the worst tenth of the parties, at least one

    @property
    def range(self) -> float:
        return abs(self.best - self.worst)

    def as_json(self) -> dict[str, Any]:
        return {
            "worst": {"party": self.worst_party, "value": self.worst},
            "best": {"party": self.best_party, "value": self.best},
            "mean": self.mean,
            "std": self.std,
            "range": self.range,
            "worst_tenth": self.worst_tenth,
        }


def fairness(results: Mapping[str, PartyResult], metric: Metric) -> Fairness | None:
    """Summarise the results of parties; None if none of them has a value.

    >>> parties = {name: PartyResult(10, score) for name, score in {"a": 0.5, "b": 0.9, "c": 0.7}.items()}
    >>> one = fairness(parties, Metric("accuracy", "accuracy", True))
    >>> one.worst_party, one.best_party, round(one.range, 6), one.worst_tenth
    ('a', 'b', 0.4, 0.5)
    """
    known = {name: result.score for name, result in results.items() if result.score is not None}
    if not known:
        return None
    order = sorted(known, key=lambda name: -metric.gain(known[name], 0.0))  # the best first
    lowest = order[-max(1, math.ceil(_TENTH * len(order))) :]
    return Fairness(
        worst_party=order[-1],
        best_party=order[0],
        worst=known[order[-1]],
        best=known[order[0]],
        mean=fmean(known.values()),
        std=deviation(list(known.values())),
        worst_tenth=fmean(known[name] for name in lowest),
    )


def run_fairness(run: StoredRun) -> Fairness | None:
    return fairness(run.final.parties, run.metric)


def party_results(cell: CellResult) -> list[dict[str, Any]]:
    """Return the results of every trial by party, with their summary, for JSON; empty where runs have none."""
    return [
        {
            "seed": run.seed,
            "parties": {
                name: {"train_rows": size, "test_rows": result.rows, "own": result.score, "all": result.score_on_all}
                for (name, result), size in zip(run.final.parties.items(), _sizes(run), strict=True)
            },
            **(summary.as_json() if (summary := run_fairness(run)) else {}),
        }
        for run in cell.runs
        if run.final.parties
    ]


def parties_tables(cells: Sequence[CellResult]) -> list[Table]:
    """Return one table per setting with results by party; empty where no run has them."""
    names = varying(cells) if cells else []
    return [
        _table([cell for cell in setting if cell.runs[0].final.parties], names, cells)
        for setting in settings_of(cells)
        if any(cell.runs[0].final.parties for cell in setting)
    ]


def no_parties_text(cells: Sequence[CellResult]) -> str:
    """Return why these cells have no results by party, without a full stop."""
    if all(cell.is_vertical for cell in cells):
        return (
            "no party has test rows of its own, because parties hold columns of the same rows; the table Parties and "
            "columns states who has which rows, and By set of test rows the scores where these differ"
        )
    return (
        "these runs have no results by party, because they are from an earlier version or no test row belongs to a "
        "party"
    )


def _table(setting: Sequence[CellResult], names: Sequence[str], cells: Sequence[CellResult]) -> Table:
    """Return the results of one setting, with parties down and algorithms across."""
    metric, first = setting[0].metric, setting[0].runs[0]
    trials = {cell.label["algorithm"]: _comparable(cell) for cell in setting}
    parties = _listed(list(first.final.parties), trials[setting[0].label["algorithm"]], metric)
    sizes = dict(zip(first.final.parties, _sizes(first), strict=True))
    rows = [
        [
            *entries(party, str(sizes[party]), str(first.final.parties[party].rows)),
            *(_entry(party, runs, metric) for runs in trials.values()),
        ]
        for party in parties
    ]
    setting_text = " ".join(filter(None, (shown(setting[0], name, cells) for name in names)))
    title = f"{metric.heading}, on each party's own test rows: {setting_text}"
    columns = ["party", "rows", "own test rows", *trials]
    note = _note(setting, len(first.final.parties), len(parties))
    return Table(title[:1].upper() + title[1:], columns, rows, note, _footer(setting, metric))


def _comparable(cell: CellResult) -> Sequence[StoredRun]:
    """Return the trials whose parties are those of the first one: all of them, if partitions are equal."""
    first = cell.runs[0]
    return [run for run in cell.runs if run.partition.fingerprint == first.partition.fingerprint]


def _listed(parties: Sequence[str], runs: Sequence[StoredRun], metric: Metric) -> Sequence[str]:
    """Return all parties or, of many, the best and the worst ones."""
    if len(parties) <= MOST_PARTIES:
        return parties
    values = {party: _mean(_values(party, runs)) for party in parties}
    known = {party: value for party, value in values.items() if value is not None}
    order = sorted(known, key=lambda party: -metric.gain(known[party], 0.0))
    half = MOST_PARTIES // 2
    return order if len(order) <= MOST_PARTIES else [*order[:half], *order[-half:]]


def _values(party: str, runs: Sequence[StoredRun]) -> list[float | None]:
    return [run.final.parties[party].score for run in runs if party in run.final.parties]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _entry(party: str, runs: Sequence[StoredRun], metric: Metric) -> Entry:
    values = [value for value in _values(party, runs) if value is not None]
    everywhere = _mean(run.final.parties[party].score_on_all for run in runs if party in run.final.parties)
    if not values:
        return Entry("-")
    beside = "" if everywhere is None else f"all rows {metric.number(everywhere)}"
    return Entry(metric.number(fmean(values), deviation(values)), paper=beside)


def _footer(setting: Sequence[CellResult], metric: Metric) -> list[list[Entry]]:
    """Return the summary of each algorithm, as means over trials."""
    each = [[known for known in map(run_fairness, cell.runs) if known] for cell in setting]
    parties = len(setting[0].runs[0].final.parties)
    tenths = [_number((one.worst_tenth for one in trials), metric) for trials in each]

    def line(name: str, values: Iterable[str]) -> list[Entry]:
        return entries(name, "", "", *values)

    return [
        line("worst party", (_named(trials, "worst", metric) for trials in each)),
        line("best party", (_named(trials, "best", metric) for trials in each)),
        line("mean over parties", (_number((one.mean for one in trials), metric) for trials in each)),
        *([line("mean of the worst 10%", tenths)] if parties > _ONE_OF_A_TENTH else []),
        line("std over parties", (_number((one.std for one in trials), metric) for trials in each)),
        line("range", (_number((one.range for one in trials), metric) for trials in each)),
    ]


def _number(values: Iterable[float | None], metric: Metric) -> str:
    mean = _mean(values)
    return "" if mean is None else metric.number(mean)


def _named(trials: Sequence[Fairness], which: str, metric: Metric) -> str:
    """Return the mean over trials of the worst or best value, and whose it is."""
    if not trials:
        return ""
    names = dict.fromkeys(str(getattr(one, f"{which}_party")) for one in trials)
    return f"{metric.number(fmean(getattr(one, which) for one in trials))} ({', '.join(names)})"


def worst_party_text(cell: CellResult) -> str:
    """Return the mean over trials of the worst party's score, with its name; empty where runs do not have it."""
    return _named([known for known in map(run_fairness, cell.runs) if known], "worst", cell.metric)


def own_test_summary(cell: CellResult) -> dict[str, Any] | None:
    """Return the fairness over trials for JSON; None where runs do not have it."""
    trials = [known for known in map(run_fairness, cell.runs) if known]
    if not trials:
        return None
    return {
        "mean": finite(fmean(one.mean for one in trials)),
        "std": _mean(one.std for one in trials),
        "worst": finite(fmean(one.worst for one in trials)),
        "best": finite(fmean(one.best for one in trials)),
        "range": finite(fmean(one.range for one in trials)),
        "worst_tenth": finite(fmean(one.worst_tenth for one in trials)),
        "worst_party": [one.worst_party for one in trials],
        "best_party": [one.best_party for one in trials],
    }


def _sizes(run: StoredRun) -> Sequence[int | None]:
    sizes = run.partition.sizes
    return sizes if len(sizes) == len(run.final.parties) else [None] * len(run.final.parties)


def _note(setting: Sequence[CellResult], parties: int, listed: int) -> str:
    notes = [
        "rows: of training; own test rows: by group, or dealt in proportion to the party's training rows of each class"
    ]
    if any(len(_comparable(cell)) < len(cell.runs) for cell in setting):
        seed = setting[0].seeds[0]
        notes.append(f"parties differ between trials: lines are those of seed {seed}, the summary is over all trials")
    if listed < parties:
        notes.append(
            f"{listed} of {parties} parties: the best and the worst; `silobench show DIR --json` lists all of them"
        )
    if any(result.score_on_all is not None for cell in setting for result in cell.runs[0].final.parties.values()):
        notes.append("all rows: the party's model on all test rows")
    return "; ".join(notes)
