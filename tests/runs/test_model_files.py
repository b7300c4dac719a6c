"""A trained network as a file: the lines that the command prints load it, and it answers as in silobench."""

import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import silobench as sb
from commands import Result, call, write
from precision import bound
from silobench.errors import DataError
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.predict import trained_model
from silobench.runs.prepare import prepare
from silobench.runs.stored_model import _load

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


PLUGIN = """
import numpy as np
import silobench as sb
from silobench.data import DATASETS

WORDS = tuple("pad unk good bad film book plot long fine dull".split())

@DATASETS.register
def opinions() -> sb.Dataset:
    rng = np.random.default_rng(0)
    x = rng.integers(2, len(WORDS), (60, 7)) * (np.arange(7) < rng.integers(1, 8, (60, 1)))
    split = sb.Split(x.astype(np.int32), (x == 2).sum(1) > 0)
    return sb.Dataset("opinions", split, split, ("no", "yes"), vocabulary=WORDS)
"""


def _replace_vectors(monkeypatch: pytest.MonkeyPatch, vectors: Callable[..., Any]) -> None:
    """Replace the published vectors, whose file is not here, by a function (name, words)."""
    lstm = sys.modules["silobench.models.lstm"]
    monkeypatch.setattr(lstm, "word_vectors", vectors)
    monkeypatch.setattr(lstm, "coverage", lambda _, words: (len(words), len(words)))


@pytest.mark.parametrize("vectors", ["random-6d", "glove-50d"])
def test_a_network_gets_its_word_vectors_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, vectors: str
) -> None:
    def of_lengths(name: str, words: tuple[str, ...]) -> np.ndarray[Any, Any]:
        assert name == "glove-50d"
        return np.array([[len(word), ord(word[0]) - 100, 1.0] for word in words], dtype=np.float32)

    _replace_vectors(monkeypatch, of_lengths)
    plugin, out = write(tmp_path / "opinions.py", PLUGIN), tmp_path / "runs"
    cell = f'dataset = "opinions"\nmodel = "lstm(hidden=4, vectors={vectors})"\nparties = 3\nrounds = 2\n'
    result = call(capsys, "run", write(tmp_path / "e.toml", cell), "--plugin", plugin, "--workers", "1", "--out", out)
    assert result.code == 0, result.err
    rows = sb.load("opinions").test.x
    model = trained_model(out, plugins=[plugin])
    expected = model.outputs(rows).numpy()
    *_, record = model.run.rounds
    answers = sb.predict(out, rows, plugins=[plugin])
    assert (answers == np.array(["no", "yes"])[sb.load("opinions").test.y]).mean() == record.accuracy
    for form in ("torch", "safetensors", "onnx") if vectors == "glove-50d" else ("torch", "safetensors"):
        exported = _exported(capsys, out, form, tmp_path / form, "--plugin", plugin)
        np.testing.assert_allclose(_used(exported, rows), expected, rtol=0, atol=_bound_of_lstm(rows.shape[1], 50))


def test_other_words_with_the_same_numbers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum of the arrays stays the same, but the network would look up the vectors of other words."""
    _replace_vectors(monkeypatch, lambda _, words: np.ones((len(words), 3), np.float32))
    texts = ["text,label", *(f"{'good' if row % 2 else 'bad'} film {row % 7},{row % 2}" for row in range(60))]
    table, out = write(tmp_path / "texts.csv", "\n".join(texts)), tmp_path / "runs"
    cell = f'dataset = "csv(path={table}, label=label, text=text)"\nmodel = "lstm(hidden=2)"\nparties = 2\nrounds = 1\n'
    result = call(capsys, "run", write(tmp_path / "e.toml", cell), "--workers", "1", "--out", out)
    assert result.code == 0, result.err
    before = trained_model(out)
    assert before.sizes is not None
    write(table, "\n".join(texts).replace("film", "fils"))  # at the same place among the words
    _load.cache_clear()
    with pytest.raises(DataError, match=r"the words of csv\(.* have changed since .*: restore it as it was then"):
        trained_model(out)
    earlier = replace(before.rows, words_checksum="")  # a run of an earlier version
    monkeypatch.setattr("silobench.runs.stored_model._row_format", lambda run: earlier)
    after = trained_model(out).sizes
    assert after is not None
    assert set(after.words) ^ set(before.sizes.words) == {"film", "fils"}


def _bound_of_lstm(steps: int, terms: int) -> float:
    """Return a bound of what rounding adds up to in float32: two layers, `steps` sums of `terms` products each."""
    return 2 * 2 * steps * terms * float(np.finfo(np.float32).eps)


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
    exported = _exported(capsys, out, form, path, *options)
    answers, single = (_used(exported, some) for some in (rows, rows[:1]))  # any number of rows
    np.testing.assert_allclose(answers, expected, atol=bound(LONGEST) * np.abs(expected).max(), rtol=0)
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


def test_only_a_model_of_the_same_format_is_replaced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, forms = tmp_path / "runs", ("torch", "safetensors", "onnx")
    _train(folder, out, capsys, "csv(path={folder}/numbers.csv, label=year)", "linear")
    (state,) = out.glob("*/checkpoint/state.safetensors")
    archive = tmp_path / "letter.docx"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("word/document.xml", "<w:document/>")
    others = [state, archive, write(tmp_path / "a.csv", "a,b\n1,2\n"), write(tmp_path / "onnx", "\x08\x08\x12\x01x")]
    for form in forms:
        (tmp_path / f"model.{form}").touch()
        for _ in range(2):
            _exported(capsys, out, form, tmp_path / f"model.{form}")
    for form in forms:
        for other in (*others, *(tmp_path / f"model.{each}" for each in forms if each != form)):
            before = other.read_bytes()
            result = call(capsys, "model", out, "--format", form, "--out", other)
            sentence = f"{other} exists and is not a model in the format {form}: choose another name with --out, or"
            assert (result.code, sentence in result.err) == (2, True), other
            assert other.read_bytes() == before


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


VERTICAL = """
dataset = "breast-cancer"
partition = "columns(by=block)"
model = "mlp(hidden=4, top=4)"
algorithm = ["split", "split(defence=noise(deviation=1))", "boosted-trees(bins=4)"]
rounds = 1
"""


@pytest.fixture(scope="module")
def vertical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return runs of parties that hold columns: a network, one behind a defence, and trees."""
    out = tmp_path_factory.mktemp("vertical")
    for planned in plan(tomllib.loads(VERTICAL)):
        for _ in execute(prepare(planned), out):
            pass
    return out


@pytest.mark.parametrize("form", ["torch", "safetensors", "onnx"])
@pytest.mark.parametrize(
    ("algorithm", "sentence"),
    [
        ("boosted-trees*", "cannot be written, because it has trees, not a network: use `silobench predict`."),
        ("split(noise*", "because its activations go through a defence or transforms before they reach the label"),
    ],
)
def test_no_format_is_advised_for_a_model_without_one(
    vertical: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str, sentence: str, form: str
) -> None:
    only = ("--only", f"*{algorithm} / seed 0")
    refused = call(capsys, "model", vertical, *only, "--format", form, "--out", tmp_path / "model")
    assert refused.code == 2
    assert sentence in refused.err
    assert "mlp" not in refused.err
    assert "--format" not in refused.err
    np.save(tmp_path / "rows.npy", sb.load("breast-cancer").test.x[:3])
    advised = call(capsys, "predict", vertical, tmp_path / "rows.npy", *only)
    assert len(advised.out.splitlines()) == 1 + 3


def test_a_network_over_columns_is_written_in_the_format_that_is_advised(
    vertical: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ("--only", "* / split / seed 0")
    for form in ("torch", "safetensors"):
        refused = call(capsys, "model", vertical, *only, "--format", form, "--out", tmp_path / "model")
        assert refused.code == 2
        assert "a file of weights does not state which: use --format onnx." in refused.err
    rows = sb.load("breast-cancer").test.x[:7]
    answers = _used(_exported(capsys, vertical, "onnx", tmp_path / "model.onnx", *only), rows)
    expected = trained_model(vertical, only=only[1]).outputs(rows).numpy()
    np.testing.assert_allclose(answers, expected, atol=bound(LONGEST) * np.abs(expected).max(), rtol=0)
