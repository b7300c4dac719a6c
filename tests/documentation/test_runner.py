"""The runner of pages can fail: it refuses a wrong output, command or experiment, and an unknown block."""

import subprocess
from pathlib import Path

import pytest

from commands import Result
from documentation import session as sessions
from documentation.blocks import Block
from documentation.console import Command, commands_of
from documentation.outputs import need_alike, need_printed
from documentation.planning import installable, make_target, parsed, planned, planned_text
from documentation.session import Session
from documentation.walk import script_of
from silobench.cli.usage import UsageError
from silobench.errors import SilobenchError


def block(language: str, text: str, before: str = "", output: str | None = None) -> Block:
    return Block("docs/page.md", 1, language, text, before, output)


@pytest.fixture
def doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """(blocks) -> what a session does with a page of them."""
    monkeypatch.chdir(tmp_path)

    def do(*blocks: Block) -> list[str]:
        monkeypatch.setattr(sessions, "blocks_of", lambda page: list(blocks))
        return list(Session("docs/page.md", capsys).run().values())

    return do


def test_commands_of_a_block() -> None:
    text = """$ silobench show runs --only '*a; b*'; ls    # two commands
first line

second line
$ for name in a b; do
    silobench run $name.toml \\
      --out "runs/$name"; done
$ silobench partition digits "#C=2"
"""
    assert commands_of(text) == [
        Command("silobench show runs --only '*a; b*'"),
        Command("ls", ("first line", "second line")),
        Command('silobench run a.toml --out "runs/a"'),
        Command('silobench run b.toml --out "runs/b"'),
        Command('silobench partition digits "#C=2"'),
    ]


@pytest.mark.parametrize(
    ("each", "name"),
    [
        (block("python", "x = 1", before="Save this as `mine.py`:"), "mine.py"),
        (block("toml", "# mine.toml: two runs\nrounds = 1"), "mine.toml"),
        (block("python", "@sb.MODELS.register\ndef net(width=3):\n    pass"), "net.py"),
        (block("python", "x = 1", before="as `mine.py` shows"), None),
    ],
)
def test_the_file_of_a_block(each: Block, name: str | None) -> None:
    assert each.file == name


def test_names_last_from_block_to_block_and_files_are_there_from_the_start(doing) -> None:
    toml = block("toml", '# late.toml\ndataset = "fcube"\nrounds = 1\n')
    shown = block("console", "$ cat late.toml\nrounds = 1\n")
    first, second = block("python", "x = 1"), block("python", "print(x + 1)", output="2\n")
    assert doing(shown, first, second, toml) == ["executed", "executed", "executed", "planned 1 runs"]


@pytest.mark.parametrize(
    "wrong",
    [
        block("python", "print(1)", output="2\n"),
        block("python", "raise AssertionError"),
        block("console", "$ cat nothing\n"),
        block("console", "$ echo one\ntwo\n"),
        block("console", "no prompt\n"),
        block("toml", 'dataset = "fcube"\nsolver = "sgd('),
        block("rust", "fn main() {}"),
    ],
    ids=["output", "code", "command", "line", "prompt", "toml", "language"],
)
def test_a_wrong_block_fails(doing, wrong: Block) -> None:
    with pytest.raises(AssertionError):
        doing(wrong)


def test_a_wrong_experiment_fails() -> None:
    assert planned_text('clock = "device(speed=1)"\nclock = "device(speed=2)"\n') == 2
    with pytest.raises(SilobenchError, match="fedavgg"):
        planned_text('algorithm = "fedavgg"')


def test_a_command_line_is_parsed_and_planned_without_its_data() -> None:
    assert parsed(["data", "fetch", "mnist", "--from", "registry"])["names"] == ["mnist"]
    with pytest.raises(UsageError):
        parsed(["show", "runs", "--nothing"])
    suite = ["run", "niid-table3", "--scale", "paper", "--only", "mnist / iid / fedavg*"]
    assert planned(suite) == 3
    with pytest.raises(SilobenchError, match="matches none"):
        planned([*suite, "--only", "mnist / nothing*"])
    with pytest.raises(SilobenchError):
        planned([*suite, "--set", "solver=sgdd"])


def test_a_newcomer_walks_a_page_from_the_clone_on() -> None:
    """The script has all steps of the page, those that tests cannot do included, and stops at a failure."""
    script = script_of("docs/first-silos.md")
    steps = [line for line in script.splitlines() if line.startswith("step ")]
    assert steps[0].startswith(f"step 0 'git clone {Path(__file__).parents[2]}")
    assert [line.split()[1] for line in steps].count("2") == 1  # a silo that nobody accepted
    assert any("silo serve trial" in line for line in steps)
    small = (
        script_of("docs/first-leaderboard-entry.md").partition("step 0")[0] + "step 0 true\nstep 2 false\nstep 0 true\n"
    )
    finished = subprocess.run(["bash", "-c", small], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout.split("\n")[:2]) == (1, ["$ true", "$ false"])


def test_numbers_may_be_close_and_words_may_not_differ() -> None:
    command = Command("silobench show runs", ("fedavg 90.1 ± 0.2 ... end",))
    need_alike(block("console", ""), command, Result(0, "fedavg   92.0 ± 1.0 and so on end\n", ""))
    for line in ("fedprox 90.1 ± 0.2 x end", "fedavg 99.9 ± 0.2 x end", "fedavg 90.1 ± 0.2 x"):
        with pytest.raises(AssertionError):
            need_alike(block("console", ""), command, Result(0, line, ""))
    with pytest.raises(AssertionError):
        need_printed(block("python", "", output="a 0.5\n"), "a 0.52\n")


def test_probabilities_have_as_many_decimals_as_are_printed() -> None:
    printed = Result(0, "1,alive,0.861627,0.138373\n", "")
    need_alike(block("console", ""), Command("silobench predict runs new.csv", ("1,alive,0.861601,0.138300",)), printed)
    with pytest.raises(AssertionError, match="does not print"):
        need_alike(block("console", ""), Command("silobench predict runs new.csv", ("1,alive,0.8616,0.1383",)), printed)


def test_setting_up_names_what_is_there() -> None:
    root = Path(__file__).parents[2]
    make_target(root, ["test"])
    make_target(root, ["bench", "DEVICE=cuda"])
    installable(root, ["install", "-e", ".", "-c", "constraints.txt"])
    installable(root, ["install", "silobench[onnx]"])
    for wrong in (["nothing"], ["demo", "nothing"], ["bench", "NOTHING=1"]):
        with pytest.raises(AssertionError):
            make_target(root, wrong)
    with pytest.raises(AssertionError):
        installable(root, ["install", "silobench[nothing]"])
