"""What a submission states about itself: whether it is complete and consistent. Nothing here needs torch.

A submission is a results directory. These checks find what was left out, and edits that do not agree with each other.
They cannot find an edit after which all digests were computed anew: `replay` repeats runs for that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from silobench.runs.label import Label
from silobench.runs.results import Results, read_results
from silobench.runs.stored import RoundRow, StoredRun, read_run

_STATED = ("python", "machine", "silobench", "torch", "numpy", "engine")  # of the environment


@dataclass(frozen=True)
class Submission:
    """A results directory that was checked: its finished runs, and every problem as a sentence."""

    path: Path
    runs: list[StoredRun]
    problems: list[str]
    notes: list[str]  # what could not be checked


def check_records(path: Path) -> Submission:
    """Read a submission and check its records: digests, ids, and that nothing is missing."""
    results = read_results(path, read_run)  # from the files: an index may be the submitter's
    problems = [*results.problems, *_missing(results)]
    problems += [f"{run.path.name}: {problem}" for run in results.runs if run.complete for problem in _safely(run)]
    runs = [run for run in results.runs if run.complete]
    return Submission(path, runs, [*problems, *_seed_problems(runs)], list(_notes(path, runs)))


def _notes(path: Path, runs: Sequence[StoredRun]) -> Iterator[str]:
    if not (path / ".plans").is_dir():
        yield "there is no list of planned runs (.plans), so runs that were left out cannot be counted"
    if first := min((run.seed for run in runs), default=0):
        yield f"the seeds start at {first} and not at 0, so they may have been chosen among several"


def _missing(results: Results) -> Iterator[str]:
    if results.unfinished:
        yield "1 run is not finished" if results.unfinished == 1 else f"{results.unfinished} runs are not finished"
    if absent := len(results.not_started):
        were, are = ("run was", "is") if absent == 1 else ("runs were", "are")
        yield f"{absent} {were} planned and {are} not there"
    if not any(run.complete for run in results.runs):
        yield "no run is finished"


def _seed_problems(runs: Sequence[StoredRun]) -> Iterator[str]:
    """Yield a sentence about each cell whose seeds have gaps or start elsewhere: trials must not be picked."""
    seeds: dict[Label, list[int]] = {}
    names: dict[Label, str] = {}
    for run in runs:
        cell = run.config.without("seed")
        seeds.setdefault(cell, []).append(run.seed)
        names[cell] = f"{run.label['dataset']} / {run.label['partition']} / {run.label['algorithm']}"
    first = min((run.seed for run in runs), default=0)
    for cell, each in seeds.items():
        if sorted(each) != list(range(min(each), min(each) + len(each))):
            yield f"{names[cell]} has the seeds {sorted(each)}: seeds must follow each other, so that none is picked"
        elif min(each) != first:
            yield f"{names[cell]} starts at seed {min(each)}, and others at {first}: all must start at the same seed"


def _safely(run: StoredRun) -> list[str]:
    """Return the problems of a run; a record that was written by hand may have values of any type."""
    try:
        return list(run_problems(run))
    except (TypeError, ValueError, AttributeError, KeyError):
        return ["its record has values of another type than silobench writes"]


def run_problems(run: StoredRun) -> Iterator[str]:
    """Yield a sentence about everything in the record of a finished run that cannot be as silobench wrote it."""
    facts, rows = run.facts, run.rounds
    if facts.id != run.path.name:
        yield f"its directory has another name than its id {facts.id}"
    absent = [name for name in _STATED if not facts.environment.get(name)]
    if absent:
        yield f"its environment does not state {', '.join(absent)}"
    if not facts.dataset.checksum or facts.dataset.checksum != run.config.get("checksum"):
        yield "the checksum of its data is not that of its configuration"
    if [row.round for row in rows] != list(range(1, len(rows) + 1)):
        yield "its rounds do not follow each other"
    if facts.records is None or facts.records.rounds != len(rows):
        yield "the number of its rounds is not the one that it states"
    if not rows:
        return
    yield from _end_problems(run)
    yield from _course_problems(rows)


def _end_problems(run: StoredRun) -> Iterator[str]:
    last, planned = run.rounds[-1], run.config.rounds
    ended = last.converged or "ended" in last.privacy
    if len(run.rounds) != planned and not (ended and len(run.rounds) < planned):
        yield f"it has {len(run.rounds)} of {planned} rounds"
    if not last.tested and not last.final.metrics:
        yield "its last round was not tested"
    if last.final == type(last.final)():
        yield "it has no final test"


def _course_problems(rows: Sequence[RoundRow]) -> Iterator[str]:
    """Yield a sentence about each quantity that shrinks although it can only grow."""
    if any(row.bytes_up < 0 or row.bytes_down < 0 for row in rows):
        yield "a round has a negative number of bytes"
    if any(after.clock < before.clock for before, after in pairwise(rows)):
        yield "its clock goes backwards"
    spent = [_epsilons(row) for row in rows]
    if any(after[unit] < before[unit] for before, after in pairwise(spent) for unit in before.keys() & after.keys()):
        yield "its epsilon shrinks"


def _epsilons(row: RoundRow) -> Mapping[str, float]:
    """Return the finite epsilons until a round, by unit."""
    each = {unit: facts.get("epsilon") for unit, facts in row.privacy.items() if isinstance(facts, Mapping)}
    return {unit: epsilon for unit, epsilon in each.items() if epsilon is not None}
