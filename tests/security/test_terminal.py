"""Names of others on a terminal: they are text, and can neither move the cursor nor hide what is written."""

import ast
import io
from pathlib import Path

import pytest

import silobench
from commands import call, write
from silobench.cli.output import Console, print
from stored import stored

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m"  # sets the title of the window, and clears it
TURNED = "safe\u202egnp.exe"
MARKUP = "[red]b[/red][link=http://example.org]c[/link]"
NAMES = (ESCAPE, TURNED, MARKUP)
ACTIVE = {"\x1b", "\x07", "\x9b", "\u202e", "\r", "\x08", "\x00"}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    own = {name: {"rows": 50, "own": 0.5 + place / 10, "all": None} for place, name in enumerate(NAMES)}
    for seed in range(2):
        stored(
            [0.1, 0.2], seed, [{}, {"final": {"parties": own}, "class_accuracy": [0.1, 0.2, 0.3]}], out=tmp_path / "r",
            dataset="odd", parties=3, counts=[[5, 6, 7]] * 3, partition_facts={"parties": list(NAMES)},
            dataset_facts={"name": ESCAPE, "classes": list(NAMES), "notes": list(NAMES)},
        )  # fmt: skip
    return tmp_path / "r"


@pytest.mark.parametrize(
    "options",
    [("--parties", "--details"), ("--format", "csv", "--parties"), ("--format", "markdown"), ("--format", "latex"),
     ("--json",)],
)  # fmt: skip
def test_records(runs: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    reply = call(capsys, "show", runs, *options)
    assert reply.code == 0, reply.err
    assert not ACTIVE & set(reply.out + reply.err)
    assert "x1b]0;owned" in reply.out or "u001b]0;owned" in reply.out  # it is there, as text


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of columns and classes of a CSV file, in what a command prints and in what it complains about."""
    lines = [f"x,\x1b[31mcolumn,y,{TURNED}"] + [f"{row},{row % 3},c{row % 2}\x1b[2J,{row}" for row in range(40)]
    file = write(tmp_path / "t.csv", "\n".join(lines) + "\n")
    for label, code in (("y", 0), ("\x1b[31mnone", 2)):
        reply = call(capsys, "partition", f"csv(path={file}, label='{label}')", "iid", "--parties", "2")
        assert reply.code == code, reply.err
        assert not ACTIVE & set(reply.out + reply.err)
        assert "\\x1b[" in reply.out + reply.err  # it is there, as text


def test_an_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "e.toml", 'dataset = "fcube"\nalgorithm = "fed\\u001b[31mavg"\n')
    reply = call(capsys, "run", file, "--out", tmp_path / "runs")
    assert reply.code == 2
    assert not ACTIVE & set(reply.out + reply.err)
    assert "\\x1b[31m" in reply.err


def test_colours_of_our_own_stay() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="standard", highlight=False)
    console.print(f"[bold]a[/bold] {ESCAPE}", markup=True)
    assert stream.getvalue().startswith("\x1b[1ma\x1b[0m \\x1b]0;owned")


def test_half_a_character_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with half a character, as JSON may have it, would end a plain print with a traceback."""
    print("a\ud800b")
    assert capsys.readouterr().out == "a\\ud800b\n"


@pytest.mark.parametrize("mark", "\u061c\u200e\u200f\u202a\u202e\u2066\u2069")
def test_every_mark_of_direction_is_written_out(mark: str, capsys: pytest.CaptureFixture[str]) -> None:
    print(f"a{mark}b")
    assert capsys.readouterr().out == f"a\\u{ord(mark):04x}b\n"


def test_every_command_prints_by_these_functions() -> None:
    folder = Path(silobench.__file__).parent / "cli"
    for file in folder.glob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = {
            node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        imported = {
            alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for name in calls & {"print", "Console"}:
            assert file.name == "output.py" or imported.get(name) == "silobench.cli.output", f"{file.name}: {name}"
