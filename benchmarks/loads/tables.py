"""The tables of docs/trust/load.md, from what was measured. Nothing in them is typed by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from scaling.tables import markdown
from silobench.analysis.units import duration, size

Points = Sequence[Mapping[str, Any]]


def tables(study: Mapping[str, Points]) -> dict[str, str]:
    """Return every table by its name on the page."""
    made = {"parties": _parties, "directory": _directory, "grid": _grid}
    return {name: make(study[name]) if study.get(name) else "not measured" for name, make in made.items()}


def _parties(points: Points) -> str:
    moments = [point["round"] for point in points[0]["points"]]
    head = [
        "method", "parties per round", *(f"memory, round {moment}" for moment in moments), "peak",
        f"a round, {moments[0]} to {moments[1]}", f"a round, {moments[-2]} to {moments[-1]}", "checkpoint", "commits",
    ]  # fmt: skip
    rows = []
    for point in points:
        each, job = point["points"], point["job"]
        cohort = "all" if job["participation"] == 1.0 else str(job["participation"])
        rows.append([
            job["algorithm"], cohort, *(size(moment["resident"]) for moment in each), size(point["peak"]),
            duration(each[1]["seconds"]), duration(each[-1]["seconds"]), size(point["files"]["checkpoint"]),
            str(point["commits"]),
        ])  # fmt: skip
    return markdown(head, rows)


def _directory(points: Points) -> str:
    head = ["command", "processor", "loop", "wall clock", "peak memory", "files", "written", "largest file"]
    rows = [
        [
            point["command"], duration(point["processor"]), duration(point["loop"]) if "loop" in point else "",
            duration(point["seconds"]), size(point["peak"]), f"{point['files']:,}" if "files" in point else "",
            *(size(point[key]) if key in point else "" for key in ("bytes", "largest")),
        ]
        for point in points
    ]  # fmt: skip
    return markdown(head, rows)


def _grid(points: Points) -> str:
    head = ["runs", "processor time to the first plan", "memory that it adds", "objects per run", "all plans once more"]
    rows = [
        [
            f"{point['runs']:,}", duration(point["seconds"]), size(point["added"]), size(point["held"]),
            duration(point["walk"]),
        ]
        for point in points
    ]  # fmt: skip
    return markdown(head, rows)
