"""Cross-tests: every party's own model, the combined and the federated ones, each on the test rows of every party.

The main metric on a party's own rows shows how good its model is; that on other parties' rows, how well it generalises.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.analysis.cells import CellResult
from silobench.analysis.groups import settings_of
from silobench.analysis.specs import partition_kinds
from silobench.analysis.statistics import deviation
from silobench.analysis.tables import BASELINES, Entry, Table, shown, varying
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import Metric

MOST_PARTIES = 10  # of a table that is shown without --cross


@dataclass(frozen=True)
class CrossLine:
    """One model of a cell on the test rows of every party and on all of them, over trials."""

    algorithm: str
    party: str | None  # to which the model belongs; None for a shared model
    tests: Sequence[str]  # names of the parties, and "all"
    values: Sequence[Sequence[float]]  # by test rows, of each trial in which they are defined

    @property
    def name(self) -> str:
        return self.algorithm if self.party is None else f"{self.algorithm}, {self.party}"

    @property
    def means(self) -> list[float | None]:
        return [fmean(trials) if trials else None for trials in self.values]

    @property
    def stds(self) -> list[float | None]:
        """The standard deviations over trials; None for a single trial."""
        return [deviation(trials) for trials in self.values]

    def text(self, place: int, metric: Metric) -> str:
        """Return the score on the test rows at a place of `tests`, as tables show it."""
        mean = self.means[place]
        return "-" if mean is None else metric.number(mean, self.stds[place])


@dataclass(frozen=True)
class Transfer:
    """The main metric of the parties' own models, as means over models."""

    own: float | None  # on the rows of the party itself
    others: float | None  # on those of each other party; None for a single party
    all: float | None  # on all test rows

    def as_json(self) -> dict[str, float | None]:
        return {"own": self.own, "others": self.others, "all": self.all}


def transfer(run: StoredRun) -> Transfer | None:
    """Return how well the parties' models do on their own rows and on those of others; None for a shared model."""
    cross = run.final.cross
    if cross is None or not cross.has_party_models:
        return None
    parties = range(len(cross.models))
    return Transfer(
        _mean(cross.scores[party][party] for party in parties),
        _mean(cross.scores[model][party] for model in parties for party in parties if model != party),
        _mean(scores[-1] for scores in cross.scores),
    )


def cross_lines(setting: Sequence[CellResult]) -> list[CrossLine]:
    """Return the models of cells that differ only in the algorithm: baselines first; empty where runs have none.

    Trials count if their parties are those of the first trial: equal partitions, or parties with equal names.
    """
    tested = [cell for cell in setting if cell.runs[0].final.cross]
    if not tested:
        return []
    order = sorted(tested, key=lambda cell: _place(str(cell.label["algorithm"])))
    return [line for cell in order for line in _lines(cell, tested[0].runs[0])]


def _place(algorithm: str) -> int:
    return BASELINES.index(algorithm) if algorithm in BASELINES else len(BASELINES)


def _lines(cell: CellResult, first: StoredRun) -> list[CrossLine]:
    trials = [run.final.cross for run in cell.runs if run.final.cross and _has_parties_of(run, first)]
    if not trials:
        return []
    one, lines = trials[0], []
    for place, model in enumerate(one.models):
        values = [
            [score for cross in trials if (score := cross.scores[place][test]) is not None]
            for test in range(len(one.tests))
        ]
        party = model if one.has_party_models else None
        lines.append(CrossLine(str(cell.label["algorithm"]), party, one.tests, values))
    return lines


def _has_parties_of(run: StoredRun, first: StoredRun) -> bool:
    """Whether the parties of both runs are the same ones; parties with numbers for names are drawn from the seed."""
    names = list(run.partition.parties)
    is_named = names != [str(place) for place in range(len(names))]
    equal = run.partition.fingerprint == first.partition.fingerprint
    return names == list(first.partition.parties) and (is_named or equal)


def is_by_group(cell: CellResult) -> bool:
    """Whether the parties are groups of the data."""
    return "by-group" in partition_kinds(cell.label)


def cross_tables(cells: Sequence[CellResult], every: bool = True) -> list[Table]:
    """Return one table per setting, with models down and test rows across.

    Without `every`, only settings of at most ten parties that are groups of the data, and of at least two models.
    """
    tables = []
    for setting in settings_of(cells):
        lines = cross_lines(setting)
        is_shown = len(lines) > 1 and len(lines[0].tests) - 1 <= MOST_PARTIES and is_by_group(setting[0])
        if lines and (every or is_shown):
            tables.append(_table(setting, lines, cells))
    return tables


def _table(setting: Sequence[CellResult], lines: Sequence[CrossLine], cells: Sequence[CellResult]) -> Table:
    metric, tests = setting[0].metric, lines[0].tests
    name = " ".join(filter(None, (shown(setting[0], choice, cells) for choice in varying(cells))))
    rows = [[Entry(line.name), *(Entry(line.text(place, metric)) for place in range(len(tests)))] for line in lines]
    title = f"Cross-test, {metric.heading}: each model (down) on the test rows of each party (across): {name}"
    return Table(title, ["model", *tests], rows, _note(setting, lines, metric))


def _note(setting: Sequence[CellResult], lines: Sequence[CrossLine], metric: Metric) -> str:
    trials = max(len(values) for line in lines for values in line.values)
    notes = [f"mean ± std over {trials} trials" if trials > 1 else "one trial"]
    first = next(cell.runs[0] for cell in setting if cell.runs[0].final.cross)
    if not all(_has_parties_of(run, first) for cell in setting for run in cell.runs if run.final.cross):
        notes.append(f"parties differ between trials: lines are those of seed {first.seed}, means are over all trials")
    for cell in setting:
        if mean := mean_transfer(cell):
            own, others, all_ = (
                "-" if value is None else metric.number(value) for value in (mean.own, mean.others, mean.all)
            )
            notes.append(
                f"{cell.label['algorithm']}, mean over parties: {own} on their own rows, {others} on those of other "
                f"parties, {all_} on all"
            )
    return "; ".join(notes)


def mean_transfer(cell: CellResult) -> Transfer | None:
    """Return the means over all trials; None for a shared model."""
    trials = [known for known in map(transfer, cell.runs) if known]
    if not trials:
        return None
    return Transfer(*(_mean(getattr(one, name) for one in trials) for name in ("own", "others", "all")))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def cross_json(cell: CellResult) -> dict[str, Any] | None:
    """Return the cross-test of a cell: mean and standard deviation by model and test rows; None where it has none."""
    lines, mean = cross_lines([cell]), mean_transfer(cell)
    if not lines:
        return None
    return {
        "models": [line.party or "shared" for line in lines],
        "tests": list(lines[0].tests),
        "mean": [line.means for line in lines],
        "std": [line.stds for line in lines],
        "transfer": mean and mean.as_json(),
    }
