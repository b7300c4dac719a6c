"""Whether a stored run and its repetition agree, round by round. Nothing here needs torch.

In the same environment (versions, processor, engine) everything but measured time must be the same to the last bit. In
another one, rounding differs, and training makes small differences large within a few rounds. On 79 runs on digits,
trained once by compiled code and once by PyTorch, which differ by rounding only, the largest differences were:

    round      1        2        3 and later
    accuracy   0.000    0.011    0.284
    loss       5e-6     0.17     1 (relative)

`BANDS` and `LATE` are above these; late rounds find only gross edits in one run. Chance has no direction, so over
several runs the mean difference must shrink: see `shift_limit`. The last scores of those runs differ by 0.056 (root of
the mean square), and by 0.095 in the settings where it is largest. With five times 0.056, chance passes the limit in 1
of 1000 draws of two to twelve of those runs, and in 3 of 1000 draws from the settings of two classes by party. Who
needs more repeats the run in its environment.

What does not depend on rounding is compared exactly: parties, steps, rows, privacy, and sizes of messages, unless they
are compressed and hold only large numbers. The final test must agree with the last score of its own record.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from silobench.tasks.metrics import ACCURACY, Metric

_MEASURED = frozenset({"seconds", "time", "engine", "workers", "slowest"})  # keys that no repetition has again
_EXACT = ("round", "cohort", "replied", "steps", "rows", "knobs", "converged")
_SIZES = {"bytes_up": "dense_up", "bytes_down": "dense_down", "dense_up": "bytes_up", "dense_down": "bytes_down"}
_OF_CONFIG = ("round", "bytes_up", "bytes_down", "dense_up", "dense_down", "privacy")  # even if noise is secret
_ALWAYS = ("round", "accuracy", "loss", "metrics", "cohort", "steps", "bytes_up", "bytes_down", "clock")  # in each row
_SIZE_BAND = 0.1  # relative, of compressed messages and the clock
_ACCOUNTED = 1e-6  # relative, of epsilon: accountants sum in other orders with other versions
_FINAL_BAND = 0.005  # between the final test and the last score: engines may round a tie of two classes differently
_SHIFT = 0.28  # five standard deviations of the last score of a run
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


BANDS = (Band(0.005, 1e-3), Band(0.03, 0.5))  # of rounds 1 and 2
LATE = Band(0.35, math.inf)  # of all later rounds; losses are not compared


def band_of(number: int) -> Band:
    """Return the band of a round, counted from 1."""
    return BANDS[number - 1] if number <= len(BANDS) else LATE


def same_bits(stored: Mapping[str, Any], repeated: Mapping[str, Any]) -> str:
    """Return the first difference between two rows of rounds.jsonl but for measured time; empty if there is none.

    Keys that only the repetition has are those of a newer version, unless every version has them.
    """
    known = {key: value for key, value in repeated.items() if key in stored or key in _ALWAYS}
    return _difference(_without_time(stored), _without_time(known), "")


def shift_limit(runs: int) -> float:
    """Return how far the mean of the last scores of runs may be from that of their repetitions: it shrinks with them.

    >>> shift_limit(1), shift_limit(4)  # of one run, it is the band of a late round
    (0.35, 0.14)
    """
    return LATE.score if runs == 1 else _SHIFT / math.sqrt(runs)


def shift(stored: Mapping[str, Any], repeated: Mapping[str, Any], metric: Metric) -> float | None:
    """Return by how much a stored score is above the repeated one, relative if it is no share; None without both."""
    one, other = _score(stored, metric.name), _score(repeated, metric.name)
    if one is None or other is None:
        return None
    return (one - other) / (1.0 if metric.is_share else max(abs(one), abs(other), 1e-12))


def within_band(stored: Mapping[str, Any], repeated: Mapping[str, Any], metric: Metric) -> str:
    """Return the first difference that another environment does not explain; empty if there is none."""
    for name in (name for name in _EXACT if name in stored or name in _ALWAYS):
        if stored.get(name) != repeated.get(name):
            return _words(name, stored.get(name), repeated.get(name))
    if problem := _size_problem(stored, repeated) or of_configuration(stored, repeated, metric, ("privacy",)):
        return problem
    band = band_of(int(repeated["round"]))
    values = [_score(row, metric.name) for row in (stored, repeated)]
    if not band.holds(values[0], values[1], metric):
        return _words(metric.name, *values)
    if not band.holds(stored.get("loss"), repeated.get("loss")) and band.loss < math.inf:
        return _words("loss", stored.get("loss"), repeated.get("loss"))
    return ""


def _size_problem(stored: Mapping[str, Any], repeated: Mapping[str, Any]) -> str:
    """Return the first size that differs; without compression, sizes follow from the configuration."""
    for name in (name for name in (*_SIZES, "clock") if name in stored or name in _ALWAYS):
        one, other = stored.get(name), repeated.get(name)
        is_dense = name in _SIZES and other == repeated.get(_SIZES[name])
        if one is None or other is None or not math.isclose(one, other, rel_tol=0.0 if is_dense else _SIZE_BAND):
            return _words(name, one, other)
    return ""


def of_configuration(
    stored: Mapping[str, Any], repeated: Mapping[str, Any], metric: Metric, keys: tuple[str, ...] = _OF_CONFIG
) -> str:
    """Return the first difference in what follows from the configuration alone, also for runs whose noise is secret."""
    names = [name for name in keys if name in stored or name in _ALWAYS or name == "privacy"]
    one, other = (_without_time({name: row.get(name) for name in names}) for row in (stored, repeated))
    return _difference(one, other, "", _ACCOUNTED) or _final_problem(stored, repeated, metric)


# --- the final test -----------------------------------------------------------------------------------


def _final_problem(stored: Mapping[str, Any], repeated: Mapping[str, Any], metric: Metric) -> str:
    """Return where a final test has other rows than the repetition, or another score than its own last round.

    Which of its parts have the score of the last round depends on the run: those that have it in the repetition.
    """
    test, other = stored.get("final") or {}, repeated.get("final") or {}
    counts = dict(_counts(other))
    for name, count in _counts(test):
        if count != counts.get(name):
            return _words(name, count, counts.get(name))
    scores, known = _final_scores(test, metric.name), _final_scores(other, metric.name)
    last, last_known = _score(stored, metric.name), _score(repeated, metric.name)
    for name, score in scores.items():
        is_last = _near(known.get(name), last_known, 1e-9)
        if is_last and not _near(score, last, _FINAL_BAND):
            return f"{name} gives {metric.name} {_short(score)}, and its last round has {_short(last)}"
    return ""


def _near(one: float | None, other: float | None, band: float) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=band, abs_tol=band)


def _counts(test: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of test rows by class, party and set of rows, which follow from the data."""
    for place, row in enumerate(test.get("confusion", ())):
        yield f"final.confusion[{place}]", sum(row)
    for part in ("parties", "by_rows"):
        for name, result in test.get(part, {}).items():
            yield f"final.{part}.{name}.rows", result["rows"]
    if "calibration" in test:
        yield "final.calibration.rows", sum(test["calibration"]["rows"])


def _final_scores(test: Mapping[str, Any], name: str) -> dict[str, float | None]:
    """Return the scores of a final test on all rows, by the part that they are in."""
    scores: dict[str, float | None] = {}
    table = test.get("confusion")
    if table and name == ACCURACY.name:
        scores["final.confusion"] = sum(row[k] for k, row in enumerate(table)) / max(1, sum(map(sum, table)))
    parties = test.get("parties", {}).values()
    if parties and all(party["own"] is not None for party in parties):
        rows = sum(party["rows"] for party in parties)
        scores["final.parties"] = sum(party["rows"] * party["own"] for party in parties) / max(1, rows)
    lasts = [row[-1] for row in test.get("cross", {}).get("scores", ())]
    if lasts and None not in lasts:
        scores["final.cross"] = sum(lasts) / len(lasts)
    if name in test.get("metrics", {}):
        scores[f"final.metrics.{name}"] = test["metrics"][name]
    for rows_name, result in test.get("by_rows", {}).items():
        scores[f"final.by_rows.{rows_name}"] = result["score"]
    return scores


def _score(row: Mapping[str, Any], name: str) -> float | None:
    value: float | None = row.get("metrics", {}).get(name)
    return row.get("accuracy") if value is None and name == ACCURACY.name else value


def _without_time(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_time(item) for key, item in value.items() if key not in _MEASURED}
    return [_without_time(item) for item in value] if isinstance(value, list | tuple) else value


def _difference(stored: Any, repeated: Any, name: str, tolerance: float = 0.0) -> str:
    if isinstance(stored, dict) and isinstance(repeated, dict):
        for key in dict.fromkeys((*stored, *repeated)):
            path = f"{name}.{key}" if name else str(key)
            if text := _difference(stored.get(key), repeated.get(key), path, tolerance):
                return text
        return ""
    return "" if _equals(stored, repeated, tolerance) else _words(name, stored, repeated)


def _equals(stored: Any, repeated: Any, tolerance: float) -> bool:
    if tolerance and isinstance(stored, list) and isinstance(repeated, list):
        return len(stored) == len(repeated) and all(map(_equals, stored, repeated, [tolerance] * len(stored)))
    if tolerance and isinstance(stored, float) and isinstance(repeated, float):
        return math.isclose(stored, repeated, rel_tol=tolerance)
    return bool(stored == repeated)


def _words(name: str, stored: Any, repeated: Any) -> str:
    return f"{name} is {_short(stored)}, and {_short(repeated)} if the run is repeated"


def _short(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
