"""Measure the engine ray against the engine pool, both in the mode inline and with the same number of workers.

    python benchmarks/ray_engine.py                          # W1, five rounds each: some minutes
    python benchmarks/ray_engine.py --workload W3 --rounds 50 --workers 2

Both take turns in one process, round by round, so that the ratio is fair on a busy machine. Processor time is that of
all processes, of Ray's services too; other programs change it less than seconds. The first round of each, which sends
the dataset, is not counted, and neither is the start of the workers; both are stated.
"""

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import silobench as sb
from prepare import dense_file, sparse_file
from silobench.engines import ENGINES, Engine
from silobench.errors import SilobenchError
from silobench.loop.rounds import rounds
from silobench.processes import cores
from workloads import LR, MOMENTUM, SEED, WORKLOADS, Workload


def dataset_of(workload: Workload, folder: Path) -> sb.Dataset:
    """Return the dataset of a workload, or random rows of its shape."""
    if workload.dataset == "sparse":
        return sb.load(sparse_file(folder))
    try:
        return sb.load(workload.dataset)
    except SilobenchError:
        print(f"{workload.dataset} is not stored here: random rows of its shape replace it")
        return sb.load(dense_file(workload.dataset, folder))


@dataclass(frozen=True)
class Cost:
    """What a round took: seconds, and seconds of all processors."""

    wall: float
    cpu: float


def timed(workload: Workload, dataset: sb.Dataset, engine: Engine, count: int) -> Iterator[Cost]:
    """Run FedAvg; yield the cost of each round."""
    federation = sb.federate(dataset, "iid", workload.parties, SEED)
    method = sb.Method(sb.fedavg(), sb.sgd(LR, MOMENTUM, epochs=workload.epochs, batch=workload.batch))
    task, share = sb.task(workload.model, dataset, SEED), workload.cohort / workload.parties
    records = rounds(method, federation, task, rounds=count, engine=engine, participation=share)
    while True:
        began, cpu = time.perf_counter(), processor_seconds(os.getpid())
        if next(records, None) is None:
            return
        yield Cost(time.perf_counter() - began, processor_seconds(os.getpid()) - cpu)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    ticks = sum(map(int, fields[11:15]))  # its own, and that of children that have ended
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_seconds(int(child)) for child in children)


def started(build: str) -> tuple[Engine, float]:
    """Return an engine with its workers running, and the seconds that it took."""
    began = time.perf_counter()
    engine = ENGINES.build(build)
    engine.place(engine.workers).start()
    return engine, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="W1")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds of each engine")
    parser.add_argument("--workers", type=int, default=cores())
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    with TemporaryDirectory() as folder:
        dataset = dataset_of(workload, Path(folder))
        engines = {name: started(f"{name}(workers={options.workers})") for name in ("pool", "ray")}
        runs = {name: timed(workload, dataset, engine, options.rounds + 1) for name, (engine, _) in engines.items()}
        seconds = list(zip(*(runs[name] for name in ("pool", "ray")), strict=True))
    print(f"{workload.title}, mode inline, {options.workers} workers")
    for place, name in enumerate(("pool", "ray")):
        first, *others = (pair[place] for pair in seconds)
        wall, cpu = (statistics.median(getattr(cost, field) for cost in others) for field in ("wall", "cpu"))
        print(
            f"{name:5} start {engines[name][1]:6.2f} s, first round {first.wall:6.2f} s, then {wall:7.3f} s per round "
            f"({cpu:.3f} s of the processor)"
        )
    for field, title in (("wall", "seconds"), ("cpu", "processor time")):
        ratios = sorted(getattr(ray, field) / max(getattr(pool, field), 1e-9) for pool, ray in seconds[1:])
        print(f"ray / pool, {title}: median {statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
