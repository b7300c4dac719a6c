"""Measure commands on a directory of many runs: what each takes before there is an index, and with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loads.commands import cost_of, loop_seconds
from loads.stored_runs import write_runs
from silobench.runs.index import INDEX

RUNS, ROUNDS = 10_000, 50
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("show", "runs"),
    ("report", "runs", "--output", "site"),
    ("claims", "runs"),
    ("compare", "runs", "fedavg", "scaffold"),
    ("leaderboard", "rank", "runs", "--output", "board.html"),
    ("export", "runs", "--output", "flat"),
)


def measured(folder: Path, count: int = RUNS) -> Iterator[dict[str, Any]]:
    """Yield the cost of each command; the first `show` is without an index and writes it."""
    runs = folder / "runs"
    if not runs.exists():
        write_runs(runs, count, ROUNDS)
    (runs / INDEX).unlink(missing_ok=True)
    first = cost_of("show", "runs", folder=folder)
    yield {"command": "show, the first time", "runs": count, "loop": loop_seconds(), **first.as_json()}
    for command in COMMANDS:
        cost = cost_of(*command, folder=folder)
        sizes = _sizes(folder, command)
        yield {"command": command[0], "runs": count, "loop": loop_seconds(), **cost.as_json(), **sizes}


def _sizes(folder: Path, command: tuple[str, ...]) -> dict[str, int]:
    """Return the number of files and bytes that a command wrote, and its largest file."""
    if "--output" not in command:
        return {}
    output = folder / command[-1]
    sizes = [file.stat().st_size for file in (output, *output.rglob("*")) if file.is_file()]
    return {"files": len(sizes), "bytes": sum(sizes), "largest": max(sizes)}
