"""Whether a stored run and its repetition agree, round by round. Nothing here needs torch.

In the same environment (versions, processor, engine) everything but measured time must be the same to the last bit. In
another one, rounding differs, and training makes small differences large within a few rounds. On 24 runs of the demo,
trained once by compiled code and once by PyTorch, which differ by rounding only, the largest differences were:

    round      1        2        3 and later
    accuracy   0.000    0.008    0.142
    loss       2e-6     3e-3     1 (relative)

`BANDS` allows about four times these in the first two rounds. Later rounds have a wide band, which finds only gross
edits: who needs more repeats the run in its environment. Counts (parties, steps, rows) do not depend on rounding, and
are compared exactly; sizes of messages may depend on it a little, where they hold only large numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from silobench.tasks.metrics import ACCURACY, Metric

_MEASURED = frozenset({"seconds", "time", "engine", "workers", "slowest"})  # keys that no repetition has again
_EXACT = ("round", "cohort", "replied", "steps", "rows", "knobs", "converged")
_SIZES = ("bytes_up", "bytes_down", "dense_up", "dense_down", "clock")
_OF_CONFIG = ("round", "bytes_up", "bytes_down", "dense_up", "dense_down", "privacy")  # even if noise is secret
_ALWAYS = ("round", "accuracy", "loss", "metrics", "cohort", "steps", "bytes_up", "bytes_down", "clock")  # in each row
_SIZE_BAND = 0.1  # relative
_SHOWN = 60  # letters of a value in a message


@dataclass(frozen=True)
class Band:
    """How far numbers of a round may be apart in another environment: shares by value, others by their ratio."""

    score: float
    loss: float

    def holds(self, stored: float | None, repeated: float | None, metric: Metric | None = None) -> bool:
        """Whether two values agree; without a metric they are losses. Values that are not finite must both be so."""
        if stored is None or repeated is None:
            return stored is repeated
        if metric is None:
            return math.isclose(stored, repeated, rel_tol=self.loss)
        if metric.is_share:
            return abs(stored - repeated) <= self.score
        return math.isclose(stored, repeated, rel_tol=self.score)


BANDS = (Band(0.005, 1e-3), Band(0.03, 0.02))  # of rounds 1 and 2
LATE = Band(0.25, math.inf)  # of all later rounds; losses are not compared


def band_of(number: int) -> Band:
    """Return the band of a round, counted from 1."""
    return BANDS[number - 1] if number <= len(BANDS) else LATE


def same_bits(stored: Mapping[str, Any], repeated: Mapping[str, Any]) -> str:
    """Return the first difference between two rows of rounds.jsonl but for measured time; empty if there is none.

    Keys that only the repetition has are those of a newer version, unless every version has them.
    """
    known = {key: value for key, value in repeated.items() if key in stored or key in _ALWAYS}
    return _difference(_without_time(stored), _without_time(known), "")


def within_band(stored: Mapping[str, Any], repeated: Mapping[str, Any], metric: Metric) -> str:
    """Return the first difference that another environment does not explain; empty if there is none."""
    for name in (name for name in _EXACT if name in stored or name in _ALWAYS):
        if stored.get(name) != repeated.get(name):
            return _words(name, stored.get(name), repeated.get(name))
    for name in (name for name in _SIZES if name in stored or name in _ALWAYS):
        one, other = stored.get(name), repeated.get(name)
        if one is None or other is None or not math.isclose(one, other, rel_tol=_SIZE_BAND):
            return _words(name, one, other)
    band = band_of(int(repeated["round"]))
    values = [_score(row, metric.name) for row in (stored, repeated)]
    if not band.holds(values[0], values[1], metric):
        return _words(metric.name, *values)
    if not band.holds(stored.get("loss"), repeated.get("loss")) and band.loss < math.inf:
        return _words("loss", stored.get("loss"), repeated.get("loss"))
    return ""


def of_configuration(stored: Mapping[str, Any], repeated: Mapping[str, Any]) -> str:
    """Return the first difference in what follows from the configuration alone, for runs whose noise is secret."""
    names = [name for name in _OF_CONFIG if name in stored or name in _ALWAYS]
    one, other = (_without_time({name: row.get(name) for name in names}) for row in (stored, repeated))
    return _difference(one, other, "")


def _score(row: Mapping[str, Any], name: str) -> float | None:
    value: float | None = row.get("metrics", {}).get(name)
    return row.get("accuracy") if value is None and name == ACCURACY.name else value


def _without_time(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_time(item) for key, item in value.items() if key not in _MEASURED}
    return [_without_time(item) for item in value] if isinstance(value, list | tuple) else value


def _difference(stored: Any, repeated: Any, name: str) -> str:
    if isinstance(stored, dict) and isinstance(repeated, dict):
        for key in dict.fromkeys((*stored, *repeated)):
            if text := _difference(stored.get(key), repeated.get(key), f"{name}.{key}" if name else str(key)):
                return text
        return ""
    return "" if stored == repeated else _words(name, stored, repeated)


def _words(name: str, stored: Any, repeated: Any) -> str:
    return f"{name} is {_short(stored)}, and {_short(repeated)} if the run is repeated"


def _short(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
