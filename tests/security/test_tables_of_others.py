"""Names of others in files for other programs: a spreadsheet computes none, LaTeX and Markdown take none for markup."""

import csv
import io
from pathlib import Path

import pytest

from commands import call, write
from silobench.analysis.export import latex, markdown
from silobench.analysis.tables import Entry, Table
from silobench.safety.texts import cell
from stored import stored

FORMULAS = ("=1+1", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", " =1", "=\n1")
PLAIN = ("fedavg", "-", "+", "-0.5", "+1e-3", "-1,000.25", "1-2", "a=b", "", "-inf", "label-dirichlet(beta=0.5)")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_text(text: str) -> None:
    assert cell(text)[0] in "'\\"  # an apostrophe, or a carriage return that is written out


@pytest.mark.parametrize("text", PLAIN)
def test_other_text_stays(text: str) -> None:
    assert cell(text) == text


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    own = {name: {"rows": 9, "own": 0.5, "all": None} for name in FORMULAS}
    tests = [*FORMULAS, "all"]
    final = {"parties": own, "cross": {"models": ["shared"], "tests": tests, "scores": [[0.5] * len(tests)]}}
    stored(
        [0.1, 0.2], 0, [{}, {"final": final}], out=tmp_path / "r", dataset="odd", parties=len(FORMULAS),
        dataset_facts={"name": "=1+2"}, partition_facts={"parties": list(FORMULAS)},
        every={"metrics": {"=metric": 0.5}},
    )  # fmt: skip
    return tmp_path / "r"


def is_formula(text: str) -> bool:
    return text.strip()[:1] in tuple("=+@-") and len(text) > 1 and not text.lstrip("+-").replace(".", "").isdigit()


def test_printed_csv(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--parties",), ("--cross",)):
        reply = call(capsys, "show", runs, "--format", "csv", *options)
        assert reply.code == 0, reply.err
        texts = [text for row in csv.reader(io.StringIO(reply.out)) for text in row]
        assert ("'=1+1" in texts) == bool(options)  # the name of a party
        assert not [text for text in texts if is_formula(text)]


def test_predictions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Names of classes are in the cells of predictions, and in the heads of their probabilities."""
    names = FORMULAS[:2]
    rows = [f'{place},{place % 3},"{names[place % 2]}"' for place in range(20)]
    table = write(tmp_path / "odd.csv", "\n".join(["a,b,y", *rows]) + "\n")
    text = (
        f'dataset = "csv(path={table}, label=y)"\nmodel = "linear"\nparties = 1\nrounds = 1\nsolver = "sgd(epochs=1)"'
    )
    run = call(capsys, "run", write(tmp_path / "odd.toml", text), "--out", tmp_path / "runs", "--workers", "1")
    assert run.code == 0, run.err
    reply = call(capsys, "predict", tmp_path / "runs", table, "--probabilities")
    texts = [text for row in csv.reader(io.StringIO(reply.out)) for text in row]
    assert {text for text in texts if text.startswith("'")} <= {f"'{name}" for name in names}
    assert len(texts) == 21 * 4
    assert not [text for text in texts if is_formula(text)]


def test_exported_csv(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "export", runs, "--format", "csv").code == 0
    files = sorted((runs / "export-csv").glob("*.csv"))
    assert [file.stem for file in files] == ["parties", "rounds", "runs"]
    contents = [io.StringIO(file.read_bytes().decode()) for file in files]
    texts = [text for content in contents for row in csv.reader(content) for text in row]
    assert "'=1+1" in texts
    assert not [text for text in texts if is_formula(text)]


def test_latex_comments_and_cells() -> None:
    evil = "a\n\\input{/etc/passwd}\r\\write18{ls}%\u2028b"
    text = latex(Table(evil, [evil], [[Entry(evil)]], evil))
    lines = text.splitlines()
    assert [place for place, line in enumerate(lines) if "\\input" in line] == [0, 8]
    assert lines[0][0] == lines[8][0] == "%"  # in comments, where they do nothing
    assert len(lines) == 9


def test_markdown_cells() -> None:
    evil = "a\\|b\n<img src=x onerror=alert(1)> ![x](http://example.org)"
    text = markdown(Table(evil, ["name"], [[Entry(evil)]], evil))
    assert "<img" not in text
    assert "](" not in text
    assert len(text.splitlines()) == 7
    assert "| a\\\\\\|b &lt;img" in text  # the bar stays in its cell, although a backslash stands before it
