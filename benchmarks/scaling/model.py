"""The cost model: a cost is a sum of terms, each an amount that follows from the case times a price that is fitted.

Prices are never negative. They are fitted by least squares on relative errors, so that ten parties and ten thousand
count alike. `terms.py` has the terms of every cost.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Case:
    """A run, as far as its costs depend on it."""

    parties: int
    cohort: int  # parties per round
    rows: int  # of each party
    parameters: int
    features: int = 32  # numbers of a row
    classes: int = 10
    batch: int = 10
    tested: int = 0  # test rows: of each round, or of the last test where a whole run is meant
    vectors: int = 1  # of a message, as long as the model: 2 for SCAFFOLD
    remembered: int = 0  # parties with a memory: those that took part, with SCAFFOLD
    workers: int = 1  # of Ray
    tasks: int = 0  # of a round on Ray

    @property
    def steps(self) -> int:
        """Minibatches of one party in a round, with one local epoch."""
        return -(-self.rows // self.batch)

    @property
    def bytes_up(self) -> int:
        """Bytes of all replies of a round: four for each number."""
        return self.cohort * self.vectors * self.parameters * 4

    @property
    def bytes_down(self) -> int:
        """Bytes of a round's broadcast to all parties of the cohort."""
        return self.bytes_up

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Case":
        return cls(**fields)

    def as_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True)
class Term:
    """One term of a cost."""

    name: str
    per: str  # what one unit of its amount is
    amount: Callable[[Case], float]
    assumption: str = ""


@dataclass(frozen=True)
class Point:
    """One measurement."""

    cost: str  # a name in `terms.COSTS`
    case: Case
    value: float  # in the unit of the cost

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Point":
        return cls(fields["cost"], Case.from_json(fields["case"]), fields["value"])

    def as_json(self) -> dict[str, Any]:
        return {"cost": self.cost, "case": self.case.as_json(), "value": self.value}


@dataclass(frozen=True)
class Fit:
    """Terms with their prices."""

    terms: tuple[Term, ...]
    prices: tuple[float, ...]

    def parts(self, case: Case) -> dict[str, float]:
        """Return the cost of each term."""
        return {term.name: term.amount(case) * price for term, price in zip(self.terms, self.prices, strict=True)}

    def cost(self, case: Case) -> float:
        return sum(self.parts(case).values())

    def errors(self, points: Sequence[Point]) -> list[float]:
        """Return prediction / measurement - 1 of every point."""
        return [self.cost(point.case) / point.value - 1 for point in points]


def fit(terms: Sequence[Term], points: Sequence[Point]) -> Fit:
    """Return the prices with the least squares of relative errors.

    Columns are scaled to a largest entry of 1 before they are fitted: amounts differ by ten orders of magnitude.
    """
    if len(points) < len(terms):
        raise ValueError(f"{len(points)} measurements cannot determine {len(terms)} prices: measure more cases.")
    amounts = np.array([[term.amount(point.case) / point.value for term in terms] for point in points])
    scale = amounts.max(0)
    scale[scale == 0] = 1.0
    prices, _ = nnls(amounts / scale, np.ones(len(points)))
    return Fit(tuple(terms), tuple((prices / scale).tolist()))


def held_out(terms: Sequence[Term], points: Sequence[Point], most: int) -> tuple[Fit, list[Point]]:
    """Fit only points with at most this many parties; return the fit and the other points."""
    inside = [point for point in points if point.case.parties <= most]
    return fit(terms, inside), [point for point in points if point.case.parties > most]


@dataclass(frozen=True)
class Spread:
    """How far predictions are from measurements, as shares of these."""

    count: int
    median: float
    largest: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> "Spread":
        sizes = [abs(error) for error in errors]
        return cls(len(sizes), statistics.median(sizes), max(sizes))
