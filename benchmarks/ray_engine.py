"""Measure the engine ray against the engine pool, both in the mode inline and with the same number of workers.

    python benchmarks/ray_engine.py                          # W1, five rounds each: some minutes
    python benchmarks/ray_engine.py --workload W3 --rounds 50 --workers 2

Both take turns in one process, round by round, so that the ratio is fair on a busy machine. The first round of each,
which sends the dataset, is not counted, and neither is the start of the workers; both are stated.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
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


def timed(workload: Workload, dataset: sb.Dataset, engine: Engine, count: int) -> Iterator[float]:
    """Run FedAvg; yield the seconds of each round."""
    federation = sb.federate(dataset, "iid", workload.parties, SEED)
    method = sb.Method(sb.fedavg(), sb.sgd(LR, MOMENTUM, epochs=workload.epochs, batch=workload.batch))
    task, share = sb.task(workload.model, dataset, SEED), workload.cohort / workload.parties
    records = rounds(method, federation, task, rounds=count, engine=engine, participation=share)
    while True:
        began = time.perf_counter()
        if next(records, None) is None:
            return
        yield time.perf_counter() - began


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
        times = [pair[place] for pair in seconds]
        print(
            f"{name:5} start {engines[name][1]:6.2f} s, first round {times[0]:6.2f} s, "
            f"then {statistics.median(times[1:]):7.3f} s per round"
        )
    ratios = sorted(ray / pool for pool, ray in seconds[1:])
    print(f"ray / pool: median {statistics.median(ratios):.2f}, from {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
