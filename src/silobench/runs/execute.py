"""One run into its directory, round by round."""

from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

from silobench.engines import Engine
from silobench.loop.loop import run_rounds
from silobench.loop.prelude import with_prelude
from silobench.loop.schedule import Schedule
from silobench.measures import measured
from silobench.runs.prepare import PreparedRun, engine_of
from silobench.runs.starts import digest_of, started
from silobench.runs.writer import open_run, versions
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch


def execute(prepared: PreparedRun, out: Path, engine: str | Engine = "auto") -> Generator[RoundRecord]:
    """Run a plan in `out/<id>`, resuming after its last stored round.

    Closing the generator commits finished rounds; a write error is raised.
    """
    watch, chosen = Stopwatch(), engine_of(prepared, out, engine)
    with open_run(out / prepared.plan.id, {**versions(), **chosen.environment}, prepared.facts) as run:
        if run.complete:
            return
        schedule = replace(prepared.schedule, setting=_with_start_model(prepared, out), engine=chosen)
        schedule = with_prelude(schedule)
        watch.lap("data")
        extra_seconds = {"data": prepared.seconds + watch.laps["data"], "record": 0.0}
        for record in _records(prepared, schedule, run.state):
            watch.lap("round")
            timed = replace(record, seconds={**extra_seconds, **record.seconds})
            run.append(timed)
            yield timed
            watch.lap("record")  # of this round, recorded with the next
            extra_seconds = {"data": 0.0, "record": watch.laps["record"]}
        run.finish()


def _with_start_model(prepared: PreparedRun, out: Path) -> Setting:
    """Return the setting with the model of the run that was made first, if there is one."""
    origin = prepared.plan.origin
    if origin is None:
        return prepared.setting
    digest_of(out / origin.id)  # refuses a run that is not finished
    return started(prepared.setting, out / origin.id)


def _records(prepared: PreparedRun, schedule: Schedule, state: State | None) -> Iterator[RoundRecord]:
    records = run_rounds(schedule, state)
    return measured(records, prepared.measures, schedule, state) if prepared.measures else records
