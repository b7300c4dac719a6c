"""Commands that read runs load neither torch nor, but for a report, matplotlib."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from commands import TINY, call, write

CODE = """
import json, sys
from silobench.cli import app
arguments = sys.argv[1:]
loaded = {}
for line in arguments:
    sys.argv = ["silobench", *json.loads(line)]
    try:
        app.main()
    except SystemExit as stop:
        assert not stop.code, line
    loaded[line] = sorted({"torch", "scipy", "matplotlib"} & sys.modules.keys())
print(json.dumps(loaded), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from silobench.runs import experiment
    from silobench.runs.execute import execute
    from silobench.runs.prepare import prepare

    folder = tmp_path_factory.mktemp("light")
    for plan in experiment.plan(experiment.read_experiment(write(folder / "e.toml", TINY + "trials = 2\n"))):
        for _ in execute(prepare(plan), folder / "runs"):
            pass
    return folder / "runs"


def test_commands_that_read_runs_load_little(runs: Path) -> None:
    """One process runs all of them."""
    commands = [
        ["list", "suites"], ["show", runs], ["show", runs, "--json"], ["claims", runs, "--evidence"],
        ["compare", runs, "fedavg", "scaffold"], ["report", runs],
    ]  # fmt: skip
    lines = [json.dumps(list(map(str, command))) for command in commands]
    done = subprocess.run([sys.executable, "-c", CODE, *lines], check=True, capture_output=True, text=True)
    loaded = list(json.loads(done.stderr.splitlines()[-1]).values())
    assert loaded == [[]] * 6
    assert (runs / "report" / "index.html").exists()


def test_the_same_numbers_as_in_a_process_with_torch(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from silobench.cli import app; app.main()"
    light = subprocess.run([sys.executable, "-c", code, "show", runs, "--json"], check=True, capture_output=True)
    assert json.loads(light.stdout) == json.loads(call(capsys, "show", runs, "--json").out)
