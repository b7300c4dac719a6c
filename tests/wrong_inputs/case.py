"""One row of the table: an input, how to make it, and what the command answers."""

import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from silobench.cli import app as cli
from silobench.runs.execute import execute
from silobench.runs.experiment import plan, read_experiment
from silobench.runs.prepare import prepare

Damage: TypeAlias = Callable[[Path], object]  # gets the results directory
# Three runs of a second: two are finished, and fedprox was interrupted after two of its three rounds.
EXPERIMENT = """
dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "scaffold", "fedprox"]
solver = "sgd(epochs=1)"
rounds = 3
"""


@dataclass(frozen=True)
class Case:
    """A command in a folder with some files, and perhaps with results."""

    shown: str  # the input, as the page shows it
    arguments: tuple[str, ...]
    expected: str  # a part of the message, or of what is printed if the exit code is 0
    code: int = 2
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # symbolic links
    damage: Damage | None = None  # what is done to the finished results first
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What a command printed."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The line on stderr; empty for an input that is accepted."""
        return self.err.strip() if self.code else ""


def make_results(folder: Path) -> Path:
    """Write the experiment and its results into a folder, for cases that damage a copy of them."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tiny.toml"
    file.write_text(EXPERIMENT)
    cut = plan(read_experiment(file))[-1]
    for algorithm in ("fedavg", "scaffold"):
        only = f"* / {algorithm} / *"
        assert answered(["run", str(file), "--out", str(folder / "runs"), "--workers", "1", "--only", only]).code == 0
    records = execute(prepare(cut), folder / "runs")
    next(records), next(records)
    records.close()
    return folder


def answer(case: Case, folder: Path, results: Path) -> Answer:
    """Run a case in an empty folder; `results` is what `make_results` returned."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in case.links.items():
        (folder / name).symlink_to(target)
    if case.damage:
        shutil.copytree(results, folder, dirs_exist_ok=True)
        case.damage(folder / "runs")
    with _surroundings(folder, case.environment):
        return answered(list(case.arguments))


def answered(arguments: list[str]) -> Answer:
    """Run a command in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["silobench", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    notices = ("compiling the native step", "the native step is not available")  # logged once per process
    lines = [line for line in err.getvalue().splitlines() if not line.startswith(notices)]
    return Answer(code, out.getvalue(), "\n".join(lines))


@contextlib.contextmanager
def _surroundings(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    variables = {"SILOBENCH_DATA": str(folder / "data"), "COLUMNS": "120", **environment}
    before, place = {name: os.environ.get(name) for name in [*variables, "SILOBENCH_DATA_DIR_GIVEN"]}, Path.cwd()
    os.environ.update(variables)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def normalised(message: str, folder: Path) -> str:
    """Return a message without what differs from machine to machine: folders and ids."""
    text = message.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
    text = re.sub(r"its first \d+ bytes", "its first 2443 bytes", text)  # seconds have more digits, or fewer
    text = re.sub(r"it has [1-9]\d*\)", "it has 1221)", text)
    return re.sub(r"\b[0-9a-f]{16}\b", "0123456789abcdef", text)


# --- kinds of cases -----------------------------------------------------------------------------------


def experiment(text: str, expected: str, code: int = 2) -> Case:
    """Return a case of one or more lines in an experiment that is otherwise correct."""
    keys = {line.partition("=")[0].strip() for line in text.splitlines()}
    base = {"dataset": '"fcube"', "rounds": "1"}
    given = [f"{key} = {value}" for key, value in base.items() if key not in keys]
    return whole_experiment("\n".join([*given, text]), expected, code, shown=f"`{text}`")


def whole_experiment(text: str | bytes, expected: str, code: int = 2, shown: str | None = None) -> Case:
    """Return a case of an experiment file."""
    return Case(
        shown or f"`{text if isinstance(text, str) else ''}`",
        ("run", "mine.toml", "--out", "runs", "--workers", "1"),
        expected,
        code,
        {"mine.toml": text},
    )


def command(line: str, expected: str, code: int = 2, **more: object) -> Case:
    """Return a case of a command line, split at spaces."""
    return Case(f"`silobench {line}`", tuple(line.split()), expected, code, **more)  # type: ignore[arg-type]


def damaged(shown: str, damage: Damage, expected: str, line: str = "show runs", code: int = 2) -> Case:
    """Return a case of a command on results that were damaged."""
    return Case(f"{shown}; `silobench {line}`", tuple(line.split()), expected, code, damage=damage)
