"""The tables that papers print, which are stored as CSV files and named by the suites that reproduce them."""

import csv
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from silobench.analysis.specs import starts_at_random
from silobench.runs.label import LATER, Label

Rows: TypeAlias = list[dict[str, str]]
# Choices under which papers train: any other choice has no published number.
_USUAL = {
    "transforms": "",
    "controller": "fixed",
    "validation": 0.0,
    "server": "step",
    "buffers": "average",
    "selection": "uniform",
    "broadcast": "",
    "adversary": "none",
    **{key: LATER[key] for key in ("exchange", "aggregate", "availability", "pace", "split")},
}
_OBJECTIVES = (LATER["objective"], "cross-entropy")  # the first means the second where there are classes


def read_suite(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def published_files(suite: dict[str, Any]) -> list[str]:
    """Return the names of the CSV files that a suite states under `numbers`: one, several, or none."""
    names = suite.get("numbers", [])
    return [names] if isinstance(names, str) else list(names)


@cache
def published_tables(folder: Path, suite: str) -> list[Rows]:
    """Read the tables that a suite of a paper's folder names under `numbers`."""
    files = published_files(read_suite(folder / "suites" / f"{suite}.toml"))
    return [_read(folder / "published" / name) for name in files]


def _read(file: Path) -> Rows:
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def fraction(percent: str) -> float:
    """Convert percent to a fraction."""
    return round(float(percent) / 100, 6)


def is_usual(label: Label, any_start: bool = False) -> bool:
    """Whether a run has the choices under which papers train, and starts from random weights (unless `any_start`).

    These are the choices of `_USUAL`: no transforms, no controller, no held-out rows, no server optimizer, buffers that
    are averaged, cohorts drawn uniformly, a model that is broadcast whole, honest parties that all answer, a server
    that waits for them and takes their mean, and the data's own test rows; and cross-entropy as the loss.
    Data, network, solver, algorithm, parties and participation are not checked: they differ between papers.
    """
    usual = all(label.get(key, value) == value for key, value in _USUAL.items())
    return usual and label.text("objective") in _OBJECTIVES and (any_start or starts_at_random(label))


def participation(label: Label, parties: int) -> float:
    """Return the share of parties that train in a round; a label may state it as a count."""
    share = label.participation
    return share / parties if isinstance(share, int) else float(share)
