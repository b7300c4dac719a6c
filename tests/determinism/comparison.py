"""What two run directories of one run must have in common: all but measured time, and by whom and when it was made."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from laws import lasting
from silobench.runs.stored import read_json

_OF_THE_COMMAND = ("created", "made_by", "records", "facts_sha256")  # facts that another command has otherwise

_PLACES = ("engine", "workers")  # of a round: where it ran; the mode is compared


def records(out: Path) -> dict[str, Any]:
    """Return what must be the same, by run: the facts with the digests of model and state, and all rounds.

    The folder of a study also has the study itself. A run of silos gets its id from their signed agreement, and so from
    fresh keys: of the only run of a consortium, the bits are compared.
    """
    paths = sorted(file.parent for file in out.rglob("run.json"))
    if out.name == "silos":
        (path,) = paths
        return {"run": _bits(_record(path))}
    studies = {file.name: json.loads(file.read_text()) for file in out.glob("study.json")}
    return {str(path.relative_to(out)): _record(path) for path in paths} | studies


def _record(path: Path) -> dict[str, Any]:
    facts, rows = read_json(path)
    stated = {key: value for key, value in facts.items() if key not in _OF_THE_COMMAND}
    rounds = [{key: value for key, value in lasting(row).items() if key not in _PLACES} for row in rows]
    return {"mode": facts["made_by"]["engine"], "facts": stated, "rounds": {str(row["round"]): row for row in rounds}}


def _bits(record: dict[str, Any]) -> dict[str, Any]:
    digests = {name: record["facts"][name] for name in ("model_sha256", "state_sha256")}
    return {"mode": record["mode"], "facts": digests, "rounds": record["rounds"]}


def workers(out: Path) -> int:
    """Return the largest number of workers that a round of these runs had."""
    rows = (row for file in out.rglob("run.json") for row in read_json(file.parent)[1])
    return max((int(row.get("workers", 0)) for row in rows), default=0)


def difference(one: Any, other: Any, name: str = "") -> str:
    """Return the first place where two values differ, with both values; empty if there is none.

    >>> difference({"rounds": [1, {"loss": 0.5}]}, {"rounds": [1, {"loss": 0.25}]})
    'rounds[1].loss: 0.5 and 0.25'
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*one, *other)):
            if text := difference(one.get(key), other.get(key), f"{name}.{key}" if name else str(key)):
                return text
        return ""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        places = (difference(*pair, f"{name}[{place}]") for place, pair in enumerate(zip(one, other, strict=True)))
        return next(filter(None, places), "")
    if _same(one, other):
        return ""
    return f"{name}: {_short(one)} and {_short(other)}"


def _same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)  # also for NaN, and 1 is not 1.0


def _short(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
