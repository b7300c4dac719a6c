"""The examples of docs/models.md are at most 15 lines long, and do what the page says."""

import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from commands import call, write
from silobench.models import MODELS
from silobench.runs.stored import read_runs

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/models.md").read_text(encoding="utf-8")
PYTHON, SKLEARN, PREDICT = "class Net", "SGDClassifier", 'sb.predict("runs'
MOST_LINES = 15


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def _block(word: str) -> str:
    return next(code for code in _blocks("python") if word in code)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = dict(MODELS.factories)
    yield
    MODELS.factories.clear()
    MODELS.factories.update(before)


@pytest.fixture
def patients(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run on a table with numbers and categories, and new rows without a label."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(120):
        age, ward = rng.normal(60, 15), rng.choice(["heart", "lung"])
        lines.append(f"{age:.1f},{ward},site{row % 3},{'died' if age > 65 else 'alive'}")
    write(tmp_path / "patients.csv", "\n".join(["age,ward,hospital,outcome", *lines]) + "\n")
    write(tmp_path / "new.csv", "ward,age\nheart,20\nlung,99\nheart,61\n")
    text = (
        'dataset = "csv(path=patients.csv, label=outcome, group=hospital)"\npartition = "by-group"\n'
        'model = "linear"\nsolver = "sgd(lr=0.1, epochs=3)"\nrounds = 5\n'
    )
    experiment = write(tmp_path / "patients.toml", text)
    assert call(capsys, "run", experiment, "--workers", "1", "--out", "runs/patients").code == 0
    return tmp_path


def test_examples_are_short() -> None:
    assert len(_blocks("python")) == 4
    for code in (*_blocks("python"), *_blocks("toml")):
        assert len([line for line in code.splitlines() if line]) <= MOST_LINES, code


def test_a_module_is_trained_and_used_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(write(tmp_path / "python.py", _block(PYTHON))))
    answers, accuracy = re.fullmatch(r"\[(.*)\] (.*)\n", capsys.readouterr().out).groups()  # type: ignore[union-attr]
    assert re.fullmatch(r"'\d' '\d' '\d'", answers)
    assert float(accuracy) > 0.5


def test_a_file_and_a_plugin_are_run_as_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = _block(PYTHON)
    write(tmp_path / "model.py", code[: code.index("digits =")])
    write(tmp_path / "plugin.py", _block("MODELS.register"))
    write(tmp_path / "mine.toml", _blocks("toml")[0])
    for command in ("silobench run mine.toml --out", "silobench run mine.toml --plugin"):
        (line,) = [each for block in _blocks("console") for each in block.splitlines() if command in each]
        result = call(capsys, *shlex.split(line)[2:], "--workers", "1")
        assert result.code == 0, result.err
    assert sorted(run.label["model"] for run in read_runs(Path("runs/mine"))) == [
        "module(path=model.py:Net)",
        "module(path=model.py:Net, width=64)",
    ]
    (run,) = read_runs(Path("runs/plugin"))
    assert run.label["model"] == "two-layers(width=16)"
    assert run.facts.parameters == 65 * 16 + 17 * 10


def test_an_estimator_is_trained_and_comes_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(write(tmp_path / "sklearn_example.py", _block(SKLEARN))))
    same, accuracy = map(float, capsys.readouterr().out.split())
    assert same > 0.99  # two outputs may be equal up to rounding
    assert accuracy > 0.8


def test_new_rows_are_predicted_as_shown(patients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in _blocks("console") for line in block.splitlines() if "silobench predict" in line]
    assert len(lines) == 2
    printed = call(capsys, *shlex.split(lines[0])[2:])
    assert printed.out.splitlines()[:3] == ["row,prediction", "1,alive", "2,died"]
    assert call(capsys, *shlex.split(lines[1])[2:]).code == 0
    assert (patients / "answers.csv").read_text().startswith("row,prediction,p(alive),p(died)\n1,alive,0.")
    (patients / "patients.csv").unlink()  # encoder.json is enough
    runpy.run_path(str(write(patients / "predicting.py", _block(PREDICT))))
    assert capsys.readouterr().out.startswith("['alive' 'died' '")


@pytest.mark.usefixtures("patients")
def test_the_model_is_written_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for block in _blocks("console") for line in block.splitlines() if "silobench model" in line]
    assert len(lines) == 2
    for line in lines:
        result = call(capsys, *shlex.split(line)[2:])
        assert result.code == 0, result.err
        names = {"rows": np.zeros((2, 3), np.float32)}
        exec(result.out, names)
        assert tuple(names["outputs"].shape) == (2, 2)
