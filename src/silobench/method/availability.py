"""Availability: which parties of a cohort answer."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from annotated_types import Ge, Lt

from silobench.method.selection import Cohort, no_cohort
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form

Availability: TypeAlias = Callable[[Cohort, int, int], Cohort]  # (cohort, seed, round) -> the parties that answer


def _is_available(value: Any, arguments: Sequence[Any]) -> str | None:
    return no_cohort(value, arguments[0], "those parties of the cohort that answer")


AVAILABILITIES: Registry[Availability] = Registry(
    "availability",
    Contract(None, "a function (cohort, seed, round)", {"available": Form("cohort, seed, round", _is_available)}),
)


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
