"""What a run says round by round as named numbers, and its choices as named texts, for trackers of experiments."""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from silobench.analysis.flat.columns import CHOICES, columns_of
from silobench.analysis.flat.rows import rows_of
from silobench.runs.stored import StoredRun

_LONGEST = 120  # characters of a name


def scalars(run: StoredRun) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the finite numbers of each round by name; the names are those of the columns of the table rounds."""
    columns = columns_of("rounds", [run])
    names = [each.name for each in columns if each.kind in ("whole", "number") and each.name != "round"]
    for row in rows_of("rounds", run, columns):
        values = {name: row[name] for name in names if row[name] is not None and math.isfinite(row[name])}
        yield row["round"], values


def choices(run: StoredRun) -> dict[str, str]:
    """Return every choice of a run with all arguments; one that is not stated has its default."""
    stated = {name: str(value) for name, value in run.config.items()}
    return {**{name: default for name, default in CHOICES.items() if default}, **stated}


def readable_name(run: StoredRun) -> str:
    """Return a run's name for people; it need not be unique."""
    label = run.label
    return f"{run.dataset.name} {label.text('partition')} {label.text('algorithm')} seed {run.seed}"


def file_name(run: StoredRun) -> str:
    """Return a name for a folder of a run: readable, unique by the id at its end, and valid in any file system."""
    readable = re.sub(r"[^\w.=()+,-]+", "_", readable_name(run)).strip("._")
    return f"{readable[:_LONGEST]}-{run.facts.id}"


def began(run: StoredRun) -> float:
    """Return when a run was planned, in seconds since 1970; 0 if that is not recorded."""
    try:
        moment = datetime.fromisoformat(run.facts.created)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
