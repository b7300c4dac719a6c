"""A preview of an experiment: its runs, which of them are finished, and about how long the others take."""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from silobench.runs.plans import Plans
from silobench.runs.prepare import is_finished
from silobench.runs.stored import read_header, read_run

FINISHED, BEGUN, MISSING = "finished", "begun", "missing"
_SAMPLE = 20  # finished runs that are read for an estimate


@dataclass(frozen=True)
class Preview:
    """The runs of an experiment. Plans are made one by one while they are listed."""

    plans: Plans
    status: Mapping[str, str]  # by id
    absent: Mapping[str, int]  # the number of runs without their dataset, by reason
    seconds_per_round: float | None  # the mean of some finished runs; None if none is finished
    recorded: int = 0  # rounds of begun runs that are recorded

    @property
    def missing(self) -> Plans:
        """The plans of the runs that a command would do or continue."""
        return self.plans.of_ids(id for id, status in self.status.items() if status != FINISHED)

    def count(self, status: str) -> int:
        return sum(each == status for each in self.status.values())

    def json_parts(self, rounds: int) -> Iterator[str]:
        """Yield the text of a JSON object in parts: counts, then one run after another."""
        facts = {
            "runs": len(self.plans), **{status: self.count(status) for status in (FINISHED, BEGUN, MISSING)},
            "skipped": dict(self.absent), "rounds": rounds, "seconds": self.seconds(rounds),
        }  # fmt: skip
        yield f'{json.dumps(facts, indent=1)[:-2]},\n "list": [\n'
        for place, plan in enumerate(self.plans):
            run = {"id": plan.id, "name": plan.name, "status": self.status[plan.id], "rounds": plan.cell.rounds}
            yield f"{',' * bool(place)}{chr(10) * bool(place)}  {json.dumps(run)}"
        yield "\n ]\n}\n"

    def seconds(self, rounds: int) -> float | None:
        """Return about how long these rounds take one worker; None if no run is finished."""
        return None if self.seconds_per_round is None else rounds * self.seconds_per_round


def preview(plans: Plans, absent: Mapping[str, int], out: Path) -> Preview:
    """Look which runs of an experiment a directory has."""
    status = {id: _status(out / id) for id in plans.ids}
    finished = [id for id, each in status.items() if each == FINISHED]
    costs = [
        run.totals.seconds / len(run.rounds)
        for run in (read_run(out / id) for id in itertools.islice(finished, _SAMPLE))
        if run.rounds
    ]
    headers = (read_header(out / id) for id, each in status.items() if each == BEGUN)
    recorded = sum(header["round"] for header in headers if header)
    return Preview(plans, status, absent, fmean(costs) if costs else None, recorded)


def rounds_to_do(preview: Preview) -> int:
    """Return the rounds that a command would do: those of missing runs, and what begun runs lack."""
    return sum(plan.cell.rounds for plan in preview.missing) - preview.recorded


def _status(path: Path) -> str:
    if is_finished(path):
        return FINISHED
    return BEGUN if (path / "run.json").exists() else MISSING
