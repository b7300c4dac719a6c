"""Survivors that need no test: changes that no result shows, each with a reason in survivors.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutants.plan import SOURCE
from mutants.sources import Mutant, mutants_of

LIST = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True)
class Change:
    """A line of a file before and after a mutation."""

    file: str  # relative to the package
    before: str
    after: str


@dataclass(frozen=True)
class Explanation:
    """Why some changes of a line cannot or need not be noticed; `kind` is the heading under which the page lists it."""

    kind: str
    reason: str
    changes: tuple[Change, ...]


def explanations() -> list[Explanation]:
    """Read the list."""
    entries = tomllib.loads(LIST.read_text("utf-8"))["survivor"]
    return [
        Explanation(
            entry["kind"],
            entry["reason"],
            tuple(Change(entry["file"], entry["before"], text) for text in entry["after"]),
        )
        for entry in entries
    ]


def change_of(mutant: Mutant) -> Change:
    """Return the line that a mutant changes; a line that it removes is empty afterwards."""
    before, number = mutant.file.read_text("utf-8").splitlines(), mutant.start[0] - 1
    after = (mutant.source() or "").splitlines()
    text = after[number].strip() if len(after) == len(before) else ""
    return Change(str(mutant.file.relative_to(SOURCE)), before[number].strip(), text)


def stale() -> list[Change]:
    """Return listed changes that no mutant makes any more."""
    listed = [change for entry in explanations() for change in entry.changes]
    lines = {(change.file, change.before) for change in listed}
    actual = set()
    for name in {change.file for change in listed}:
        file = SOURCE / name
        text = file.read_text("utf-8").splitlines() if file.exists() else []
        wanted = [number for number, line in enumerate(text, 1) if (name, line.strip()) in lines]
        if wanted:
            actual |= {change_of(mutant) for mutant in mutants_of(file) if mutant.start[0] in wanted}
    return [change for change in listed if change not in actual]
