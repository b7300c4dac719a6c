"""How far the runs of a directory are: finished, in progress, stopped, not started, and the time that is left."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from silobench.live.records import Look
from silobench.runs.results import Results
from silobench.runs.stored import StoredRun

_SILENT = 60.0  # seconds without a new round, after which a run may have been stopped
_SILENT_ROUNDS = 10  # the same in rounds of this run


@dataclass(frozen=True)
class Progress:
    """Counts of runs and rounds. `seconds_left` is None where nothing runs, or before the first round."""

    finished: int
    in_progress: int
    stopped: int
    not_started: int
    rounds_done: int
    rounds_total: int  # of the runs that were started
    seconds_left: float | None

    @property
    def runs(self) -> int:
        return self.finished + self.in_progress + self.stopped + self.not_started

    def text(self) -> str:
        """Return the progress in one line."""
        if not self.runs:
            return "no run yet"
        counts = [
            f"{self.finished} of {self.runs} runs finished",
            *([f"{self.in_progress} in progress"] if self.in_progress else []),
            *([f"{self.stopped} stopped"] if self.stopped else []),
            *([f"{self.not_started} not started"] if self.not_started else []),
        ]
        rounds = f"{self.rounds_done:,} of {self.rounds_total:,} rounds of started runs done"
        is_under_way = self.finished < self.runs and self.rounds_total > 0
        left = [] if self.seconds_left is None else [f"about {rough(self.seconds_left)} left"]
        return " · ".join([", ".join(counts), *([rounds] if is_under_way else []), *left])

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "runs": self.runs, "text": self.text()}


def rough(seconds: float) -> str:
    """Return an estimate in a unit that fits.

    >>> rough(0.2), rough(75), rough(600), rough(9000)
    ('1 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def progress_of(results: Results, look: Look, now: float) -> Progress:
    """Return how far the runs are at a time, in seconds since 1970.

    Nothing tells a run that was stopped from one with a long round: a run counts as stopped after a minute, and ten
    times its mean round, without a change of its files.
    """
    unfinished = [run for run in results.runs if not run.complete]
    active = [run for run in unfinished if now - look.last_change(run.path) <= _patience(run)]
    return Progress(
        finished=len(results.runs) - len(unfinished),
        in_progress=len(active),
        stopped=len(unfinished) - len(active),
        not_started=len(results.not_started),
        rounds_done=sum(len(run.rounds) for run in results.runs),
        rounds_total=sum(_rounds(run) for run in results.runs),
        seconds_left=_seconds_left(results, unfinished, len(active)),
    )


def _rounds(run: StoredRun) -> int:
    """Return how many rounds a run has, or will have; a finished run may have ended early."""
    return len(run.rounds) if run.complete else max(run.config.rounds, len(run.rounds))


def _patience(run: StoredRun) -> float:
    return max(_SILENT, _SILENT_ROUNDS * _seconds_per_round([run])) if run.rounds else 10 * _SILENT


def _seconds_left(results: Results, unfinished: Sequence[StoredRun], active: int) -> float | None:
    """Return the seconds that are left if as many runs stay in progress side by side as now.

    A run in progress goes on with its own seconds per round, or with those of all runs before its first round. A run
    that is not started takes as long as the mean of the others.
    """
    usual = _seconds_per_round(results.runs)
    if not active or not usual:
        return None
    left = [
        (_rounds(run) - len(run.rounds)) * (_seconds_per_round([run]) if run.rounds else usual) for run in unfinished
    ]
    whole = fmean(_rounds(run) * (_seconds_per_round([run]) if run.rounds else usual) for run in results.runs)
    return (sum(left) + len(results.not_started) * whole) / active


def _seconds_per_round(runs: Sequence[StoredRun]) -> float:
    seconds = [row.total_seconds for run in runs for row in run.rounds]
    return fmean(seconds) if seconds else 0.0
