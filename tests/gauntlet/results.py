"""Results directories to damage: runs of every kind, finished and interrupted, and a study."""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from laws import lasting
from silobench.runs.execute import execute
from silobench.runs.experiment import plan, read_experiment
from silobench.runs.prepare import prepare
from silobench.runs.results import write_planned
from silobench.runs.stored import read_json
from wrong_inputs.case import Answer, answered

_built = cache(get_command)  # a third of the time of a command is that its options are built
EXPERIMENT, FOLDER = "all.toml", "runs"
_PLAIN = {"dataset": "fcube", "partition": "iid", "parties": 3, "solver": "sgd(epochs=1)", "rounds": 3}
KINDS: Mapping[str, Mapping[str, Any]] = {
    "horizontal": {"algorithm": "scaffold"},
    "personal": {"algorithm": "ditto"},
    "private": {"transforms": "clip(norm=0.5) | gaussian-noise(multiplier=1, reproducible=true)"},
    "vertical": {"dataset": "breast-cancer", "partition": "columns(by=block)", "parties": 2},
    "table": {"dataset": "csv(path='rows.csv', label=y)"},
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run in a results directory: which kind it is, its folder, and whether it was interrupted."""

    kind: str
    id: str
    name: str
    is_interrupted: bool


@dataclass(frozen=True)
class Results:
    """A folder with an experiment of all kinds, and its results."""

    folder: Path
    runs: tuple[Run, ...]

    @cached_property
    def whole(self) -> Mapping[str, Any]:
        """The bits of every run, as they are once all are finished."""
        return {run.id: bits_of(self.folder / "whole" / run.id) for run in self.runs}


def make_results(folder: Path, kinds: tuple[str, ...] = tuple(KINDS)) -> Results:
    """Run one experiment with a run of each kind twice, by two seeds; those of the second seed are interrupted."""
    folder.mkdir(parents=True)
    draws = random.Random(0)
    rows = [f"{draws.gauss(0, 1):.3f},{draws.choice('abc')},{draws.randrange(2)}" for _ in range(60)]
    (folder / "rows.csv").write_text("\n".join(["x,kind,y", *rows, ""]))
    grids = [_grid({**_PLAIN, **KINDS[kind]}) for kind in kinds]
    (folder / EXPERIMENT).write_text("\n".join(grids))
    with inside(folder):
        plans = plan(read_experiment(Path(EXPERIMENT)))
        for each in plans:
            list(execute(prepare(each), Path("whole"), "inline"))
        for place, each in enumerate(plans):
            records = execute(prepare(each), Path(FOLDER), "inline")
            for record in records:
                if place % 2 and record.round == 2:
                    break
            records.close()
        write_planned(Path(FOLDER), EXPERIMENT, {each.id: each.name for each in plans}, is_part=False)
    return Results(
        folder,
        tuple(Run(kinds[place // 2], each.id, each.name, bool(place % 2)) for place, each in enumerate(plans)),
    )


def _grid(choices: Mapping[str, Any]) -> str:
    lines = [f"{key} = {value!r}" if isinstance(value, int) else f'{key} = "{value}"' for key, value in choices.items()]
    return "\n".join(["[[grid]]", *lines, "trials = 2"])


def command(folder: Path, *arguments: str) -> Answer:
    """Run a command in this process, in a folder. An error that is not a sentence is raised."""
    with inside(folder), patch("typer.main.get_command", _built):
        return answered(list(arguments))


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def bits_of(path: Path) -> Any:
    """Return everything of a run but measured times."""
    facts, rows = read_json(path)
    return [facts.get(key) for key in ("status", "state_sha256", "partition", "privacy")], list(map(lasting, rows))
