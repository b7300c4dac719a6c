"""Jobs in batches: a task of a cluster costs a millisecond or two, and training a small party takes less."""

from collections.abc import Sequence
from dataclasses import dataclass

from silobench.engines.executor import Job

_ENOUGH = 2e7  # cost of a batch, parameters times rows: about ten milliseconds
_MOST = 16  # jobs in a batch: each takes a millisecond, however small, and all of their results are sent at once
_BLOCK = 8  # batches per slot, among which the most expensive start first


@dataclass(frozen=True)
class Batch:
    """Jobs for one task, by their numbers; all have the same shared values."""

    jobs: tuple[int, ...]
    cost: float


def batches(jobs: Sequence[Job], workers: int) -> list[Batch]:
    """Return consecutive jobs in batches of enough work, at least one batch per worker if there are as many jobs.

    >>> [batch.jobs for batch in batches([Job(int, (), (), cost) for cost in (1, 1, 1, 1, 5, 1)], workers=2)]
    [(0, 1, 2, 3), (4,), (5,)]
    """
    enough = min(_ENOUGH, sum(job.cost for job in jobs) / workers)
    groups: list[Batch] = []
    for number, job in enumerate(jobs):
        last = groups[-1] if groups else None
        if (
            last
            and last.cost + job.cost <= enough
            and len(last.jobs) < _MOST
            and _share_values(jobs[last.jobs[0]], job)
        ):
            groups[-1] = Batch((*last.jobs, number), last.cost + job.cost)
        else:
            groups.append(Batch((number,), job.cost))
    return groups


def _share_values(first: Job, second: Job) -> bool:
    return [id(value) for value in first.shared] == [id(value) for value in second.shared]


def in_order_of_start(groups: Sequence[Batch], workers: int) -> tuple[list[int], int]:
    """Return the order in which batches start, and how far ahead of the next result they may.

    Within a block the most expensive start first, so that no long one is left for the end. Blocks follow one another,
    so that only two blocks of results ever wait for their turn.
    """
    block = _BLOCK * workers
    order = [
        number
        for begin in range(0, len(groups), block)
        for number in sorted(range(begin, min(begin + block, len(groups))), key=lambda number: -groups[number].cost)
    ]
    return order, 2 * block
