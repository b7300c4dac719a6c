"""Availability: which parties of a cohort answer."""

from collections.abc import Callable
from typing import Annotated, TypeAlias

from annotated_types import Ge, Lt

from silobench.method.selection import Cohort
from silobench.rng import stream
from silobench.spec import Registry

Availability: TypeAlias = Callable[[Cohort, int, int], Cohort]  # (cohort, seed, round) -> the parties that answer

AVAILABILITIES: Registry[Availability] = Registry("availability")


@AVAILABILITIES.register
def always() -> Availability:
    """Every party answers."""
    return _all


def _all(cohort: Cohort, seed: int, round: int) -> Cohort:
    return cohort


@AVAILABILITIES.register
def dropout(rate: Annotated[float, Ge(0), Lt(1)] = 0.1) -> Availability:
    """Each party of a cohort fails to answer with probability `rate`, independently in every round.

    Such a party was sent the model, but does not train, and its memory stays as it was.
    """

    def available(cohort: Cohort, seed: int, round: int) -> Cohort:
        return tuple(party for party in cohort if stream(seed, "dropout", round, party).random() >= rate)

    return available
