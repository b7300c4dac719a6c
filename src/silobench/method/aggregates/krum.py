"""Krum: the message that is closest to most others."""

from collections.abc import Iterable

import torch

from silobench.method.aggregates.by_entry import stacks
from silobench.method.types import AGGREGATES, Aggregate, Count, Update


@AGGREGATES.register
def krum(byzantine: Count = 1) -> Aggregate:
    """Take the message of one party: that with the smallest sum of squared distances to its closest others.

    Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, Blanchard et al., NeurIPS 2017. With n
    messages of which f = `byzantine` may be wrong, the sum is over the n - f - 2 closest others. It needs n ≥ 2f + 3.
    Equal sums are decided by the order of the parties. Distances are over all vectors of a message, so also over
    normalisation statistics and control variates. Departures from the paper: none for messages that are one gradient.
    """

    def combine(updates: Iterable[Update]) -> Update:
        each = list(updates)
        parts = [part.flatten(1).double() for _, part in stacks([update.vectors() for update in each])]
        vectors = torch.cat([torch.zeros(len(each), 0).double(), *parts], 1)  # also where nobody sent anything
        squares = torch.stack([(vectors - row).square().sum(1) for row in vectors])
        closest = squares.sort(1).values[:, 1 : len(each) - byzantine - 1]  # without the message itself
        sums = closest.sum(1).nan_to_num(torch.inf)  # a message that is not a number is far from all others
        return _as_sum(each[int(sums.argmin())], each)

    return Aggregate(combine, least=2 * byzantine + 3)


def _as_sum(chosen: Update, each: list[Update]) -> Update:
    """Return one message as the sum that all messages would have if they were equal to it."""
    weight = sum(update.weight for update in each)
    total = {name: part * weight for name, part in chosen.mean().items()}
    return Update(total, weight, {name: part * len(each) for name, part in chosen.sums.items()})
