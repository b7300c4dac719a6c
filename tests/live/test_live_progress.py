"""Progress of runs: who is finished, in progress, stopped or not started, and how long it will take."""

import os
from pathlib import Path

import pytest

from growing import GrowingRun
from silobench.live.progress import Progress, progress_of
from silobench.live.records import RecordReader, look_at
from silobench.runs.results import write_planned
from stored import stored

NOW = 2e9  # seconds since 1970: after every change of a file in these tests


def progress(root: Path, silent_for: float = 0.0) -> Progress:
    """Return the progress of runs whose files did not change for some seconds."""
    for file in root.rglob("*"):
        os.utime(file, (NOW - silent_for,) * 2)
    look = look_at(root)
    return progress_of(RecordReader(root).read(look), look, NOW)


def test_counts_of_runs_and_rounds(tmp_path: Path) -> None:
    stored([0.5] * 4, 0, out=tmp_path)
    GrowingRun(tmp_path, [0.1] * 8, seed=1).grow(3)
    names = {path.name: "started" for path in look_at(tmp_path).runs} | {"0" * 16: "a", "1" * 16: "b"}
    write_planned(tmp_path, "experiment", names, is_part=False)
    now = progress(tmp_path)
    assert (now.finished, now.in_progress, now.stopped, now.not_started, now.runs) == (1, 1, 0, 2, 4)
    assert (now.rounds_done, now.rounds_total) == (7, 12)
    # A round takes a second: 5 rounds are left, and two runs of 6 rounds, the mean of the two.
    assert now.seconds_left == pytest.approx(17.0)
    assert now.text() == (
        "1 of 4 runs finished, 1 in progress, 2 not started · 7 of 12 rounds of started runs done · about 17 s left"
    )


def test_runs_side_by_side_share_the_time(tmp_path: Path) -> None:
    for seed in (0, 1):
        GrowingRun(tmp_path, [0.1] * 10, seed=seed).grow(4)
    assert progress(tmp_path).seconds_left == pytest.approx(6.0)


def test_a_silent_run_counts_as_stopped(tmp_path: Path) -> None:
    GrowingRun(tmp_path, [0.1] * 3).grow(2)
    assert progress(tmp_path, silent_for=50).in_progress == 1
    now = progress(tmp_path, silent_for=70)
    assert (now.in_progress, now.stopped, now.seconds_left) == (0, 1, None)


def test_long_rounds_may_be_silent_for_longer(tmp_path: Path) -> None:
    GrowingRun(tmp_path, [0.1] * 3, every={"seconds": {"train": 100.0}}).grow(2)
    assert progress(tmp_path, silent_for=900).in_progress == 1
    assert progress(tmp_path, silent_for=1100).stopped == 1


def test_before_the_first_round_nothing_is_known_of_time(tmp_path: Path) -> None:
    GrowingRun(tmp_path, [0.1] * 3)
    now = progress(tmp_path, silent_for=70)
    assert (now.in_progress, now.rounds_done, now.rounds_total, now.seconds_left) == (1, 0, 3, None)


def test_all_runs_finished(tmp_path: Path) -> None:
    stored([0.5] * 4, 0, out=tmp_path)
    assert progress(tmp_path).text() == "1 of 1 runs finished"


def test_runs_that_are_only_planned(tmp_path: Path) -> None:
    assert progress(tmp_path).text() == "no run yet"
    write_planned(tmp_path, "experiment", {"0" * 16: "a", "1" * 16: "b"}, is_part=False)
    assert progress(tmp_path).text() == "0 of 2 runs finished, 2 not started"
