"""The determinism matrix: kinds of runs by surroundings. A column is a process, compared with a plain one."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from determinism import comparison
from determinism.kinds import Choices, kinds
from determinism.variations import BASES, PLAIN, VARIATIONS, Variation

SPECIAL = ("tuned", "silos")  # rows that are no experiments: a study, and a consortium of silos
_RUN = "import sys; from determinism.runner import run_job; run_job(sys.argv[1])"  # not as __main__: forks import it
_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Entry:
    """One cell of the matrix: the runs of a kind in some surroundings."""

    compared: int
    problems: tuple[str, ...] = ()  # run id and first difference, of each run that differs

    @property
    def text(self) -> str:
        return f"{self.compared} / {len(self.problems)}" if self.compared else "-"


@dataclass
class Matrix:
    """The entries by row and column, and the columns that were not tried, with the reason."""

    rows: list[str]
    entries: dict[str, dict[str, Entry]] = field(default_factory=dict)  # by column, then by row
    untried: dict[str, str] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        return sum(entry.compared for column in self.entries.values() for entry in column.values())

    @property
    def problems(self) -> list[str]:
        """One sentence for each run that differs."""
        return [
            f"{row}, {column}: {problem}"
            for column, entries in self.entries.items()
            for row, entry in entries.items()
            for problem in entry.problems
        ]

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Matrix":
        entries = {
            column: {row: Entry(entry["compared"], tuple(entry["problems"])) for row, entry in rows.items()}
            for column, rows in content["columns"].items()
        }
        return cls(list(content["rows"]), entries, dict(content["untried"]))

    def as_json(self) -> dict[str, Any]:
        cells = {
            column: {row: {"compared": entry.compared, "problems": list(entry.problems)} for row, entry in rows.items()}
            for column, rows in self.entries.items()
        }
        totals = {"compared": self.compared, "differing": len(self.problems)}
        return {**totals, "rows": self.rows, "columns": cells, "untried": self.untried}


def matrix(
    folder: Path,
    variations: Sequence[Variation] = VARIATIONS,
    rows: Sequence[str] = (),
    report: Callable[[str], object] = print,
) -> Iterator[tuple[str, dict[str, Entry]]]:
    """Make all runs in all surroundings below `folder` and compare them; `rows` restricts the kinds.

    Yield the name of each column, with its entries by row, as soon as it is compared.
    """
    chosen = {row: cells for row, cells in kinds(folder / "files").items() if not rows or row in rows}
    special = [row for row in SPECIAL if not rows or row in rows]
    for base in BASES:
        columns = [each for each in variations if each.base == base]
        expected = made_column(Variation(f"base {base}", base), folder, chosen, special, report) if columns else {}
        for variation in columns:
            actual = made_column(variation, folder, chosen, special, report)
            yield (
                variation.name,
                {
                    row: entry_of(expected.get(row, {}), actual.get(row, {}))
                    for row in (*chosen, *special)
                    if row in actual or (row in expected and row not in SPECIAL)
                },
            )


def absence(variation: Variation) -> str:
    """Return why a column cannot be tried on this machine; empty if it can."""
    is_ray = variation.engine.startswith("ray")
    return "Ray is not installed" if is_ray and importlib.util.find_spec("ray") is None else ""


def special_rows(variation: Variation) -> list[str]:
    """Return the rows that are no experiments and that this variation can change."""
    of_a_command = variation.way in ("each", "sweep") and variation.base in ("auto", "inline")
    tuned = ["tuned"] if of_a_command and importlib.util.find_spec("optuna") else []
    has_own_engine = variation.base == "auto" and variation.way == "each" and not variation.engine
    return [*tuned, *(["silos"] if has_own_engine else [])]


def made_column(
    variation: Variation,
    folder: Path,
    rows: Mapping[str, list[Choices]],
    special: Sequence[str],
    report: Callable[[str], object],
) -> dict[str, dict[str, Any]]:
    """Make all runs of a column in a process of its own; return their records, by row and run."""
    began, out = time.monotonic(), folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    asked = [row for row in special_rows(variation) if row in special]
    job = {**variation.as_json(), "out": str(out), "rows": rows, "special": asked}
    (folder / "job.json").write_text(json.dumps(job))
    there = folder / "elsewhere" / "deeper" if variation.elsewhere else folder
    there.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(folder / "job.json")],
        cwd=there,
        env={**os.environ, "PYTHONPATH": _path(), **PLAIN, **variation.environment},
        umask=0o077 if variation.elsewhere else 0o022,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the column '{variation.name}' ended with {done.returncode}: {done.stderr[-3000:]}")
    records = {row: comparison.records(out / row) for row in (*rows, *asked) if (out / row).exists()}
    if rows and comparison.workers(out) < variation.at_least:
        raise RuntimeError(f"no round of the column '{variation.name}' had {variation.at_least} workers")
    report(f"{variation.name}: {sum(map(len, records.values()))} runs in {time.monotonic() - began:.0f} s")
    return records


def _path() -> str:
    return os.pathsep.join([str(_TESTS.parent / "src"), str(_TESTS)])


def entry_of(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Entry:
    """Compare the runs of one kind; a run that only one side has differs."""
    names = sorted({*expected, *actual})
    pairs = ((name, comparison.difference(expected.get(name), actual.get(name))) for name in names)
    return Entry(len(names), tuple(f"{name} differs in {where}" for name, where in pairs if where))


def markdown(table: Matrix) -> str:
    """Return the matrix as a Markdown table: runs compared / runs that differ."""
    columns = [each.name for each in VARIATIONS if each.name in table.entries]
    head = ["| kind |" + "".join(f" {name} |" for name in columns), "|---|" + "---|" * len(columns)]
    empty = Entry(0)
    lines = [
        f"| {row} |" + "".join(f" {table.entries[name].get(row, empty).text} |" for name in columns)
        for row in table.rows
    ]
    notes = [f"\nNot tried: {name}, because {reason}." for name, reason in table.untried.items()]
    total = f"\n{table.compared} comparisons of runs, {len(table.problems)} differ."
    return "\n".join([*head, *lines, total, *notes, ""])
