"""The end of a command: after many runs the process ends at once, and loses no output."""

import subprocess
import sys

import pytest

from silobench.cli.leaving import MANY, leave

_COMMAND = """
import atexit, sys
from silobench.cli import leaving

class Run:
    def __del__(self):
        print("freed")

atexit.register(print, "an exit")
runs = [Run()]
print("a table")
leaving.expect({runs})
leaving.leave(3)
"""


def ended_with(runs: int) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", _COMMAND.format(runs=runs)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)  # a pipe, so that output waits to be flushed
    return ended.returncode, ended.stdout.splitlines()


def test_after_many_runs_all_is_written_and_none_is_freed() -> None:
    assert ended_with(MANY) == (3, ["a table", "an exit"])


def test_after_few_runs_python_ends_as_ever() -> None:
    assert ended_with(MANY - 1) == (3, ["a table", "an exit", "freed"])


def test_a_command_in_this_process_raises_its_code() -> None:
    with pytest.raises(SystemExit) as ended:
        leave(3)
    assert ended.value.code == 3
