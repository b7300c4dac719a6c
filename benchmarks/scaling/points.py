"""Measure in a process of its own: `python -m scaling.points whole|rounds JSON` prints one point per line.

`whole` runs one experiment from its start to its end: seconds before and after the rounds, memory and files.
`rounds` measures rounds of many methods on one federation. Seconds are those of the processor, because the clock of a
shared machine also counts the work of others.
"""

import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaling.material import CLASSES, FEATURES
from scaling.model import Case, Point
from silobench.data import load
from silobench.data.dataset import Dataset
from silobench.engines.cluster.parcels import parcelled, unparcelled
from silobench.engines.engine import ENGINES
from silobench.runs.checkpoint import pack
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.horizontal import HorizontalRun, prepare
from silobench.training.state import RoundRecord, State

TURN = 0.15  # processor seconds of a turn, at least
TURNS = 5  # the fastest counts
ONE_CORE = {"native": "native(workers=1)", "inline": "inline"}  # processor seconds are then those of one core
NEVER = 10**9  # rounds, or between tests


def choices(spec: str, job: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of an experiment."""
    return {
        "dataset": spec,
        "partition": "iid",
        "parties": job["parties"],
        "participation": job["cohort"],
        "selection": job.get("selection", "uniform"),
        "model": job["model"],
        "algorithm": job["algorithm"],
        "solver": f"sgd(lr=0.01, momentum=0, epochs=1, batch={job['batch']})",
        "rounds": job.get("rounds", NEVER),
        "eval_every": job.get("eval_every", NEVER),
        "seed": 0,
    }


def case_of(run: HorizontalRun, job: dict[str, Any], remembered: int, tested: int) -> Case:
    has_memory = job["algorithm"] == "scaffold"
    return Case(
        parties=job["parties"],
        cohort=job["cohort"],
        rows=job["rows"],
        parameters=run.setting.task.network.layout.size,
        features=FEATURES,
        classes=CLASSES,
        batch=job["batch"],
        tested=tested,
        vectors=2 if has_memory else 1,
        remembered=remembered,
    )


# --- a whole run ---------------------------------------------------------------------------------------


def whole(spec: str, job: dict[str, Any]) -> Iterator[Point]:
    """Yield what a run costs besides its rounds. It has at least four: the third is an ordinary one."""
    laps, memory = [time.process_time()], 0
    run = prepare(bind(choices(spec, job)))
    laps.append(time.process_time())
    with tempfile.TemporaryDirectory() as out:
        for record in execute(run, Path(out), ONE_CORE["native"]):
            laps.append(time.process_time())
            if record.round == job["rounds"] - 1:
                memory = resident()
        laps.append(time.process_time())
        files = {path.name: path for path in Path(out).rglob("*") if path.is_file()}
        lines = files["rounds.jsonl"].read_bytes().splitlines(keepends=True)
        sizes = {"run.json": files["run.json"].stat().st_size, "line": len(lines[1]), "last line": len(lines[-1])}
        sizes["checkpoint"] = files["state.safetensors"].stat().st_size
    case = case_of(run, job, len(record.state.memory), len(run.dataset.test))
    lengths = [later - earlier for earlier, later in itertools.pairwise(laps)]
    ordinary = min(lengths[2:-2])
    seconds = {"prepare": lengths[0]}
    if not case.remembered:  # else the first and the last round also write checkpoints of many memories
        seconds |= {"open": lengths[1] - ordinary, "end": lengths[-2] - ordinary + lengths[-1]}
    peak = max(memory, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)  # the kernel counts both in batches
    for cost, value in {**seconds, "resident": memory, "peak": peak, **sizes, **shipped(run)}.items():
        yield Point(cost, case, value)


def shipped(run: HorizontalRun) -> dict[str, float]:
    """Return the bytes of a setting as it is sent to another machine, and the seconds in which a worker unpacks it."""
    parcel, turns = parcelled(run.setting), []
    for _ in range(TURNS):
        began = time.process_time()
        unparcelled(parcel)
        turns.append(time.process_time() - began)
    return {"setting": sum(array.nbytes for array in parcel), "unpack": min(turns)}


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


# --- rounds --------------------------------------------------------------------------------------------


def rounds(spec: str, job: dict[str, Any]) -> Iterator[Point]:
    """Yield the seconds of a round of every variant, on one dataset."""
    dataset = load(spec)
    for variant in job["variants"]:
        yield from rounds_of(spec, dataset, {**job, **variant})


def rounds_of(spec: str, dataset: Dataset, job: dict[str, Any]) -> Iterator[Point]:
    run = prepare(bind(choices(spec, job)), dataset)
    tested = len(dataset.test) if job.get("eval_every") == 1 else 0
    engine = run.settled(ENGINES.build(ONE_CORE[job["engine"]]), None)
    with tempfile.TemporaryDirectory() as out:
        state = with_all_memories(next(run.records(engine, Path(out), None)).state, job["parties"])
        case = case_of(run, job, len(state.memory), tested)
        yield Point(f"{job['engine']} round", case, fastest(run.records(engine, Path(out), state)))
    if state.memory and job["engine"] == "native":
        yield Point("commit", case, seconds_of_commit(state))


def with_all_memories(state: State, parties: int) -> State:
    """Return the state with a memory of every party, as after many rounds; the same if the method has none."""
    if not state.memory:
        return state
    owners = next(iter(state.memory.values()))
    memory = {
        party: {owner: {name: value.clone() for name, value in each.items()} for owner, each in owners.items()}
        for party in range(parties)
    }
    return State(state.server, memory, state.clock, state.spent)


def fastest(records: Iterator[RoundRecord]) -> float:
    """Return the processor seconds of a round, with its line as text, in the fastest of several turns."""
    next(records)  # it fills caches
    turns = []
    for _ in range(TURNS):
        began, count, spent = time.process_time(), 0, 0.0
        while spent < TURN:
            json.dumps(next(records).as_json())
            count += 1
            spent = time.process_time() - began
        turns.append(spent / count)
    return min(turns)


def seconds_of_commit(state: State) -> float:
    """Return the processor seconds of packing a checkpoint; the disk is not in it."""
    turns = []
    for _ in range(TURNS):
        began = time.process_time()
        pack(state, {})
        turns.append(time.process_time() - began)
    return min(turns)


def main() -> None:
    kind, job = sys.argv[1], json.loads(sys.argv[2])
    for point in {"whole": whole, "rounds": rounds}[kind](job["spec"], job):
        print(json.dumps(point.as_json()), flush=True)


if __name__ == "__main__":
    main()
