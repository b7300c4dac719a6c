"""`Metric`: what a number of a score means, and how to show it. Readers of runs use it, so there is no torch here."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A metric of a task. Values are stored as they are computed, and shown times `factor` with `digits` decimals.

    >>> Metric("accuracy", "accuracy", True, "%", 100.0, 1).show(0.9312)
    '93.1 %'
    >>> Metric("mae", "MAE", False, "years").show(6.125)
    '6.12 years'
    """

    name: str  # as in rounds.jsonl and in specs
    title: str
    higher_is_better: bool = True
    unit: str = ""
    factor: float = 1.0
    digits: int = 2

    @property
    def is_share(self) -> bool:
        """Whether values are shares from 0 to 1, which are shown as percentages."""
        return self.unit == "%"

    def show(self, value: float | None) -> str:
        """Return a value as text, with its unit; a value that is undefined is a dash."""
        if value is None:
            return "-"
        return f"{value * self.factor:.{self.digits}f} {self.unit}".rstrip()

    def loss(self, before: float, after: float) -> float:
        """Return by how much a value became worse: above 0 if `after` is worse than `before`, in either direction."""
        return before - after if self.higher_is_better else after - before

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are written to run.json."""
        return dict(vars(self))


def _share(name: str, title: str) -> Metric:
    return Metric(name, title, True, "%", 100.0, 1)


ACCURACY = _share("accuracy", "accuracy")
BALANCED_ACCURACY = _share("balanced-accuracy", "balanced accuracy")
MACRO_F1 = _share("macro-f1", "macro-F1")
F1 = _share("f1", "F1")
AUC = _share("auc", "AUC")
AVERAGE_PRECISION = _share("average-precision", "average precision")
