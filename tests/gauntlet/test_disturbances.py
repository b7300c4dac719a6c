"""The short form of the gauntlet of disturbances, in this process; `python -m gauntlet` tries all of them.

Ctrl-C has its test in `tests/runs/test_resume.py`, and two processes in one run in `tests/runs/test_writer.py`.
"""

from pathlib import Path

import pytest

from gauntlet.disturbances import experiment
from gauntlet.results import bits_of, command
from offline import disk_of
from silobench.processes import cache_folder
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


def test_a_user_without_a_home_has_caches_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system that does not know the user cannot name a home: "~" is left as it is, or an error."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert cache_folder() == tmp_path / ".silobench"
