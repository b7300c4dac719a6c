"""One process of one thread per core, over one model in shared memory.

For networks this small it is faster than one process with many threads, which wait for each other in every operation.
"""

import multiprocessing
import os
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from contenders.gate import Gate
from workloads import Material


class Worker(Protocol):
    def train(self, model: Tensor, cohort: list[int], total: int, out: Tensor) -> None:
        """Train these parties from the model; write the sum of their models, weighted by rows, to `out`."""

    def hits(self, model: Tensor) -> int:
        """Return how many of this worker's test rows the model classifies correctly."""


def run(material: Material, gate: Gate, initial: Tensor, make: Callable[[int, int], Worker]) -> None:
    """Run rounds without end; `make(rank, size)` returns the worker of a process."""
    size = len(os.sched_getaffinity(0))
    model = initial.clone().share_memory_()
    sums = torch.zeros(size, len(model)).share_memory_()
    right = torch.zeros(size, dtype=torch.long).share_memory_()
    processes = multiprocessing.get_context("fork")
    together = processes.Barrier(size).wait
    rows = [len(party) for party in material.parties]

    def work(rank: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(rank)
        worker = make(rank, size)
        for done, cohort in enumerate(material.cohorts(), 1):
            together()  # no process runs ahead of the gate
            worker.train(model, cohort[rank::size], sum(rows[party] for party in cohort), sums[rank])
            together()
            if rank == 0:
                torch.sum(sums, 0, out=model)
            together()
            evaluate = material.evaluates(done)
            if evaluate:
                right[rank] = worker.hits(model)
                together()
            if rank == 0:
                gate.lap(int(right.sum()) / len(material.test) if evaluate else None)

    for rank in range(1, size):
        processes.Process(target=work, args=(rank,), daemon=True).start()
    with torch.no_grad():
        work(0)


def share(rows: Tensor, rank: int, size: int) -> Tensor:
    """Return one worker's part of some rows."""
    return rows.tensor_split(size)[rank]
