"""Jobs that several tests of workers share.

Functions for workers are defined inside functions: they are then sent by value, and no worker has to import the tests.
"""

from collections.abc import Callable
from typing import Any

from silobench.engines.workers import Job, Workers


def jobs(function: Callable[..., Any], *arguments: Any) -> list[Job]:
    return [Job(function, (), (argument,)) for argument in arguments]


def squares(workers: Workers) -> bool:
    """Whether workers still return the right results."""
    return list(workers.results(jobs(lambda x: x * x, *range(6)))) == [0, 1, 4, 9, 16, 25]
