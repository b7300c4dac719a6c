"""`Metric`: a number by which models are scored, with its direction and its unit. Nothing here needs torch."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

_LARGE = 1e15  # numbers from here on are written with a power of ten


@dataclass(frozen=True, slots=True)
class Metric:
    """A score of a model on test rows: its name, which direction is better, and how to show it.

    A value is stored as it is computed, such as a fraction, and shown times `factor` with `digits` decimals.
    `constant` is the score of the best constant answer on the test rows; None if it is unknown.
    """

    name: str
    title: str
    higher_is_better: bool
    unit: str = ""
    factor: float = 1.0
    digits: int = 2
    constant: float | None = None

    @property
    def is_share(self) -> bool:
        """Whether values are shares from 0 to 1, which are shown as percentages."""
        return self.unit == "%"

    @property
    def failure(self) -> float:
        """The value of a model without a finite score, such as one that has diverged: worse than any score."""
        return -math.inf if self.higher_is_better else math.inf

    @property
    def decimals(self) -> int:
        """The decimals of a stored value that are shown."""
        return self.digits + round(math.log10(self.factor))

    @property
    def unit_text(self) -> str:
        """The unit as a title states it."""
        return "percent" if self.is_share else self.unit

    @property
    def heading(self) -> str:
        """The title with the unit.

        >>> Metric("mae", "MAE", False, "years").heading, Metric("r2", "R2", True).heading
        ('MAE, years', 'R2')
        """
        return f"{self.title}, {self.unit_text}" if self.unit else self.title

    def gain(self, value: float, other: float) -> float:
        """Return by how much a value is better than another one."""
        return value - other if self.higher_is_better else other - value

    def best(self, values: Iterable[float]) -> float:
        return max(values) if self.higher_is_better else min(values)

    def worst(self, values: Iterable[float]) -> float:
        return min(values) if self.higher_is_better else max(values)

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as the target."""
        return value >= target if self.higher_is_better else value <= target

    def number(self, value: float, std: float | None = None) -> str:
        """Return a stored value as it is shown, without its unit, and with its standard deviation if there is one.

        >>> ACCURACY.number(0.7125), ACCURACY.number(0.7125, 0.004), ACCURACY.number(6.1e32)
        ('71.2', '71.2 ± 0.4', '6.10e+34')
        """
        if not math.isfinite(value):
            return "-"
        shown = self._rounded(value)
        return shown if std is None else f"{shown} ± {self._rounded(std)}"

    def _rounded(self, value: float) -> str:
        """Return a value with the digits of the metric; one of a model that has diverged, with a power of ten."""
        shown = self.factor * value
        return f"{shown:z.{self.digits}f}" if abs(shown) < _LARGE else f"{shown:.2e}"

    def text(self, value: float | None, std: float | None = None) -> str:
        """Return a stored value with its unit; a dash for a value that is undefined or not finite.

        >>> ACCURACY.text(0.7125), Metric("mae", "MAE", False, "years").text(8.312)
        ('71.2%', '8.31 years')
        """
        if value is None or not math.isfinite(value):
            return "-"
        return self.number(value, std) + (self.unit if self.is_share else f" {self.unit}".rstrip())

    def as_json(self) -> dict[str, Any]:
        """Return the metric as run.json stores it."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Metric":
        """Read a metric of run.json; keys that it does not know are ignored."""
        get = facts.get
        return cls(
            facts["name"],
            get("title", facts["name"]),
            facts["higher_is_better"],
            get("unit", ""),
            get("factor", 1.0),
            get("digits", 2),
            get("constant"),
        )


def _share(name: str, title: str) -> Metric:
    return Metric(name, title, higher_is_better=True, unit="%", factor=100.0, digits=1)


ACCURACY = _share("accuracy", "accuracy")
BALANCED_ACCURACY = _share("balanced-accuracy", "balanced accuracy")
MACRO_F1 = _share("macro-f1", "macro-F1")
F1 = _share("f1", "F1")
AUC = _share("auc", "AUC")
AVERAGE_PRECISION = _share("average-precision", "average precision")
