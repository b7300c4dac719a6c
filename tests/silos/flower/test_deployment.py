"""Three silos and a lead by Flower on this machine: the results of one place, and nobody gets in who should not.

One process in the environment that has Flower runs everything; the tests read what it wrote. Where Flower is not
installed they are skipped.
"""

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import deployment
from commands import PATIENCE, call
from consortia import EXPERIMENT, MARK, NAMES
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import StoredRun, read_run
from silobench.training.state import RoundRecord

ROOT = Path(__file__).parents[3]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all runs took place. The processes of a parallel session share it."""
    python = deployment.flower_python()
    if python is None:
        pytest.skip("Flower is not installed: pip install 'silobench[flower]'")
    temporary = tmp_path_factory.getbasetemp()
    root = (temporary.parent if "PYTEST_XDIST_WORKER" in os.environ else temporary) / "deployment"
    with FileLock(f"{root}.lock"):
        if not root.exists():
            root.mkdir()
            _deploy(python, root)
    assert (root / "facts.json").exists(), (root / "output.log").read_text()
    return root


def _deploy(python: str, root: Path) -> None:
    paths = [str(ROOT / "src"), str(ROOT / "tests")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    command = [python, str(ROOT / "tests" / "deployment.py"), str(root)]
    with (root / "output.log").open("wb") as file:
        try:
            subprocess.run(command, env=environment, stdout=file, stderr=file, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired as error:  # in the file, so that every test that misses the facts says it
            file.write(f"{error}\n".encode())


@pytest.fixture(scope="module")
def facts(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return content


def run_of(folder: Path, facts: dict[str, Any], name: str) -> StoredRun:
    """Return the stored run of a consortium."""
    return read_run(folder / "runs" / facts["ids"][name])


def inline(folder: Path, name: str, out: Path) -> list[RoundRecord]:
    """Run the same experiment on all rows in one place."""
    files = ", ".join(str(folder / f"{silo}.csv") for silo in NAMES)
    dataset = f"silos(files=[{files}], columns={folder / 'columns.toml'})"
    choices = {**EXPERIMENT, "rounds": deployment.ROUNDS, **deployment.METHODS[name], "dataset": dataset}
    (planned,) = plan(choices)
    return list(execute(prepare(planned), out, "inline"))


@pytest.mark.parametrize("name", deployment.METHODS)
def test_metrics_are_those_of_all_rows_in_one_place(
    folder: Path, facts: dict[str, Any], tmp_path: Path, name: str
) -> None:
    run, records = run_of(folder, facts, name), inline(folder, name, tmp_path)
    assert run.complete
    assert len(run.rounds) == deployment.ROUNDS == len(records)
    for row, record in zip(run.rounds, records, strict=True):
        assert row.accuracy == pytest.approx(record.accuracy, abs=TOLERANCE)
        assert row.loss == pytest.approx(record.loss, abs=TOLERANCE)


def test_strangers_and_false_servers_are_refused(folder: Path, facts: dict[str, Any]) -> None:
    assert all(facts["exit"].values())
    assert "Failed to activate SuperNode" in (folder / "unregistered.log").read_text()
    assert "CERTIFICATE_VERIFY_FAILED" in (folder / "certificate.log").read_text()
    assert not any("SuperNode ID" in (folder / f"{name}.log").read_text() for name in facts["exit"])


def test_an_app_of_somebody_else_is_not_executed(folder: Path, facts: dict[str, Any]) -> None:
    assert facts["foreign"] == {"executed": False, "refused": True, "answers": "0"}
    for silo in ("north", "south"):
        assert not (folder / silo / "flower" / "apps").exists()  # where Flower would install it


def test_a_silo_that_was_killed_takes_part_again(folder: Path, facts: dict[str, Any]) -> None:
    run, seen = run_of(folder, facts, deployment.REJOINING), facts[deployment.REJOINING]
    west = NAMES.index("west")
    present = [west in (row.cohort if row.replied is None else row.replied) for row in run.rounds]
    assert seen["killed"] < 0
    assert seen["code"] == 0
    assert run.complete
    assert present[0]
    assert False in present
    assert True in present[present.index(False) :]
    assert "it starts again in" in (folder / "west" / "start.log").read_text()  # Flower does not let it in at once


def test_nobody_on_the_wire_and_nobody_at_the_server_sees_a_cell(folder: Path) -> None:
    """The desks show all that leaves silos without TLS. Letters have the model, so the search finds what is there."""
    wire, desks = (folder / "wire.bin").read_bytes(), (folder / "desks.bin").read_bytes()
    forms = [struct.pack("<f", MARK), struct.pack("<d", MARK), repr(MARK).encode(), f"{MARK:.6g}".encode()]
    assert len(wire) > 100_000
    for form in forms:
        assert form not in wire
        assert form not in desks
    assert b'"kind":"train"' in desks
    assert b'"kind":"train"' not in wire


def test_show_and_report_do_not_know_the_difference(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "fedavg" in call(capsys, "show", folder / "runs").out
    assert call(capsys, "report", folder / "runs").code == 0
    assert "scaffold" in (folder / "runs" / "report" / "index.html").read_text()
