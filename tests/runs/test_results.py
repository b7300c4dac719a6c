"""A results directory with damaged runs, edited descriptions and runs that were never started."""

import json
import shutil
from pathlib import Path

import pytest

from commands import TINY, Program, call, write
from silobench.errors import RecordError
from silobench.runs.results import read_planned, read_results, write_planned
from silobench.runs.stored import read_run, read_runs

EARLIER = Path(__file__).with_name("earlier") / "runs"


@pytest.fixture
def out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the results of two finished runs."""
    file = write(tmp_path / "tiny.toml", TINY)
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 0
    return tmp_path / "runs"


def runs_of(out: Path) -> list[Path]:
    return sorted(file.parent for file in out.glob("*/run.json"))


def edit(path: Path, key: str, value: object) -> None:
    """Change one fact of run.json, as a user with an editor would."""
    facts = json.loads((path / "run.json").read_text())
    *parents, last = key.split("/")
    table = facts
    for parent in parents:
        table = table[parent]
    assert table[last] != value
    table[last] = value
    (path / "run.json").write_text(json.dumps(facts, indent=1))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("config/seed", 7), ("label/seed", 7), ("config/algorithm", "fedavg()"), ("label/algorithm", "best"),
        ("id", "0" * 16), ("dataset/train", 5), ("partition/gini", 0.9), ("made_by/torch", "9"), ("parameters", 1),
        ("created", "2020"), ("model_sha256", "0"),
    ],
)  # fmt: skip
def test_an_edited_description_is_refused(out: Path, key: str, value: object) -> None:
    path = runs_of(out)[0]
    edit(path, key, value)
    with pytest.raises(RecordError, match=r"run\.json was changed"):
        read_run(path)


@pytest.mark.parametrize(("key", "value"), [("config/seed", 7), ("label/seed", 7), ("label/rounds", 7), ("id", "x")])
def test_an_edited_description_of_an_earlier_version_is_refused(tmp_path: Path, key: str, value: object) -> None:
    """It has no digest of its facts, but its id is a hash of its configuration."""
    path = Path(shutil.copytree(sorted(EARLIER.iterdir())[0], tmp_path / "run"))
    assert "facts_sha256" not in json.loads((path / "run.json").read_text())
    read_run(path)
    edit(path, key, value)
    with pytest.raises(RecordError, match=r"run\.json was changed"):
        read_run(path)


def test_a_description_in_another_layout_is_the_same(out: Path) -> None:
    path = runs_of(out)[0]
    before = read_run(path)
    facts = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(dict(reversed(facts.items()))))
    assert read_run(path) == before


def test_a_damaged_run_is_left_out_and_the_others_are_shown(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged, intact = runs_of(out)
    algorithm = read_run(intact).label["algorithm"]
    (damaged / "run.json").unlink()
    results = read_results(out)
    assert [run.path for run in results.runs] == [intact]
    assert results.problems == [
        f"{damaged} has no run.json beside its recorded rounds: what is recorded elsewhere is untouched; move this "
        "directory away or delete it to run it anew."
    ]
    for command in (["show", out], ["report", out], ["claims", out], ["show", out, "--format", "csv"]):
        result = call(capsys, *command)
        assert result.code == 2
        assert result.err.startswith("error: 1 of 2 runs is left out:")
        assert result.err.count("\n") == 1
        assert result.out
    facts = json.loads(call(capsys, "show", out, "--json").out)
    assert [cell["algorithm"] for cell in facts["cells"]] == [algorithm]
    assert facts["left_out"] == results.problems
    with pytest.raises(RecordError, match=r"no run\.json"):
        read_runs(out)


def test_runs_that_were_never_started_are_counted(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = out.parent / "tiny.toml"
    assert "started" not in call(capsys, "show", out).out
    shutil.rmtree(runs_of(out)[0])
    assert "1 of 2 runs has not been started: run the same experiment again" in call(capsys, "show", out).out
    edit(runs_of(out)[0], "status", "running")
    facts = json.loads((runs_of(out)[0] / "run.json").read_text())
    del facts["facts_sha256"]
    (runs_of(out)[0] / "run.json").write_text(json.dumps(facts))
    assert "1 run is not finished and 1 of 2 has not been started" in call(capsys, "show", out).out
    shutil.rmtree(runs_of(out)[0])
    assert call(capsys, "run", file, "--workers", "1", "--out", out).code == 0
    assert "started" not in call(capsys, "show", out).out


def test_another_experiment_adds_to_the_list_and_an_edited_one_replaces_its_own(tmp_path: Path) -> None:
    write_planned(tmp_path, "a.toml", {"1": "one", "2": "two"}, is_part=False)
    write_planned(tmp_path, "b.toml", {"3": "three"}, is_part=False)
    assert read_planned(tmp_path) == {"1": "one", "2": "two", "3": "three"}
    write_planned(tmp_path, "a.toml", {"4": "four"}, is_part=True)
    assert read_planned(tmp_path).keys() == {"1", "2", "3", "4"}
    write_planned(tmp_path, "a.toml", {"2": "two"}, is_part=False)
    assert read_planned(tmp_path).keys() == {"2", "3"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"runs": 3}', b'{"runs": [1]}', b"\xff\x00", b"[" * 100_000])
def test_a_damaged_list_is_ignored(out: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    (listed,) = out.glob(".plans/*.json")
    listed.write_bytes(content)
    assert read_planned(out) == {}
    assert call(capsys, "show", out).code == 0
    assert call(capsys, "run", out.parent / "tiny.toml", "--workers", "1", "--out", out).code == 0
    assert len(read_planned(out)) == 2


def test_a_directory_without_a_list_is_shown(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(out / ".plans")
    shutil.rmtree(runs_of(out)[0])
    result = call(capsys, "show", out)
    assert (result.code, result.err) == (0, "")
    assert "started" not in result.out


def test_a_command_that_is_refused_writes_no_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "tiny.toml", TINY.replace("octants", "by-group + label-count(k=2)"))
    assert call(capsys, "run", file, "--workers", "1", "--out", tmp_path / "runs").code == 2
    assert not (tmp_path / "runs").exists()


def test_a_changed_list_of_planned_runs_is_named(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (out / ".plans").iterdir()
    content = file.read_bytes()
    file.write_bytes(content.replace(runs_of(out)[0].name.encode(), b"0" * 16))
    result = call(capsys, "show", out)
    assert result.code == 0
    assert f"{file} is damaged" in result.err
    assert "not been started" not in result.out
    facts = json.loads(content)
    del facts["facts_sha256"]  # as earlier versions wrote it
    file.write_text(json.dumps(facts))
    assert len(read_planned(out)) == 2


def test_two_processes_that_write_one_file_never_mix_it(tmp_path: Path) -> None:
    """Without a lock each writes into a file of its own, and the last one wins."""
    contents = [bytes([letter]) * 100_000 for letter in b"ab"]
    code = "import sys; from pathlib import Path; from silobench.atomic import replace_atomically as r\n"
    code += "for _ in range(200): r(Path(sys.argv[1]), sys.argv[2].encode() * 100_000, durable=False)"
    programs = [Program(code, tmp_path / "one", letter) for letter in "ab"]
    codes = [program.wait() for program in programs]
    assert [exit_code for exit_code, _, _ in codes] == [0, 0], codes
    assert (tmp_path / "one").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["one"]
