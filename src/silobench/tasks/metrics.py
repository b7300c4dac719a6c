"""`Metric`: a number by which models are scored, with its direction and its unit. Nothing here needs torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


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

    def number(self, value: float, std: float | None = None) -> str:
        """Return a stored value as it is shown, without its unit, and with its standard deviation if there is one.

        >>> ACCURACY.number(0.7125), ACCURACY.number(0.7125, 0.004)
        ('71.2', '71.2 ± 0.4')
        """
        shown = f"{self.factor * value:.{self.digits}f}"
        return shown if std is None else f"{shown} ± {self.factor * std:.{self.digits}f}"

    def text(self, value: float, std: float | None = None) -> str:
        """Return a stored value with its unit.

        >>> ACCURACY.text(0.7125), Metric("mae", "MAE", False, "years").text(8.312)
        ('71.2%', '8.31 years')
        """
        space = "" if self.unit in ("", "%") else " "
        return f"{self.number(value, std)}{space}{self.unit}"

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


ACCURACY = Metric("accuracy", "accuracy", higher_is_better=True, unit="%", factor=100.0, digits=1)
BALANCED_ACCURACY = Metric(
    "balanced_accuracy", "balanced accuracy", higher_is_better=True, unit="%", factor=100.0, digits=1
)
