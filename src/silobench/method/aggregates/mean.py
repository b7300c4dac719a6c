"""The mean by weight."""

from collections.abc import Iterable
from functools import reduce
from operator import add

from silobench.method.types import AGGREGATES, Aggregate, Update


@AGGREGATES.register
def mean() -> Aggregate:
    """Take the mean of the messages by weight: add them, in their order, and let the algorithm divide the sum.

    It is the only aggregate that needs nothing but the sum, so engines may add messages while they train.
    """
    return MEAN


def _total(updates: Iterable[Update]) -> Update:
    return reduce(add, updates)


MEAN = Aggregate(_total, adds=True)
