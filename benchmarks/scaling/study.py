"""Measurements of one machine, and the fits to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from scaling.model import Case, Fit, Point, Spread, fit, held_out
from scaling.terms import COSTS

FITTED = 10_000  # parties: points with more are compared with predictions, never fitted
INSIDE = 1_000  # parties of the fit whose predictions for more are compared with measurements


@dataclass(frozen=True)
class Study:
    """Measurements of one machine."""

    machine: Mapping[str, Any]
    points: tuple[Point, ...]

    def of(self, cost: str) -> list[Point]:
        """Return the points of a cost that are fitted."""
        return [point for point in self.points if point.cost == cost and point.case.parties <= FITTED]

    @cached_property
    def beyond(self) -> list[Point]:
        """The points with more parties than those of the fit."""
        return [point for point in self.points if point.case.parties > FITTED]

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """The fit of every cost that was measured."""
        return {name: fit(cost.terms, self.of(name)) for name, cost in COSTS.items() if self.of(name)}

    def cost(self, name: str, case: Case) -> float:
        """Return the predicted cost of a case, in seconds or bytes."""
        return self.fits[name].cost(case)

    def spread(self, name: str) -> Spread:
        """Return how far the fit is from the points that it was fitted to."""
        return Spread.of(self.fits[name].errors(self.of(name)))

    def extrapolation(self, name: str) -> Spread | None:
        """Return how far a fit of few parties is from the points with more; None where there are too few to fit."""
        try:
            inside, others = held_out(COSTS[name].terms, self.of(name), INSIDE)
        except ValueError:
            return None
        return Spread.of(inside.errors(others)) if others else None
