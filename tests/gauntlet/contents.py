"""What a directory of results holds, without what differs in every run: measured seconds and dates."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laws import lasting
from silobench.runs.stored import read_json, run_paths
from silobench.tuning.study import STUDY
from wrong_inputs.case import answered

_DATED = ("created", "records", "facts_sha256")  # facts of run.json that follow from the time
_OPEN = ("round", "cohort", "steps", "bytes_up", "bytes_down", "privacy")  # what secret numbers do not change


def contents(out: Path, is_secret: bool = False) -> dict[str, Any]:
    """Return everything of the results in a directory, by run and file.

    Of runs with secret random numbers only what does not follow from these: the rounds and the privacy ledger.
    """
    runs: dict[str, Any] = {path.name: _run(path, is_secret) for path in run_paths(out)}
    files = (path for path in (out / STUDY, out / "tuned.toml") if path.exists())
    return runs | {path.name: path.read_bytes() for path in files}


def _run(path: Path, is_secret: bool) -> dict[str, Any]:
    facts, rows = read_json(path)
    if is_secret:
        facts = {key: value for key, value in facts.items() if not key.endswith("_sha256")}
        rows = [{key: row.get(key) for key in _OPEN} for row in rows]
    rows = [{key: value for key, value in lasting(row).items() if key != "workers"} for row in rows]
    return {**{key: value for key, value in facts.items() if key not in _DATED}, "rounds": rows}


def differences(whole: dict[str, Any], other: dict[str, Any], name: str = "") -> list[str]:
    """Return where two contents differ, as paths of keys; the first few of them.

    >>> differences({"a": {"b": 1}, "c": [1, 2]}, {"a": {"b": 2}, "c": [1, 2]})
    ['a.b']
    """
    return [each for _, each in zip(range(4), _differences(whole, other, name), strict=False)]


def _differences(whole: Any, other: Any, name: str) -> Iterator[str]:
    if type(whole) is type(other) is dict:
        for key in sorted(whole.keys() | other.keys()):
            yield from _differences(whole.get(key), other.get(key), f"{name}.{key}".lstrip("."))
    elif type(whole) is type(other) is list and len(whole) == len(other):
        for place, (mine, theirs) in enumerate(zip(whole, other, strict=True)):
            yield from _differences(mine, theirs, f"{name}[{place}]")
    elif whole != other:
        yield name


def unreadable(out: Path) -> list[str]:
    """Return which of the commands that read results cannot read those of a command that was killed, and why."""
    if not any(out.glob("**/run.json")):
        return []  # it was killed before its first run
    page = out.parent / "report.html"
    commands = (["show", str(out)], ["report", str(out), "--out", str(page)])
    answers = ((command[0], answered(command)) for command in commands)
    return [f"{name} answers {answer.code}: {answer.err}" for name, answer in answers if answer.code]
