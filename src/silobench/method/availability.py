"""Availability: which parties of a cohort answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from annotated_types import Ge, Lt

from silobench.method.selection import Cohort, no_cohort
from silobench.rng import stream
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form

Availability: TypeAlias = Callable[[Cohort, int, int], Cohort]  # (cohort, seed, round) -> the parties that answer
LossPhase: TypeAlias = Literal["keys", "shares", "replies", "unmasking", "any"]
PHASES = ("keys", "shares", "replies", "unmasking")  # of a round with a secure sum, in order


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


@AVAILABILITIES.register(added_later=("phase",))
def dropout(rate: Annotated[float, Ge(0), Lt(1)] = 0.1, phase: LossPhase = "replies") -> Availability:
    """Each party of a cohort fails to answer with probability `rate`, independently in every round.

    Such a party was sent the model, but does not train, and its memory stays as it was. Under a secure sum it may be
    lost earlier or later: before it sends its `keys`, before it sends `shares` of them, before it sends its message
    (`replies`), or after that, when the server asks for shares (`unmasking`); `any` draws one of these for each party.
    Without a secure sum a party that is lost after its message has answered.
    """
    return _Dropout(rate, phase)


@dataclass(frozen=True)
class _Dropout:
    rate: float
    phase: LossPhase

    def __call__(self, cohort: Cohort, seed: int, round: int) -> Cohort:
        return self.present(cohort, seed, round, "replies")

    def present(self, cohort: Cohort, seed: int, round: int, phase: str) -> Cohort:
        """Return the parties that are not lost in this phase or an earlier one."""
        place = PHASES.index(phase)
        return tuple(party for party in cohort if self._lost(seed, round, party) > place)

    def _lost(self, seed: int, round: int, party: int) -> int:
        """Return the place of the phase in which a party is lost; beyond the last phase if it is not."""
        draw = stream(seed, "dropout", round, party)
        if draw.random() >= self.rate:
            return len(PHASES)
        return int(draw.integers(len(PHASES))) if self.phase == "any" else PHASES.index(self.phase)


def present(availability: Availability, cohort: Cohort, seed: int, round: int, phase: str) -> Cohort:
    """Return the parties that are there in a phase of a round; without more knowledge all are until they answer."""
    if isinstance(availability, _Dropout):
        return availability.present(cohort, seed, round, phase)
    return cohort if phase in PHASES[:2] else availability(cohort, seed, round)
