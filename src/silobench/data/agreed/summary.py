"""`Summary`: counts and sums of the numeric features of a silo. Nothing else about cells leaves it before training.

Sums are rounded once (`math.fsum`), so they depend neither on the order of rows nor on the machine.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.agreed.columns import Columns
from silobench.data.encoder import Encoder
from silobench.data.table.scaling import Scale, nonzero_scale
from silobench.errors import DataError, listed

LEAST_ROWS = 10  # of a silo; sums over fewer would show single cells
_MOST_ROWS = 2**53  # larger counts are not exact as floats
_FIELDS = 3


@dataclass(frozen=True)
class Moments:
    """The number of known values, their sum, and the sum of squared differences from their mean.

    Squares about the mean have the information of plain squares, but lose no digits where the mean is large.
    """

    known: int = 0
    total: float = 0.0
    squares: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of the known values; 0 if there are none."""
        return self.total / self.known if self.known else 0.0

    @property
    def is_finite(self) -> bool:
        """Whether the sums are numbers: those of values such as 1e300 are not, because their squares overflow."""
        return math.isfinite(self.total) and math.isfinite(self.squares)

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Moments":
        """Return the moments of numbers, of which NaN is missing. Fewer than `LEAST_ROWS` numbers count as none."""
        known = values[~np.isnan(values)].astype(np.float64)
        if len(known) < LEAST_ROWS:
            return cls()
        total = math.fsum(known.tolist())
        with np.errstate(over="ignore"):
            squares = math.fsum(((known - total / len(known)) ** 2).tolist())
        return cls(len(known), total, squares)

    @classmethod
    def joined(cls, moments: Sequence["Moments"]) -> "Moments":
        """Return the moments of the values of several silos together."""
        whole = cls(sum(each.known for each in moments), math.fsum(each.total for each in moments))
        squares = [each.squares + each.known * math.pow(each.mean - whole.mean, 2) for each in moments if each.known]
        return replace(whole, squares=math.fsum(squares))


def moments_of(source: str, name: str, values: NDArray[Any]) -> Moments:
    """Return the moments of a column; refuse numbers whose sums are infinite. `source` is the name of the table."""
    try:
        moments = Moments.of(values)
    except OverflowError:
        moments = Moments(0, math.inf)
    if not moments.is_finite:
        raise DataError(f"{source} has numbers in column '{name}' that are too large to add up: correct them.")
    return moments


@dataclass(frozen=True)
class Summary:
    """Moments of the numeric features over training rows, and the number of these rows.

    `target` has those of a label that is a number, which every objective for numbers needs.
    """

    rows: int
    features: Mapping[str, Moments] = field(default_factory=dict)
    target: Moments | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the summary as JSON values; `from_json` returns an equal one."""
        features = {name: _numbers(moments) for name, moments in self.features.items()}
        return {"rows": self.rows, "features": features, "target": self.target and _numbers(self.target)}

    @classmethod
    def from_json(cls, facts: Any) -> "Summary":
        """Return the summary of `as_json`; refuse facts that have another form, as another organisation may send."""
        try:
            if set(facts) != {"rows", "features", "target"} or not _is_count(facts["rows"]) or not facts["rows"]:
                raise ValueError("other keys, or no number of rows")
            features = {str(name): _moments(values) for name, values in facts["features"].items()}
            return cls(facts["rows"], features, None if facts["target"] is None else _moments(facts["target"]))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"the summary of a silo cannot be read ({error}): make it by `summary_of`.") from error

    @property
    def rounded(self) -> "Summary":
        """The summary with its number of rows rounded down to a power of two, where the sums do not need it."""
        return self if self.features else Summary(_power_of_two(self.rows), {}, self.target)


def joined(summaries: Sequence[Summary]) -> Summary:
    """Return the summary of all silos; the bits depend on nothing but the summaries, which are in the silos' order."""
    if not summaries:
        raise DataError("there are no summaries to join: at least one silo is needed.")
    names = list(summaries[0].features)
    if any(set(each.features) != set(names) for each in summaries):
        raise DataError("the silos sent sums of different features: all of them need the same columns.toml.")
    targets = [each.target for each in summaries if each.target is not None]
    if len(targets) not in (0, len(summaries)):
        raise DataError("only some silos sent sums of the label: all of them need the same columns.toml.")
    features = {name: _joined(f"'{name}'", [each.features[name] for each in summaries]) for name in names}
    target = _joined("the label", targets) if targets else None
    return Summary(sum(each.rows for each in summaries), features, target)


def _joined(what: str, moments: Sequence[Moments]) -> Moments:
    try:
        whole = Moments.joined(moments)
    except OverflowError:
        whole = Moments(0, math.inf)
    if not whole.is_finite:
        raise DataError(f"the silos' sums of {what} are too large to add up: correct the silo that has them.")
    return whole


def agreed_encoder(columns: Columns, summary: Summary) -> Encoder:
    """Return how raw columns of every silo become features, by the joint summary of all silos."""
    expected = columns.summed_features
    if set(summary.features) != set(expected):
        given = listed(list(summary.features), 3) or "no features"
        raise DataError(
            f"the joint summary has sums of {given}, but the agreement needs those of {listed(expected, 3) or 'none'}: "
            "all silos need the same columns.toml."
        )
    if columns.scale == "stated":
        return Encoder(columns.parts, columns.scales)
    scales = {name: _scale(columns, summary.features[name], summary.rows) for name in expected}
    return Encoder(columns.parts, scales)


def _scale(columns: Columns, moments: Moments, rows: int) -> Scale:
    """Return a scale as `csv` does: a missing cell is the mean, and it counts as a row of the deviation."""
    mean = moments.mean
    if columns.scale == "none" or not moments.known:
        return Scale(mean)
    deviation = math.sqrt(moments.squares / rows)
    return Scale(mean, mean, float(nonzero_scale(np.float64(mean), np.float64(deviation))))


def _numbers(moments: Moments) -> list[float]:
    return [moments.known, moments.total, moments.squares]


def _moments(values: Any) -> Moments:
    if not isinstance(values, list) or len(values) != _FIELDS or not all(type(v) in (int, float) for v in values):
        raise ValueError("three numbers per feature are needed")
    known, total, squares = values
    if not _is_count(known) or squares < 0 or not (math.isfinite(total) and math.isfinite(squares)):
        raise ValueError("a count, a sum and a sum of squares are needed")
    return Moments(known, float(total), float(squares))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_ROWS


def _power_of_two(count: int) -> int:
    return 1 << count.bit_length() - 1
