"""Killed in the middle and started again: the same model, bit for bit, and the same rounds."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from commands import PATIENCE, call, rounds_on_disk, run_killed, start, write
from laws import lasting
from silobench.runs.stored import read_json, read_run, read_runs, run_paths

EXPERIMENT = """
dataset = "fcube"
model = "mlp(32)"
partition = "label-dirichlet(beta=0.5)"
parties = 10
participation = 0.5
solver = "sgd(lr=0.05, epochs=2, keep_momentum=True)"
rounds = 90
"""


def _facts(out: Path) -> list[tuple[object, ...]]:
    """Everything of the runs but their timings."""
    found = []
    for path in run_paths(out):
        facts, rows = read_json(path)
        rounds = list(map(lasting, rows))
        origin = [facts[key] for key in ("model_sha256", "state_sha256", "partition")]
        found.append((path.name, *origin, rounds))
    return found


@pytest.mark.parametrize("algorithm", ["scaffold", "solo"])
def test_a_killed_run_ends_as_one_never_interrupted(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "e.toml", EXPERIMENT + f'algorithm = "{algorithm}"\n')
    command = ["run", file, "--workers", "1", "--out"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for rounds in (3, 25):  # short rounds are committed several at a time
        run_killed(killed, rounds, *command, killed)
        assert not read_runs(killed)[0].complete
    assert call(capsys, *command, killed).code == 0
    assert call(capsys, *command, whole).code == 0
    assert _facts(killed) == _facts(whole)


def test_a_killed_sweep_leaves_no_worker_behind_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "e.toml", EXPERIMENT + 'algorithm = ["fedavg", "scaffold", "fednova"]\n')
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    run_killed(killed, 10, "run", file, "--workers", "2", "--out", killed)
    assert call(capsys, "run", file, "--workers", "1", "--out", killed).code == 0
    assert call(capsys, "run", file, "--workers", "1", "--out", whole).code == 0
    assert _facts(killed) == _facts(whole)


def test_ctrl_c_says_that_the_run_can_go_on(tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", EXPERIMENT.replace("rounds = 90", "rounds = 100000"))
    process = start("run", file, "--out", tmp_path / "runs")
    while rounds_on_disk(tmp_path / "runs") < 3 and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "run the same command again to resume" in err
    assert "Traceback" not in err
    (run,) = (file.parent for file in (tmp_path / "runs").glob("*/run.json"))
    assert len(read_run(run).rounds) >= 2
    assert json.loads((run / "run.json").read_text())["status"] == "running"
