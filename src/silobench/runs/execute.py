"""One run into its directory, round by round."""

import math
import platform
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path

from silobench.engines import Engine
from silobench.engines.kernel import cpu_type
from silobench.models.devices import facts_of
from silobench.runs.prepare import engine_of
from silobench.runs.runnable import Runnable
from silobench.runs.versions import versions
from silobench.runs.writer import open_run
from silobench.training.state import RoundRecord
from silobench.training.stopwatch import Stopwatch


def hardware_of(device: str) -> dict[str, str]:
    """Return what a run on this device of this machine records of the machine."""
    return {"machine": platform.machine(), "cpu": cpu_type(), **facts_of(device)}


def execute(
    runnable: Runnable,
    out: Path,
    engine: str | Engine = "auto",
    commit_each: bool = False,
    hardware: Mapping[str, str] | None = None,
) -> Generator[RoundRecord]:
    """Run a plan in `out/<id>`, resuming after its last stored round. A plan that ends earlier stays unfinished.

    With `commit_each` a round is on disk before the next one starts, because others remember that it took place.
    `hardware` is that of the command, where another machine makes its run; it is recorded instead of that machine's.
    Closing the generator commits finished rounds; a write error is raised.
    """
    watch, chosen = Stopwatch(), engine_of(runnable, out, engine)
    environment = {**versions(), **chosen.environment, **facts_of(runnable.plan.cell.device), **(hardware or {})}
    with open_run(out / runnable.plan.id, environment, runnable.facts) as run:
        until = runnable.plan.until or math.inf
        if run.complete or run.rounds >= until:
            return
        records = runnable.records(chosen, out, run.state)
        watch.lap("data")
        extra_seconds = {"data": runnable.seconds + watch.laps["data"], "record": 0.0}
        for record in records:
            watch.lap("round")
            timed = replace(record, seconds={**extra_seconds, **record.seconds})
            run.append(timed)
            if commit_each:
                run.commit()
            yield timed
            if run.rounds >= until:
                return
            extra_seconds = {"data": 0.0, "record": watch.lap("record")}  # of this round, recorded with the next
        run.finish()
