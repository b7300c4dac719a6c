"""`silobench silo` as the people of a lead and of silos use it, up to the first letter."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from commands import Result, call
from consortia import NAMES, write_tables
from silobench.silos import keys
from silobench.silos.consortium import Consortium
from silobench.silos.server import FOLDER, plan_of

EXPERIMENT = 'model = "linear"\nsolver = "sgd(lr=0.1, batch=16)"\nrounds = 3\n'


def find_nothing(name: str) -> None:
    return None


@pytest.fixture
def silobench(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    Path("experiment.toml").write_text(EXPERIMENT)
    return lambda *words: call(capsys, "silo", *words)


def founded(silobench: Any, *more: str) -> Result:
    """Make keys, columns and a consortium of three silos, each of which has its folder."""
    for name in NAMES:
        assert silobench("key", name, "--data", f"{name}.csv", "--folder", name).code == 0
    assert silobench("columns", "north.csv", "--label", "answer").code == 0
    silos = [word for name in NAMES for word in ("--silo", f"{name}={name}/key.pub")]
    agreement = ("--columns", "columns.toml", *silos, "--host", "127.0.0.1")
    result: Result = silobench("init", "experiment.toml", *agreement, "--out", "lead", *more)
    for name in NAMES if result.code == 0 else ():
        shutil.copytree("lead/consortium", f"{name}/consortium")
    return result


def test_a_check_shows_what_leaves_and_acceptance_is_of_one_digest(silobench: Any) -> None:
    agreed = json.loads(founded(silobench, "--json").out)
    digest, offer = agreed["digest"], json.loads(silobench("check", "north/silo.toml", "--json").out)
    marks = ("digest", "lead_key", "server_certificate", "silo_keys")
    assert {mark: agreed[mark] for mark in marks} == {mark: offer[mark] for mark in marks}
    assert offer["silo_keys"]["north"] == keys.fingerprint(Path("north/key.pub").read_text())
    assert (offer["digest"], offer["is_accepted"], offer["this_silo"]) == (digest, False, "north")
    assert offer["experiment"]["rounds"] == 3
    (update,) = [each for each in offer["leaves"] if "delta" in each["what"]]
    assert update["times"] == 3
    assert update["bytes"] >= 4 * 12  # a linear model of five features and two classes has 12 numbers
    assert "is accepted         no" in silobench("check", "north/silo.toml").out
    assert "is accepted         yes" in silobench("check", "north/silo.toml", "--accept").out
    assert digest in Path("north/silo.toml").read_text()


def test_nothing_starts_before_the_acceptance_and_after_a_change(
    silobench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silobench.silos.flower.environment.require_flower", lambda: None)
    founded(silobench)
    start = ("start", "north/silo.toml", "--superlink", "127.0.0.1:1")
    early = silobench(*start).err
    assert "did not accept it yet" in early
    assert "accept it with `silobench silo check north/silo.toml --accept`." in early
    silobench("check", "north/silo.toml", "--accept")
    file = Path("lead/consortium/experiment.toml")
    file.write_text(EXPERIMENT.replace("rounds = 3", "rounds = 4"))
    assert silobench("sign", "lead").code == 0
    shutil.copytree("lead/consortium", "north/consortium", dirs_exist_ok=True)
    refusal = silobench(*start)
    assert refusal.code == 2
    assert "accepted another one" in refusal.err


def test_a_check_refuses_the_keys_that_a_start_refuses(silobench: Any) -> None:
    founded(silobench)
    shutil.copy("south/key", "north/key")
    assert "is not the key that the consortium has for north" in silobench("check", "north/silo.toml").err
    Path("north/key").unlink()
    assert "cannot be read" in silobench("check", "north/silo.toml", "--accept").err
    assert 'accepted = ""' in Path("north/silo.toml").read_text()


def test_columns_are_replaced_on_demand_only(silobench: Any) -> None:
    Path("columns.toml").write_text("edited")
    assert silobench("columns", "north.csv", "--label", "answer").code == 2
    assert Path("columns.toml").read_text() == "edited"
    assert silobench("columns", "north.csv", "--label", "answer", "--force").code == 0
    assert "answer" in Path("columns.toml").read_text()


def test_a_wrong_key_file_is_not_repeated(silobench: Any) -> None:
    silobench("key", "north", "--data", "north.csv", "--folder", "north")
    silobench("columns", "north.csv", "--label", "answer")
    words = ("--columns", "columns.toml", "--silo", "north=north/key", "--host", "127.0.0.1")
    error = silobench("init", "experiment.toml", *words).err
    assert "north/key is a private key, which must stay with its owner" in error
    assert not any(line in error for line in Path("north/key").read_text().splitlines())


def test_a_finished_run_is_not_served_again(silobench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silobench.silos.flower.environment.require_flower", lambda: None)
    founded(silobench)
    consortium = Consortium.read_signed(Path("lead/consortium"))
    session = Path("runs") / plan_of(consortium).id / FOLDER / "session.json"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps({"consortium": consortium.digest, "ended": True}))
    result = silobench("serve", "lead")
    assert result.code == 0
    assert result.out.startswith("the run is finished")
    assert not Path("lead/private/superlink.log").exists()  # Flower was not started


@pytest.mark.parametrize("name", ["ca.crt", "columns.toml", "consortium.toml"])
def test_a_changed_file_is_not_even_checked(silobench: Any, name: str) -> None:
    founded(silobench)
    file = Path("north/consortium") / name
    file.write_text(file.read_text().replace("quorum = 2", "quorum = 1") + "\n# changed\n")
    if name == "consortium.toml":
        assert "not the lead's signature" in silobench("check", "north/silo.toml").err
    else:
        assert "ask the lead" in silobench("check", "north/silo.toml").err


def test_an_experiment_that_silos_cannot_run_writes_nothing(silobench: Any) -> None:
    Path("experiment.toml").write_text(EXPERIMENT + 'algorithm = "solo"\n')
    assert founded(silobench).code == 2
    assert not Path("lead").exists()
    assert not list(Path().glob(".consortium*"))


@pytest.mark.parametrize("words", ["start silo.toml --superlink localhost:9092", "serve lead"])
def test_without_flower_the_error_names_the_command(
    silobench: Any, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", find_nothing)
    result = silobench(*words.split())
    assert result.code == 2
    assert "pip install 'silobench[flower]'" in result.err


def test_a_new_certificate_is_announced_with_its_last_day(silobench: Any) -> None:
    founded(silobench)
    result = silobench("renew", "lead", "--host", "new.example.org")
    assert result.code == 0
    assert "holds until 20" in result.out
