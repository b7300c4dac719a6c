"""OARF's numbers on parties that hold columns (Table 10) and on encryption at the cut (Table 11), beside ours."""

from collections.abc import Callable, Iterator, Mapping
from statistics import fmean

from silobench.analysis import costs
from silobench.analysis.bayes import Posterior
from silobench.analysis.cells import CellResult
from silobench.analysis.compare import Question, paired
from silobench.analysis.costs import PARTIES
from silobench.analysis.evidence import gap
from silobench.analysis.groups import Cells, by_seed, dataset_name
from silobench.analysis.tables import Entry, Table, entries, shown_choices, varying
from silobench.analysis.units import short
from silobench.papers.oarf.numbers import table10, table10_odds, table11
from silobench.papers.oarf.printed import beside, convergence_text
from silobench.papers.oarf.settings import COMBINED
from silobench.papers.oarf.vertical import METRICS, RECOMMENDATION, ROPES, SPLIT, YEAR, Setup, setups, vertical_task
from silobench.runs.stored import StoredRun

_BATCHES = 7834  # of an epoch, in the paper
_WORK = {"train": "train", "encrypt": "encrypt", "add": "encode", "decrypt": "aggregate", "travel": "communicate"}
_MS = "ms: of a batch, of all parties together"
_LARGER = (
    "P(A larger) is what the paper calls the probability that A is superior; of an error, the larger one is the worse "
    "one (silobench compare turns the sign)"
)


def _of_task(cells: Cells, task: str) -> list[Setup]:
    """Return the ways to train for a task of the paper, of runs that record its metric."""
    known = [cell for cell in cells if vertical_task(cell.label) == task and METRICS[task] in cell.metrics]
    return [setup for setup in setups(known) if not setup.encrypted]


# --- Table 10 -----------------------------------------------------------------------------------------


def year_table(cells: Cells) -> Table:
    """Return errors, throughput and rounds of year prediction, beside Table 10(a)."""
    singles = " and ".join(
        f"{row['training'].upper()} {row['score']} ± {row['score_std']}" for row in _papers_singles()
    )
    notes = [f"the paper's parties by themselves, each on its own rows: {singles}", "its songs are FMA's and MSD's"]
    return _results(cells, YEAR, "OARF, Table 10(a): year prediction", notes)


def _papers_singles() -> list[dict[str, str]]:
    return [row for name, row in table10(YEAR).items() if name not in (COMBINED, SPLIT)]


def recommendation_table(cells: Cells) -> Table:
    """Return errors, throughput and rounds of recommendation, beside Table 10(b)."""
    notes = ["the paper has MovieLens 1M with facts of IMDB, which is never a party by itself"]
    return _results(cells, RECOMMENDATION, "OARF, Table 10(b): recommendation of films", notes)


def _results(cells: Cells, task: str, title: str, notes: list[str]) -> Table:
    every = _of_task(cells, task)
    shown = [cell for setup in every for _, cell in setup.cells]
    names = [name for name in varying(shown) if name not in ("measure", "metric")] if shown else []
    rows = [
        [*shown_choices(cell, names, shown), Entry(training), *_numbers(cell, table10(task).get(training), task)]
        for setup in every
        for training, cell in setup.cells
    ]
    heading = shown[0].metrics[METRICS[task]][0].heading if shown else ""
    columns = [*names, "trained on", heading, "rows/s", "rounds"]
    common = ["ours: on the rows that all parties have; the paper's set-ups are each tested on other rows"]
    common.append("rows/s: a set of linked rows counts once")
    return Table(title, columns, rows, "; ".join([*common, *notes]))


def _numbers(cell: CellResult, row: Mapping[str, str] | None, task: str) -> list[Entry]:
    _, result = cell.metrics[METRICS[task]]
    spread = "" if result.std is None else f" ± {result.std:.3f}"
    rate = costs.mean_of(cell.runs, costs.throughput)
    rounds = table11().get(row["training"]) if row and task == RECOMMENDATION else None
    return [
        beside(f"{result.mean:.3f}{spread}", row, "score"),
        beside(short(rate.mean) if rate else "-", row, "throughput"),
        beside(convergence_text(cell), rounds, "rounds"),
    ]


def odds_table(cells: Cells) -> Table:
    """Return the probabilities that split learning has the larger number, beside Table 10(c)."""
    rows = [
        [*entries(dataset_name(setup.split), metric, SPLIT, name), *_odds(posterior, metric, task, name)]
        for task in METRICS
        for setup in _of_task(cells, task)
        if setup.split
        for metric, name, posterior in _rivals(setup, setup.split, task)
    ]
    columns = ["dataset", "metric", "A", "B", "P(A larger)", "P(equal)", "P(B larger)"]
    regions = "equal: within 0.1 years, 0.01 of MSE, 1,000 rows/s, as in the paper"
    return Table("OARF, Table 10(c): probabilities of differences", columns, rows, f"{_LARGER}; {regions}")


def _rivals(setup: Setup, split: CellResult, task: str) -> Iterator[tuple[str, str, Posterior]]:
    """Yield the metric, the name of the other way to train, and the posterior of split minus the other."""
    others = [(name, cell) for name, cell in setup.cells if cell is not split]
    metric = split.metrics[METRICS[task]][0]
    for name, cell in others:
        pairs = paired(split, cell, Question(metric.name, ROPES[metric.name], score=metric))
        if pairs and pairs.posterior:
            yield metric.name, name, pairs.posterior
    for name, cell in others:
        posterior = gap(by_seed(split, costs.throughput), by_seed(cell, costs.throughput)).posterior
        if posterior:
            yield "throughput", name, posterior


def _odds(posterior: Posterior, metric: str, task: str, other: str) -> list[Entry]:
    printed = next((row for row in table10_odds(task) if (row["metric"], row["b"]) == (metric, other)), None)
    names = ("p_a_larger", "p_equal", "p_b_larger")
    each = zip(posterior.odds(ROPES[metric]), names, strict=True)
    return [Entry(f"{p:.3f}", paper=f"paper {printed[name]}" if printed else "") for p, name in each]


# --- Table 11 -----------------------------------------------------------------------------------------


def encryption_table(cells: Cells) -> Table:
    """Return rounds, throughput and time per batch with and without encryption, beside Table 11."""
    paper = table11()["encrypted"]
    hours = float(paper["seconds_per_batch"]) * _BATCHES / 3600
    note = (
        f"{_MS}; estimate: seconds per batch times the {_BATCHES:,} batches of an epoch in the paper; there, "
        f"{paper['seconds_per_batch']} s x {_BATCHES:,} = {hours:.0f} h for one epoch, and the text states "
        f"{paper['stated_hours']} h in all"
    )
    encrypted = [setup for setup in _encrypted(cells) if _is_of_paper(setup)]
    return _batches("OARF, Table 11: encryption at the cut", encrypted, True, note)


def other_encryption_table(cells: Cells) -> Table:
    """Return the same numbers of tasks that are not the paper's, without its numbers."""
    encrypted = [setup for setup in _encrypted(cells) if not _is_of_paper(setup)]
    return _batches("Encryption at the cut", encrypted, False, _MS)


def _encrypted(cells: Cells) -> list[Setup]:
    return [setup for setup in setups(cells) if setup.encrypted]


def _is_of_paper(setup: Setup) -> bool:
    _, first = setup.cells[0]
    return vertical_task(first.label) is not None


def _batches(title: str, every: list[Setup], of_paper: bool, note: str) -> Table:
    """Return a line for each way to train; that of the paper's tasks has its numbers and the estimate."""
    shown = [cell for setup in every for _, cell in setup.cells]
    names = varying(shown) if shown else []
    rows = [
        [
            *shown_choices(cell, names, shown), Entry(training), *_costs(training, cell),
            *([_estimate(training, cell)] if of_paper else []),
        ]
        for setup in every
        for training, cell in setup.cells
    ]  # fmt: skip
    columns = [*names, "training", "rounds", "rows/s", *(f"{what}, ms" for what in _WORK), "s per batch"]
    return Table(title, [*columns, *([f"{_BATCHES:,} batches (estimate)"] if of_paper else [])], rows, note)


def _printed(training: str, cell: CellResult) -> dict[str, str] | None:
    """Return the line of Table 11 that a cell is beside; None for another task."""
    if vertical_task(cell.label) != RECOMMENDATION:
        return None
    return table11().get("encrypted" if _is_encrypted(training) else training)


def _is_encrypted(training: str) -> bool:
    return training not in (COMBINED, SPLIT) and training.startswith(SPLIT)


def _costs(training: str, cell: CellResult) -> list[Entry]:
    row, rate = _printed(training, cell), costs.mean_of(cell.runs, costs.throughput)
    batch = _mean(cell, seconds_per_batch)
    return [
        beside("-" if _is_encrypted(training) else convergence_text(cell), row, "rounds"),
        beside(short(rate.mean) if rate else "-", row, "throughput"),
        *entries(*(_milliseconds(cell, part) for part in _WORK.values())),
        beside("-" if batch is None else f"{batch:.3g}", row, "seconds_per_batch"),
    ]


def _estimate(training: str, cell: CellResult) -> Entry:
    """Return the hours of the batches of the paper's epoch."""
    row, batch = _printed(training, cell), _mean(cell, seconds_per_batch)
    hours = "" if batch is None else f"{_BATCHES * batch / 3600:.3g} h"
    if row is None or not _is_encrypted(training):
        return Entry(hours)
    return Entry(hours, paper=f"paper {float(row['seconds_per_batch']) * _BATCHES / 3600:.0f} h")


def _milliseconds(cell: CellResult, part: str) -> str:
    """Return the time of a batch that all parties together spend on a part."""

    def number(run: StoredRun) -> float | None:
        times, steps = costs.decomposition(run).get(PARTIES), sum(row.steps for row in run.rounds)
        parties = max(1, len(run.rounds[-1].cohort))  # one for a baseline, whatever the number of owners
        return 1000 * times[part] * parties / steps if times and steps else None

    mean = _mean(cell, number)
    return f"{mean:.3g}" if mean else "-"


def seconds_per_batch(run: StoredRun) -> float | None:
    """Return the round time of a batch; None if it is not recorded."""
    times, steps = [row.time for row in run.rounds], sum(row.steps for row in run.rounds)
    if not steps or any(time is None for time in times):
        return None
    return sum(float(time["total"]) for time in times if time) / steps


def _mean(cell: CellResult, number: Callable[[StoredRun], float | None]) -> float | None:
    values = by_seed(cell, number)
    return fmean(values.values()) if values else None


TABLES: tuple[Callable[[Cells], Table], ...] = (
    year_table, recommendation_table, odds_table, encryption_table, other_encryption_table,
)  # fmt: skip
