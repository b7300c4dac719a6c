"""Calling silobench as a user does: in this process where speed matters, in one of its own where a kill does."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from silobench.cli import app as cli

COMMAND = [sys.executable, "-c", "from silobench.cli import main; main()"]

TINY = """
dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "scaffold"]
solver = "sgd(epochs=1)"
rounds = 3
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Result:
    """Run a command in this process."""
    capsys.readouterr()
    before = sys.argv
    sys.argv = ["silobench", *map(str, arguments)]
    try:
        cli.main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return Result(code, captured.out, captured.err)


def start(*arguments: str | Path, **options: object) -> subprocess.Popen[str]:
    """Run a command in a process of its own."""
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
