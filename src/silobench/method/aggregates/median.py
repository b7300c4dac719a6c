"""The median of each entry."""

from silobench.method.aggregates.by_entry import by_entry, refusal_of_zeros
from silobench.method.types import AGGREGATES, Aggregate, Vector


@AGGREGATES.register
def median() -> Aggregate:
    """Take the median of every entry over the parties, so that fewer than half of them cannot move it at will.

    Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, Yin et al., ICML 2018. Every party counts
    the same. The median of an even number of values is the mean of the two in the middle.
    """
    return Aggregate(lambda updates: by_entry(updates, _median), refuses=refusal_of_zeros)


def _median(values: Vector) -> Vector:
    """Return the median over the first axis."""
    ordered, count = values.sort(0).values, len(values)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
