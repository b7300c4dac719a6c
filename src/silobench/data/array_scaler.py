"""`ArrayScaler`: the scaling of a user's arrays, as learnt from the training rows. A run stores it as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.data.table.scaling import nonzero_scale
from silobench.errors import DataError

_KIND = "array"


@dataclass(frozen=True, eq=False)
class ArrayScaler:
    """Mean and deviation of each number of a row, by which rows are standardised."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]  # never 0: constant numbers become 0

    @classmethod
    def of(cls, x: NDArray[Any]) -> "ArrayScaler":
        """Return the scaler of training rows."""
        with np.errstate(invalid="ignore"):  # infinite values give NaN, which `Dataset` refuses
            mean, deviation = x.mean(0, dtype=np.float64), x.std(0, dtype=np.float64)
        return cls(mean, nonzero_scale(mean, deviation))

    def scaled(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return rows as the network gets them."""
        with np.errstate(invalid="ignore", over="ignore"):
            return ((x - self.mean) / self.scale).astype(np.float32)

    @staticmethod
    def is_stored_in(facts: Mapping[str, Any]) -> bool:
        """Whether the JSON of an encoder is that of a scaler."""
        return facts.get("kind") == _KIND

    def as_json(self) -> dict[str, Any]:
        """Return the scaler as JSON values; `from_json` returns one that scales to the same bits."""
        return {"version": 1, "kind": _KIND, "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "ArrayScaler":
        """Return the scaler of `as_json`; refuse facts that have another form."""
        try:
            if facts["version"] != 1:
                raise ValueError(f"version {facts['version']}")
            return cls(np.array(facts["mean"], np.float64), np.array(facts["scale"], np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"the stored scaling cannot be read ({type(error).__name__}: {error}): use the file that the run wrote."
            ) from error
