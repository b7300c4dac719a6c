"""The mean of each entry without its extremes."""

import math
from typing import Annotated

from annotated_types import Ge, Lt

from silobench.method.aggregates.by_entry import by_entry, refusal_of_zeros
from silobench.method.types import AGGREGATES, Aggregate, Vector


@AGGREGATES.register
def trimmed_mean(share: Annotated[float, Ge(0), Lt(0.5)] = 0.1) -> Aggregate:
    """Take the mean of every entry without the largest and the smallest `share` of its values over the parties.

    Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, Yin et al., ICML 2018. Every party counts
    the same. At each end ⌊share · n⌋ of n values are left out.
    """

    def trims(messages: int) -> int:
        return math.floor(share * messages + 1e-9)  # a share of 0.1 of 10 values is one, whatever the rounding

    def trimmed(values: Vector) -> Vector:
        count = trims(len(values))
        return values.sort(0).values[count : len(values) - count].mean(0)

    def advice(messages: int) -> str | None:
        if trims(messages):
            return None
        return (
            f"the aggregate trimmed-mean leaves out {share:g} of {messages} messages at each end, which is none: a "
            f"share of at least {1 / messages:.2g} leaves out one"
        )

    return Aggregate(lambda updates: by_entry(updates, trimmed), refuses=refusal_of_zeros, advice=advice)
