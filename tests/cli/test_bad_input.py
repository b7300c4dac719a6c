"""Places that cannot be written, damage and a full disk: one sentence, exit code 2, and nothing recorded is lost."""

import os
import resource
from pathlib import Path

import pytest

from commands import PATIENCE, TINY, call, start, write


def refused(result, fragment: str) -> None:
    assert result.code == 2, result
    notices = ("compiling the native step", "the native step is not available")  # logged once per process
    lines = [line for line in result.err.strip().splitlines() if not line.startswith(notices)]
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    assert fragment in lines[0]
    assert "Traceback" not in result.out + result.err


@pytest.mark.parametrize("place", ["/proc/silobench", "{file}/runs"])
def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str) -> None:
    file = write(tmp_path / "tiny.toml", TINY)
    refused(call(capsys, "run", file, "--workers", "1", "--out", place.format(file=file)), "cannot be written")


def test_a_damaged_run_is_reported_and_loses_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY), tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    first, second = sorted(file.parent for file in out.glob("*/run.json"))
    kept = (second / "rounds.jsonl").read_bytes()
    (first / "rounds.jsonl").write_bytes(b"")
    for command in (["run", file, "--out", out], ["show", out], ["report", out]):
        refused(call(capsys, *command), "rounds.jsonl is damaged")
    assert (second / "rounds.jsonl").read_bytes() == kept


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_disk_keeps_what_is_recorded_and_the_run_goes_on_later(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workers: str
) -> None:
    file = write(tmp_path / "tiny.toml", TINY.replace("rounds = 3", "rounds = 40"))
    limit = 6_000  # bytes a file may have: fits some rounds of this run, not all
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = start(
        "run", file, "--workers", workers, "--out", tmp_path / "runs", env=unmeasured,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    _, err = process.communicate(timeout=PATIENCE)
    last = err.strip().splitlines()[-1]
    assert process.returncode == 2, err
    assert "cannot be written" in last
    assert "Traceback" not in err
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "fresh").code == 0
    for path in (file.parent for file in (tmp_path / "fresh").glob("*/run.json")):
        model = '"model_sha256"'
        lines = [next(line for line in (root / path.name / "run.json").read_text().splitlines() if model in line)
                 for root in (tmp_path / "runs", tmp_path / "fresh")]  # fmt: skip
        assert lines[0] == lines[1]


@pytest.mark.parametrize("command", [["show"], ["leaderboard"], ["report"]])
def test_a_directory_that_this_user_may_not_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user without the right; root has every right
    refused(call(capsys, *command, tmp_path), "which this user may not read: check its permissions.")


def test_rows_in_a_folder_cannot_be_predicted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY), tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    run = min(file.parent for file in out.glob("*/run.json"))
    refused(call(capsys, "predict", run, tmp_path), "is a folder, not a file: give the path of a file.")


def test_one_damaged_run_of_an_export_is_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, out = write(tmp_path / "tiny.toml", TINY), tmp_path / "runs"
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    min(file for file in out.glob("*/run.json")).write_text("")
    refused(call(capsys, "export", out), "1 of 2 runs is left out: ")
