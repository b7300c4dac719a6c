"""The end of a command: after many runs the process ends at once, and no output is lost, whatever its encoding."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import COMMAND, call
from silobench.cli import doctor
from silobench.cli.leaving import MANY, leave
from stored import stored

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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_may_have_any_encoding(encoding: str, tmp_path: Path) -> None:
    """A letter that the encoding of the output lacks is written out, as in a terminal of another language."""
    for seed, score in enumerate((0.5, 0.6)):
        stored([score], seed, out=tmp_path, algorithm="fedavg", dataset_facts={"name": "digits"})
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    ended = subprocess.run([*COMMAND, "show", tmp_path], capture_output=True, env=environment)
    assert ended.returncode == 0, ended.stderr  # which has a line about a slow step on a busy machine
    deviation = {"ascii": b"55.0 \\xb1 7.1", "latin-1": b"55.0 \xb1 7.1", "utf-8": "55.0 ± 7.1".encode()}
    assert deviation[encoding] in ended.stdout


def test_an_error_without_a_number_of_the_system_keeps_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise OSError("the driver does not answer")

    monkeypatch.setattr(doctor, "diagnose", fails)
    ended = call(capsys, "doctor")
    assert ended.code == 2
    assert ended.err.startswith("error: the operating system reported 'the driver does not answer': check the path")
