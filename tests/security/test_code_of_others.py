"""Files of others are data: no command executes code that a record, an agreement or an archive names."""

from collections.abc import Callable
from pathlib import Path

import pytest

from commands import call, write
from consortia import rehearsal
from silobench.errors import ConfigError
from silobench.runs.archive import pack, records_of

NET = """
from pathlib import Path
from torch import nn
Path({trace!r}).touch()

class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.layer(x)
"""
EXPERIMENT = """
dataset = "fcube"
partition = "octants"
model = "module(path={net}:Net)"
solver = "sgd(epochs=1)"
rounds = 1
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A file that exists once the code of somebody else was executed."""
    return tmp_path / "executed"


@pytest.fixture
def net(tmp_path: Path, trace: Path) -> Path:
    return write(tmp_path / "net.py", NET.format(trace=str(trace)))


@pytest.fixture
def runs(tmp_path: Path, net: Path, trace: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The run of a model in a file, as somebody may send it; the trace of making it is gone."""
    file = write(tmp_path / "own.toml", EXPERIMENT.format(net=net))
    assert call(capsys, "run", file, "--out", tmp_path / "runs", "--engine", "inline").code == 0
    assert trace.exists()  # so the code leaves a trace wherever it is executed
    trace.unlink()
    net.write_text(net.read_text() + "\n")  # else it would be remembered, and not executed again
    return tmp_path / "runs"


READING: dict[str, Callable[[Path], list[str]]] = {
    "show": lambda runs: ["show", str(runs), "--details"],
    "claims": lambda runs: ["claims", str(runs)],
    "report": lambda runs: ["report", str(runs)],
    "leaderboard": lambda runs: ["leaderboard", str(runs)],
    "check": lambda runs: ["leaderboard", "check", str(runs)],
    "export": lambda runs: ["export", str(runs), "--format", "csv"],
    "predict": lambda runs: ["predict", str(runs), str(runs / "rows.npy")],
    "model": lambda runs: ["model", str(runs), "--out", str(runs / "model.pt")],
}


def test_no_command_that_reads_runs_executes_their_model(
    runs: Path,
    trace: Path,
    net: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # what is made of an archive is written there
    for name, arguments in READING.items():
        reply = call(capsys, *arguments(runs))
        assert not trace.exists(), name
        assert "Traceback" not in reply.err, name
    archive = runs / "all.runs.xz"
    pack(records_of(runs), archive)
    for name in READING.keys() - {"predict", "model"}:  # an archive has no models
        reply = call(capsys, *READING[name](archive))
        assert not trace.exists(), name
        assert "Traceback" not in reply.err, name
        assert name == "check" or reply.code == 0, (name, reply.err)
    assert f"--trust {net}" in call(capsys, "leaderboard", "check", runs).err
    assert "--model-file" in call(capsys, "predict", runs, runs / "rows.npy").err


def test_a_user_who_trusts_a_file_executes_it(
    runs: Path, trace: Path, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "leaderboard", "check", runs, "--trust", net)
    assert trace.exists()


@pytest.mark.parametrize("form", ["module(path={}:Net)", "Module({}:Net)", "module_( path = {} )"])
def test_a_silo_does_not_execute_what_the_lead_names(form: str, tmp_path: Path, net: Path, trace: Path) -> None:
    three = rehearsal(tmp_path / "silos")
    with pytest.raises(ConfigError, match="a file with code is not a part of what silos agree on"):
        three.again(model=form.format(net))
    assert not trace.exists()
