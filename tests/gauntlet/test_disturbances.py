"""The short form of the gauntlet of disturbances, in this process; `python -m gauntlet` tries all of them.

Ctrl-C has its test in `tests/runs/test_resume.py`, and two processes in one run in `tests/runs/test_writer.py`.
"""

from pathlib import Path

import pytest

from gauntlet.disturbances import experiment
from gauntlet.results import bits_of, command
from offline import disk_of
from silobench.runs.stored import run_paths

RUN = ("run", "mine.toml", "--workers", "1", "--engine", "inline", "--out")


@pytest.mark.parametrize("largest", [700, 3000])
def test_a_run_survives_a_full_disk(tmp_path: Path, largest: int) -> None:
    """The disk is full before the first round, or in the middle of a line."""
    (tmp_path / "mine.toml").write_text(experiment(6, ["scaffold"]))
    assert command(tmp_path, *RUN, "whole").code == 0
    with disk_of(largest):
        disturbed = command(tmp_path, *RUN, "runs")
    assert disturbed.code == 2
    assert "cannot be written (File too large): free space" in disturbed.err
    assert "Traceback" not in disturbed.err
    assert command(tmp_path, *RUN, "runs").code == 0
    runs, whole = ([bits_of(path) for path in run_paths(tmp_path / name)] for name in ("runs", "whole"))
    assert runs == whole
