"""Measure the plan of a large grid in a process of its own: `python -m loads.grid RUNS` prints one point as JSON."""

import json
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

from loads.commands import peak_of_this_process
from silobench.runs.experiment import plan_present
from silobench.runs.prepare import is_finished

RUNS = 100_000
CHOICES: dict[str, Any] = {
    "dataset": "digits", "model": "linear", "parties": 10, "rounds": 1,
    "partition": ["iid", *(f"label-dirichlet(beta={beta})" for beta in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))],
    "algorithm": ["fedavg", "scaffold", "fednova", "feddyn", *(f"fedprox(mu={mu})" for mu in (0.001, 0.01, 0.1, 1))],
    "solver": [f"sgd(lr={lr})" for lr in (0.1, 0.03, 0.01, 0.003, 0.001)],
}  # fmt: skip


def grid_of(runs: int) -> dict[str, Any]:
    """Return an experiment with this number of runs, a multiple of 400."""
    return {**CHOICES, "trials": runs // 400}


def measured(runs: int) -> dict[str, Any]:
    """Return what planning takes: processor seconds until the first plan, and the memory that it adds."""
    plan_present(grid_of(400))  # imports and datasets are not part of a plan
    before = peak_of_this_process()
    began = time.process_time()
    plans, _ = plan_present(grid_of(runs))
    missing = plans.of_ids(id for id in plans.ids if not is_finished(Path("nowhere") / id))
    first = next(iter(missing))
    seconds, added = time.process_time() - began, peak_of_this_process() - before
    began = time.process_time()
    names = sum(len(plan.name) for plan in missing)
    return {
        "runs": len(plans), "seconds": seconds, "added": added, "first": first.name, "names": names,
        "walk": time.process_time() - began, "held": _held(runs),
    }  # fmt: skip


def _held(runs: int) -> float:
    """Return the bytes per run that Python objects of a plan take, by a tenth of the grid."""
    tracemalloc.start()
    plans, _ = plan_present(grid_of(runs // 10))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / len(plans)


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]) if sys.argv[1:] else RUNS)))
