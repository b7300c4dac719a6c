"""Runs that differ only in their seed are trials of one cell; a cell is what a table shows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from statistics import fmean, stdev
from typing import Any

from silobench.papers.niid_bench.numbers import paper_accuracy, paper_cost
from silobench.runs.record import StoredRun

_AT_WORK = ("train", "encode", "idle", "aggregate")  # phases of a round; not tests, files and loading


@dataclass(frozen=True)
class Accuracy:
    """Over trials: the last round's mean and standard deviation, and the mean of each trial's best round."""

    mean: float
    std: float | None  # None for a single trial, which has none
    best: float
    last: float


@dataclass(frozen=True)
class CellResult:
    """One setting, over its finished trials."""

    label: dict[str, Any]  # every choice but the seed
    seeds: list[int]
    parties: int
    accuracy: Accuracy
    diverged: bool  # the loss of some trial was not finite at the end
    curve: list[tuple[int, float]]  # (round, mean accuracy over trials)
    bytes_up: float  # per trial, whole run
    bytes_down: float
    seconds: float
    round_seconds: float  # of a round, parties and server at work
    clock: float
    emd_weighted: float
    paper: dict[str, Any] | None
    paper_cost: dict[str, float] | None  # of a round
    cohort: int  # parties in a round
    runs: list[StoredRun]

    def as_json(self) -> dict[str, Any]:
        own = {key: getattr(self, key) for key in ("parties", "bytes_up", "bytes_down", "seconds", "clock")}
        return {
            **self.label,
            **own,
            "trials": len(self.seeds),
            "seeds": self.seeds,
            "accuracy": asdict(self.accuracy),
            "diverged": self.diverged,
            "emd_weighted": self.emd_weighted,
            "paper": self.paper,
            "runs": [str(run.path) for run in self.runs],
        }


def collect(runs: Iterable[StoredRun]) -> list[CellResult]:
    """The cells of all finished runs, in the order in which they were planned; a copy of a run counts once."""
    finished = {run.facts["id"]: run for run in runs if run.complete}
    trials: dict[str, list[StoredRun]] = {}
    for run in finished.values():
        trials.setdefault(repr(_setting(run)), []).append(run)
    found = [_cell(sorted(group, key=lambda run: run.facts["config"]["seed"])) for group in trials.values()]
    return _told_apart(sorted(found, key=lambda cell: cell.runs[0].facts["created"]))


def _told_apart(cells: list[CellResult]) -> list[CellResult]:
    """Cells of one label differ in the data or the plugins behind it: these then join the label."""
    labels = Counter(repr(cell.label) for cell in cells)
    return [
        replace(cell, label={**cell.label, "origin": _origin(cell)}) if labels[repr(cell.label)] > 1 else cell
        for cell in cells
    ]


def _origin(cell: CellResult) -> str:
    config = cell.runs[0].facts["config"]
    return " ".join([f"data {config['checksum'][:8]}", *config.get("plugins", [])])


def _setting(run: StoredRun) -> dict[str, Any]:
    return {key: value for key, value in run.facts["config"].items() if key != "seed"}


def _cell(runs: list[StoredRun]) -> CellResult:
    label = {key: value for key, value in runs[0].facts["label"].items() if key != "seed"}
    evaluated = [[row for row in run.rounds if row["accuracy"] is not None] for run in runs]
    last = [rows[-1]["accuracy"] for rows in evaluated]
    best = [max(row["accuracy"] for row in rows) for rows in evaluated]
    curve = [(at[0]["round"], fmean(row["accuracy"] for row in at)) for at in zip(*evaluated, strict=True)]
    parties = len(runs[0].facts["partition"]["sizes"])
    return CellResult(
        label=label,
        seeds=[run.facts["config"]["seed"] for run in runs],
        parties=parties,
        accuracy=Accuracy(fmean(last), stdev(last) if len(last) > 1 else None, fmean(best), fmean(last)),
        diverged=any(rows[-1]["loss"] is None for rows in evaluated),
        curve=curve,
        bytes_up=fmean(sum(row["bytes_up"] for row in run.rounds) for run in runs),
        bytes_down=fmean(sum(row["bytes_down"] for row in run.rounds) for run in runs),
        seconds=fmean(sum(sum(row["seconds"].values()) for row in run.rounds) for run in runs),
        round_seconds=fmean(sum(row["seconds"].get(p, 0.0) for p in _AT_WORK) for run in runs for row in run.rounds),
        clock=fmean(run.rounds[-1]["clock"] for run in runs),
        emd_weighted=fmean(run.facts["partition"]["emd_weighted"] for run in runs),
        paper=paper_accuracy(label, parties),
        paper_cost=paper_cost(label, parties),
        cohort=max(1, len(runs[0].rounds[-1]["cohort"])),
        runs=runs,
    )
