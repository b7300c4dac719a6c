"""Measure rounds on Ray in a process of its own: `python -m scaling.ray_points JSON` prints one point per line.

Ray is started on this machine with a number of workers, which share its cores if there are more of them. So seconds are
those of the processor: of the driver (this process), and of the workers. Ray's services are not counted, because they
work by the clock rather than by task.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import MARK, TICKS, marked
from scaling.cluster import on_workers
from scaling.model import Case, Point
from scaling.points import case_of, choices
from silobench.data import load
from silobench.engines.engine import ENGINES, Engine
from silobench.runs.experiment import bind
from silobench.runs.horizontal import HorizontalRun, prepare
from silobench.training.state import RoundRecord

TURN = 1.0  # seconds of the clock of a turn, at least: processor seconds of other processes are counted in hundredths
TURNS = 3
_OURS, _SERVICES = b"ray::", b"Agent"  # the name of a worker begins with the first, and has not the second


def points(job: dict[str, Any]) -> Iterator[Point]:
    """Yield the costs of rounds on Ray, and of its start."""
    dataset, began = load(job["spec"]), time.monotonic()
    engine = ENGINES.build(f"ray(workers={job['workers']})")
    seconds = time.monotonic() - began
    for variant in job["variants"]:
        fields = {**job, **variant}
        run = prepare(bind(choices(job["spec"], fields)), dataset)
        case = on_workers(case_of(run, fields, remembered=0, tested=0), job["workers"])
        if variant == job["variants"][0]:
            yield Point("ray start", case, seconds)
        yield from rounds_of(run, engine, case)


def rounds_of(run: HorizontalRun, engine: Engine, case: Case) -> Iterator[Point]:
    with tempfile.TemporaryDirectory() as out:
        records = run.records(run.settled(engine, None), Path(out), None)
        for _ in range(2):  # the setting travels to the workers
            next(records)
        turns = [turn(records) for _ in range(TURNS)]
    for cost in turns[0]:
        yield Point(cost, case, min(each[cost] for each in turns))


def turn(records: Iterator[RoundRecord]) -> dict[str, float]:
    """Return processor seconds per round, by kind of process."""
    began, driver, workers, count = time.monotonic(), time.process_time(), of_workers(), 0
    while time.monotonic() - began < TURN:
        next(records)
        count += 1
    spent = {"ray driver": time.process_time() - driver, "ray workers": of_workers() - workers}
    return {name: seconds / count for name, seconds in spent.items()}


def of_workers() -> float:
    """Return the processor seconds of all workers so far."""
    ticks = 0
    for pid in marked(os.environ[MARK]):
        with suppress(OSError):
            command = (Path("/proc") / str(pid) / "cmdline").read_bytes()
            if command.startswith(_OURS) and _SERVICES not in command:
                fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:13]))
    return ticks / TICKS


def main() -> None:
    for point in points(json.loads(sys.argv[1])):
        print(json.dumps(point.as_json()), flush=True)


if __name__ == "__main__":
    main()
