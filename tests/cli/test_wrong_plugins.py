"""Wrong plugins: one sentence that names the hook, the file and what is expected, exit code 2, no traceback."""

from pathlib import Path

import pytest

from commands import Result, call, write
from wrong_inputs import PAGE, Answer, rows_of
from wrong_inputs.plugins import ABSORB, ALGORITHMS, HEAD, OTHERS, TINY, Plugin, algorithm, plugin_row, write_files

PAGE_ROWS = set(rows_of(PAGE.read_text(encoding="utf-8")))


def run(capsys: pytest.CaptureFixture[str], folder: Path, case: Plugin, *options: str) -> Result:
    plugin = write(folder / "plug.py", HEAD + case.code)
    file = write(folder / "e.toml", TINY + case.choice + "\n")
    first = [option for option in options if option == "--debug"]
    others = [option for option in options if option != "--debug"]
    return call(capsys, *first, "run", file, "--plugin", plugin, "--workers", "1", "--out", folder / "runs", *others)


def refused(result: Result, *fragments: str) -> None:
    assert result.code == 2, result.err
    assert "Traceback" not in result.err
    errors = [line for line in result.err.splitlines() if "error: " in line]
    assert len(errors) == 1, result.err
    for fragment in fragments:
        assert fragment in errors[0], errors[0]


@pytest.mark.parametrize("name", [*ALGORITHMS, *OTHERS])
def test_a_wrong_part(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    plugin = {**ALGORITHMS, **OTHERS}[name]
    result = call(capsys, *write_files(plugin, tmp_path))
    refused(result, *plugin.fragments)
    row = plugin_row(name, Answer(result.code, result.out, result.err), tmp_path)
    assert row in PAGE_ROWS, "write docs/errors.md anew: make errors"


# --- files, tracebacks, workers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        (b"\x00\xff\xfe", "fails when it is loaded: "),
        (None, "there is no plugin file"),
        ("folder", "is a folder, but a Python file is needed"),
    ],
)
def test_a_file_that_is_not_a_plugin(capsys, tmp_path: Path, content: bytes | str | None, fragment: str) -> None:
    plugin = tmp_path / "plug.py"
    if isinstance(content, bytes):
        plugin.write_bytes(content)
    elif content:
        plugin.mkdir()
    for command in (["run", write(tmp_path / "e.toml", TINY)], ["list", "models"], ["partition", "digits", "iid"]):
        refused(call(capsys, *command, "--plugin", plugin), fragment)


def test_a_plugin_that_registers_nothing_is_named_once(capsys, tmp_path: Path) -> None:
    plugin, file = write(tmp_path / "empty.py", f"# {tmp_path}\n"), write(tmp_path / "e.toml", TINY)
    note = f"the plugin {plugin} registers nothing: write @sb.ALGORITHMS.register"
    for count in (1, 0):  # a process that loads it again says nothing new
        result = call(capsys, "run", file, "--plugin", plugin, "--dry-run")
        assert (result.code, result.err.count(note)) == (0, count), result.err
    own = write(tmp_path / "own.py", "import silobench as sb\n@sb.PARTITIONS.register\ndef own_cut():\n    ...\n")
    for _ in range(2):
        result = call(capsys, "run", file, "--plugin", own, "--dry-run")
        assert (result.code, result.err) == (0, "")


def test_not_a_number_is_a_result(capsys, tmp_path: Path) -> None:
    case = algorithm(ABSORB.format("return update.mean()['delta'] * float('nan'), server.extras"), "absorb=absorb")
    result = run(capsys, tmp_path, case)
    assert result.code == 0, result.err
    assert "†" in result.out


def test_ctrl_c_while_a_plugin_is_loaded(capsys, tmp_path: Path) -> None:
    result = run(capsys, tmp_path, Plugin("raise KeyboardInterrupt\n", "", ()))
    assert result.code == 130
    assert "stopped while the plugin" in result.err
    assert "Traceback" not in result.err


BROKEN = algorithm("def pull(server, memory):\n    return memory['anchor']", "pull=pull")


def test_debug_shows_the_traceback_and_the_sentence(capsys, monkeypatch, tmp_path: Path) -> None:
    refused(run(capsys, tmp_path, BROKEN), "`silobench --debug ...` shows the traceback")
    for options, variable in (("--debug",), "0"), ((), "1"):
        monkeypatch.setenv("SILOBENCH_DEBUG", variable)
        result = run(capsys, tmp_path, BROKEN, *options)
        assert result.code == 2
        assert "Traceback (most recent call last)" in result.err
        assert "return memory['anchor']" in result.err
        assert "error: fcube / octants / mine / seed 0 failed in round 1, party 0: the hook `pull`" in result.err
    monkeypatch.delenv("SILOBENCH_DEBUG")
    refused(run(capsys, tmp_path, BROKEN))


def test_debug_shows_the_traceback_of_a_wrong_choice(capsys) -> None:
    result = call(capsys, "--debug", "list", "algoritm")
    assert result.code == 2
    assert "Traceback (most recent call last)" in result.err
    assert result.err.strip().splitlines()[-1].startswith("error: there is no list of 'algoritm'")


def test_a_hook_in_a_worker_process_is_named_too(capsys, tmp_path: Path) -> None:
    for choices in ("seed = [0, 1]", ""):
        case = BROKEN._replace(choice=f"{BROKEN.choice}\n{choices}")
        plugin, file = write(tmp_path / "plug.py", HEAD + case.code), write(tmp_path / "e.toml", TINY + case.choice)
        command = ["run", file, "--plugin", plugin, "--workers", "2", "--engine", "pool(workers=2)"]
        result = call(capsys, *command, "--out", tmp_path / "runs")
        refused(result, "the hook `pull` of the algorithm mine (plug.py, line 5) raised KeyError: 'anchor'")
