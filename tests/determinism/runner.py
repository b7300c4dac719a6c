"""One column of the matrix: a process that makes all runs of all rows, as its job file says.

Runs are written below `out`, in a folder for each row. The rows `tuned` and `silos` are no experiments: a study, and a
consortium of three silos in one process. A cell that the engine refuses is left out: modes refuse what they cannot do.
"""

import json
import os
import random
import sys
from collections.abc import Sequence
from contextlib import closing, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from consortia import rehearsal
from determinism import places
from silobench.cli import app as cli
from silobench.engines import ENGINES, Engine
from silobench.errors import ConfigError
from silobench.processes import context, start_server, without_main
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.plan import Plan
from silobench.runs.prepare import prepare
from silobench.runs.sweep import sweep

STUDY = """
dataset = "fcube"
partition = "octants"
solver = "sgd(epochs=1)"
rounds = 2
[tune]
"solver.lr" = "log(0.001, 1.0)"
"algorithm" = ["fedavg", "scaffold"]
"""


def run_job(path: str) -> None:
    """Make all runs of a job file."""
    main(json.loads(Path(path).read_text()))


def main(job: dict[str, Any]) -> None:
    """Make all runs of a job."""
    places.register()
    out = Path(job["out"])
    engine: Engine = ENGINES.build(job["spec"])
    runs = [(row, each) for row, cells in job["rows"].items() for cell in cells for each in _plans(cell, engine)]
    if job["shuffle"] is not None:
        random.Random(job["shuffle"]).shuffle(runs)
        runs = [(row, one) for row, each in runs for one in (each.origin, each) if one]
    if job["way"] == "sweep":
        for row in job["rows"]:
            list(sweep([each for of, each in runs if of == row], out / row, job["spec"], job["workers"]))
    else:
        for row, each in runs:
            _WAYS[job["way"]](each, out / row, job["spec"])
    if "tuned" in job["special"]:
        _tune(out / "tuned", job)
    if "silos" in job["special"]:
        rehearsal(out.absolute() / "silos", "inline").run()


def _plans(cell: dict[str, Any], engine: Engine) -> Sequence[Plan]:
    """Return the plans of a cell that the engine can run."""
    plans = []
    for each in plan(cell):
        try:
            prepare(each).settled(engine, None)
            plans.append(each)
        except ConfigError as error:
            if "cannot run this experiment" not in str(error):
                raise
    return plans


def _each(planned: Plan, out: Path, engine: str) -> None:
    for _ in execute(prepare(planned), out, engine):
        pass


def _alone(planned: Plan, out: Path, engine: str) -> None:
    """Make a run in a process that makes nothing else."""
    start_server()
    with without_main():
        process = context().Process(target=_alone_here, args=(planned, out, engine))
        process.start()
    process.join()
    assert process.exitcode == 0, f"{planned.name} ended with {process.exitcode}"


def _alone_here(planned: Plan, out: Path, engine: str) -> None:
    places.register()
    _each(planned, out, engine)


def _resumed(planned: Plan, out: Path, engine: str) -> None:
    """Make a run that is stopped after every round, and continued from its checkpoint."""
    while True:
        with closing(execute(prepare(planned), out, engine)) as records:
            if next(records, None) is None:
                return


def _tune(out: Path, job: dict[str, Any]) -> None:
    """Make a study, as the command does."""
    out.mkdir(parents=True)
    (out / "study.toml").write_text(STUDY)
    engine = "auto" if job["way"] == "sweep" else job["spec"]
    options = {"trials": 4, "seeds": 1, "repeats": 1, "confirm": 1, "workers": job["workers"], "engine": engine}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    sys.argv = ["silobench", "tune", str(out / "study.toml"), *words, "--out", str(out)]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), suppress(SystemExit):
        cli.main()


_WAYS = {"each": _each, "alone": _alone, "resumed": _resumed}
