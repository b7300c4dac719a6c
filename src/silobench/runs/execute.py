"""One run into its directory, round by round."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from silobench.engines import Engine
from silobench.loop.rounds import beginning, rounds
from silobench.measures import Course, measured
from silobench.runs.prepare import PreparedRun, check_origin, engine_of, is_complete, prepare
from silobench.runs.starts import digest_of, started, warmed_up
from silobench.runs.writer import open_run, versions
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch

__all__ = ["check_origin", "engine_of", "execute", "is_complete", "prepare"]


def execute(prepared: PreparedRun, out: Path, engine: str | Engine = "auto") -> Generator[RoundRecord]:
    """Run a plan into ``out/<id>``, going on where it stopped; yields the rounds that were still missing.

    Close it to stop: what is not yet on disk is then committed, and a disk that refuses is heard.
    """
    watch, chosen = Stopwatch(), engine_of(prepared, out, engine)
    with open_run(out / prepared.plan.id, {**versions(), **chosen.made_by}, prepared.facts) as run:
        if run.complete:
            return
        setting, told = warmed_up(_at_its_start(prepared, out), chosen)
        watch.lap("data")
        between = {"data": prepared.seconds + watch.laps["data"], "record": 0.0}
        for record in _records(prepared, setting, chosen, run.state, told):
            watch.lap("round")
            timed = replace(record, seconds={**between, **record.seconds})
            run.append(timed)
            yield timed
            watch.lap("record")  # of this round, told with the next
            between = {"data": 0.0, "record": watch.laps["record"]}
        run.finish()


def _at_its_start(prepared: PreparedRun, out: Path) -> Setting:
    """With the model of the run that was made first, where there is such."""
    origin = prepared.plan.origin
    if origin is None:
        return prepared.setting
    digest_of(out / origin.id)  # refuses one that is not finished
    return started(prepared.setting, out / origin.id)


def _records(
    prepared: PreparedRun, setting: Setting, engine: Engine, state: State | None, told: Mapping[str, Any]
) -> Iterator[RoundRecord]:
    """The rounds still missing, measured; the first tells what came before it: the warm-up, bytes of shared rows."""
    cell, method, federation = prepared.plan.cell, setting.method, setting.federation
    shared = None if method.algorithm.pooled else prepared.sharing
    took = prepared.network.seconds(shared.largest, 0) if shared else 0.0
    records = rounds(
        method,
        federation,
        setting.task,
        seed=cell.seed,
        rounds=cell.rounds,
        participation=cell.participation,
        selection=prepared.selection,
        eval_every=cell.eval_every,
        eval_on=cell.eval_on,
        engine=engine,
        controller=prepared.controller,
        network=prepared.network,
        state=state or (beginning(method, federation, setting.task, took) if shared else None),
    )
    if prepared.measures:
        course = Course(setting, cell.rounds, cell.participation, cell.eval_every, cell.eval_on, engine)
        records = measured(records, prepared.measures, course, state)
    for record in records:
        before = shared.bytes if shared and record.round == 1 else 0
        said = told if record.round == 1 else {}
        yield replace(record, bytes_down=record.bytes_down + before, measures={**said, **record.measures})
