"""The counts of campaigns: a file with one row per line, and the table on the page."""

import fcntl
import json
from collections.abc import Sequence
from pathlib import Path

from fuzz.drive import Row, as_json

COUNTS = Path(__file__).with_name("counts.json")
_START, _END = "<!-- counts -->", "<!-- end of counts -->"
_COLUMNS = ("target", "inputs", "accepted", "refused", "edges", "findings", "slowest input", "growth")


def stored_rows(file: Path) -> list[Row]:
    """Return the rows of earlier campaigns."""
    return [Row(**row) for row in json.loads(file.read_text())] if file.exists() and file.stat().st_size else []


def store(rows: Sequence[Row], file: Path) -> list[Row]:
    """Write rows to a file and return all that it has; a row takes the place of that of its target and driver.

    Campaigns that run at the same time may share a file.
    """
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        merged = {(row.target, row.driver): row for row in [*stored_rows(file), *rows]}
        ordered = [merged[key] for key in sorted(merged)]
        file.write_text("[\n" + ",\n".join(json.dumps(row) for row in as_json(ordered)) + "\n]\n")
    return ordered


def markdown(rows: Sequence[Row]) -> str:
    """Return the table of all targets, with a last line for their sum."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|" + "---:|" * (len(_COLUMNS) - 1)]
    for target in dict.fromkeys(row.target for row in rows):
        lines.append(_line(f"`{target}`", [row for row in rows if row.target == target]))
    lines += [_line(f"all, by {driver}", [row for row in rows if row.driver == driver]) for driver in _drivers(rows)]
    return "\n".join([*lines, _line("**all**", rows)])


def _drivers(rows: Sequence[Row]) -> list[str]:
    return sorted({row.driver for row in rows})


def _line(title: str, rows: Sequence[Row]) -> str:
    sums = [f"{sum(getattr(row, key) for row in rows):,}" for key in ("inputs", "accepted", "refused")]
    edges = [row.edges for row in rows if row.edges is not None]
    targets = {row.target for row in rows}
    covered = f"{edges[0]:,}" if len(targets) == 1 and edges else ""
    slowest, grown = max(row.slowest for row in rows), max(row.megabytes for row in rows)
    cells = [title, *sums, covered, str(sum(row.findings for row in rows)), f"{slowest:.2f} s", f"{grown:.0f} MB"]
    return f"| {' | '.join(cells)} |"


def write_page(rows: Sequence[Row], page: Path) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(_START)
    page.write_text(f"{before}{_START}\n{markdown(rows)}\n{_END}{rest.split(_END)[1]}", encoding="utf-8")
