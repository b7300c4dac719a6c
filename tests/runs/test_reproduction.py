"""The experiment file of a stored run plans the same run."""

import shlex
import tomllib
from pathlib import Path

import pytest

from commands import call, write
from silobench.runs.experiment import plan, read_experiment
from silobench.runs.label import Label
from silobench.runs.plan import Plan
from silobench.runs.reproduction import command, experiment_choices, experiment_text
from silobench.runs.stored import read_run, read_runs
from silobench.spec.toml import toml_text
from stored import stored

EXPERIMENTS = {
    "plain": 'dataset = "fcube"\npartition = "octants"\nrounds = 2\nseed = 7\n',
    "sums and chains": (
        'dataset = "digits"\npartition = "label-dirichlet(beta=0.5) + noise(sigma=0.1)"\nparties = 4\n'
        'transforms = "clip(norm=1.0) | quantize"\nbroadcast = "top-k"\nparticipation = 0.5\n'
    ),
    "lists": 'dataset = "digits"\nmeasure = ["norm-divergence", "replicas"]\nmetric = ["macro-f1"]\nvalidation = 0.1\n',
    "lockstep": 'dataset = "digits"\nalgorithm = "bsp"\nsolver = "sgd(lr=0.05)"\nrounds = 3\n',
    "no server": 'dataset = "digits"\nexchange = "gossip(graph=torus)"\nselection = "uniform"\n',
    "schedule": 'dataset = "digits"\nsolver = "sgd(lr=exponential(start=0.1, decay=0.99))"\nserver = "adam"\n',
    "columns": 'dataset = "breast-cancer"\npartition = "columns(by=block)"\nparties = 2\nsplit = "10:1:1"\n',
    "private": 'dataset = "digits"\nsolver = "dp-sgd(noise=1.0)"\nmodel = "mlp(8)"\n',
    "clock and pace": 'dataset = "digits"\nclock = "device(speed=1000)"\npace = "buffered(2)"\nnetwork = "10Mbps"\n',
}


def again(one: Plan) -> list[str]:
    """Return the ids that the experiment file of a plan's label asks for."""
    return [other.id for other in plan(tomllib.loads(toml_text(experiment_choices(Label(one.label)))))]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_file_plans_the_same_run(name: str) -> None:
    for one in plan(tomllib.loads(EXPERIMENTS[name])):
        assert one.id in again(one), one.label


def test_a_suite_is_reproduced_run_by_run() -> None:
    from silobench.papers import suites

    plans = plan(read_experiment(suites.path("demo")))
    assert [again(one) for one in plans] == [[one.id] for one in plans]


def test_the_command_does_the_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = write(tmp_path / "e.toml", 'dataset = "fcube"\npartition = "octants"\nrounds = 1\nseed = 3\n')
    assert call(capsys, "run", first, "--out", "runs", "--workers", "1").code == 0
    assert call(capsys, "report", "runs").code == 0
    (run,) = read_runs(tmp_path / "runs")
    monkeypatch.chdir(tmp_path / "runs/report/runs")  # where the file of the run is
    _, *arguments = shlex.split(command(run, f"{run.facts.id}.toml"))
    assert call(capsys, *arguments, "--workers", "1").code == 0
    repeated = read_run(Path("runs/again") / run.facts.id)
    assert repeated.facts.state_sha256 == run.facts.state_sha256 != ""


def test_plugins_are_part_of_the_command() -> None:
    run = stored([0.5], algorithm="fedavg(plugin='mine.py')", plugins=["mine.py 0123456789abcdef", "a b"])
    assert command(run, "x.toml") == "silobench run x.toml --out runs/again --plugin mine.py --plugin a"
    assert experiment_choices(run.label)["algorithm"] == "fedavg"


@pytest.mark.parametrize(
    "value",
    ['a"b', "back\\slash", "line\nbreak", "tab\t", "ünï", "\x7f", True, 0.1, 1e-05, 3, float("inf"), ["a", "b"]],
)
def test_values_survive_toml(value: object) -> None:
    assert tomllib.loads(toml_text({"key": value}))["key"] == value


def test_a_choice_without_a_value_is_left_out() -> None:
    assert "parties" not in experiment_text(stored([0.5], parties=10)).replace("parties = 10", "")
    assert "parties" not in experiment_choices(Label({"parties": None, "rounds": 1, "measure": ""}))
