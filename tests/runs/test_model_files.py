"""A trained network as a file: the lines that the command prints load it, and it answers as in silobench."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import silobench as sb
from commands import Result, call, write
from precision import bound
from silobench.runs.predict import trained_model

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, inputs, outputs, width=6):
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.Linear(width, outputs)
        self.again = nn.Linear(width, width)
        self.again.weight.requires_grad_(False)

    def forward(self, x):
        return self.out(self.again(torch.relu(self.norm(self.first(x.flatten(1))))))

class Odd(Net):
    def forward(self, x):
        return super().forward(x) * float(torch.ones(3).numpy().sum())
"""
LONGEST = 64 * 6  # terms in an output of any of these networks


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write(folder / "net.py", MODEL)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 3))
    lines = [f"{a:.4f},{b:.4f},{c:.4f},{1950 + 8 * a - 3 * b:.3f}" for a, b, c in x]
    write(folder / "numbers.csv", "\n".join(["a,b,c,year", *lines]) + "\n")
    return folder


def _train(
    folder: Path, out: Path, capsys: pytest.CaptureFixture[str], dataset: str, model: str, **choices: str
) -> None:
    cell = {"dataset": dataset, "model": model, "solver": "sgd(lr=0.05, epochs=1)", **choices}
    text = "\n".join(f'{key} = "{value}"' for key, value in cell.items()) + "\nparties = 3\nrounds = 2\n"
    file = write(out.parent / "e.toml", text.replace("{folder}", str(folder)))
    result = call(capsys, "run", file, "--workers", "1", "--out", out)
    assert result.code == 0, result.err


def _exported(capsys: pytest.CaptureFixture[str], out: Path, form: str, path: Path, *options: str | Path) -> Result:
    result = call(capsys, "model", out, "--format", form, "--out", path, *options)
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) == 3
    return result


def _used(result: Result, rows: Any) -> np.ndarray[Any, Any]:
    """Run the lines that the command printed on some rows."""
    names: dict[str, Any] = {"rows": rows}
    exec(result.out, names)
    outputs = names["outputs"]
    return outputs.detach().numpy() if isinstance(outputs, torch.Tensor) else outputs


CASES = [("digits", "cnn"), ("digits", "mlp(12)"), ("digits", "module(path={folder}/net.py:Net, width=5)")]


@pytest.mark.parametrize(("dataset", "model"), CASES)
@pytest.mark.parametrize("form", ["torch", "safetensors", "onnx"])
def test_a_written_network_answers_as_the_run_does(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], dataset: str, model: str, form: str
) -> None:
    out, path = tmp_path / "runs", tmp_path / f"net.{form}"
    _train(folder, out, capsys, dataset, model)
    rows = sb.load(dataset).test.x[:7]
    file = folder / "net.py" if "net.py" in model else None
    options = () if file is None else ("--model-file", file)
    expected = trained_model(out, model_file=file).outputs(rows).numpy()
    answers = _used(_exported(capsys, out, form, path, *options), rows)
    np.testing.assert_allclose(answers, expected, atol=bound(LONGEST) * np.abs(expected).max(), rtol=0)
    single = _used(_exported(capsys, out, form, path, *options), rows[:1])  # any number of rows
    np.testing.assert_allclose(single, expected[:1], atol=bound(LONGEST) * np.abs(expected).max(), rtol=0)


def test_the_torch_file_is_a_plain_state(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, path = tmp_path / "runs", tmp_path / "net.pt"
    _train(folder, out, capsys, "digits", "module(path={folder}/net.py:Net)")
    _exported(capsys, out, "torch", path, "--model-file", folder / "net.py")
    state = torch.load(path, weights_only=True)
    module = trained_model(out, model_file=folder / "net.py").network.module
    assert state.keys() == module.state_dict().keys()
    assert "norm.num_batches_tracked" in state
    assert "again.weight" in state  # frozen, so no vector of the run has it
    assert path.stat().st_size < 4 * sum(tensor.numel() for tensor in state.values()) + 8000


def test_onnx_answers_a_numeric_target_in_its_units(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    dataset = "csv(path={folder}/numbers.csv, label=year)"
    _train(folder, out, capsys, dataset, "mlp(4)")
    rows = sb.load(dataset.replace("{folder}", str(folder))).test.x
    expected = sb.predict(out, rows, encoded=True)
    answers = _used(_exported(capsys, out, "onnx", tmp_path / "net.onnx"), rows)[:, 0]
    assert 1900 < expected.mean() < 2000
    np.testing.assert_allclose(answers, expected, rtol=bound(20))


def test_a_party_has_its_own_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs"
    _train(folder, out, capsys, "digits", "linear", algorithm="solo")
    refused = call(capsys, "model", out)
    assert refused.code == 2
    assert "every party has its own model: choose one with --party" in refused.err
    rows = sb.load("digits").test.x[:5]
    answers = [_used(_exported(capsys, out, "torch", tmp_path / f"{p}.pt", "--party", p), rows) for p in "01"]
    assert not np.array_equal(*answers)


def test_errors_of_the_command_are_one_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "runs"
    _train(folder, out, capsys, "digits", "module(path={folder}/net.py:Odd)")
    wrong = call(capsys, "model", out, "--format", "onxx")
    assert wrong.code == 2
    assert "there is no format 'onxx': did you mean onnx?" in wrong.err
    unwritable = call(capsys, "model", out, "--model-file", folder / "net.py", "--out", folder / "net.py" / "x.pt")
    assert unwritable.code == 2
    assert "cannot be written" in unwritable.err
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    options = ("--format", "onnx", "--out", tmp_path / "net.onnx", "--model-file", folder / "net.py")
    missing = call(capsys, "model", out, *options)
    assert missing.code == 2
    assert "pip install 'silobench[onnx]'" in missing.err


@pytest.mark.parametrize(
    ("product", "sentence"),
    [
        ("2 if x.sum() > 0 else 1", "cannot be written as ONNX"),
        ("len(x) + 1", "fixes the number of rows: use x.shape[0]"),
    ],
)
def test_a_network_that_onnx_cannot_express_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], product: str, sentence: str
) -> None:
    out, path = tmp_path / "runs", tmp_path / "net.onnx"
    write(tmp_path / "net.py", MODEL.replace("torch.ones(3).numpy().sum()", product))
    _train(tmp_path, out, capsys, "digits", "module(path={folder}/net.py:Odd)")
    result = call(capsys, "model", out, "--format", "onnx", "--out", path, "--model-file", tmp_path / "net.py")
    assert result.code == 2
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1
    assert not path.exists()
