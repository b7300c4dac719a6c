"""Links in directories of others: a command that writes there changes nothing outside."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from commands import call, write
from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.report.site import WRITTEN
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare

CHOICES = {"dataset": "fcube", "partition": "octants", "solver": "sgd(epochs=1)", "rounds": 3}
LETTER = b"a letter of the user\n"


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was cut off after its first round."""
    out = tmp_path_factory.mktemp("cut")
    records = execute(prepare(plan(CHOICES)[0]), out)
    next(records)
    records.close()
    return out


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    """A file of the user's, which is none of the command's business."""
    file = tmp_path / "letter.txt"
    file.write_bytes(LETTER)
    return file


@pytest.mark.parametrize(
    "name", ["rounds.jsonl", "run.json", ".lock", "encoder.json", "checkpoint", "checkpoint/state.safetensors", ""]
)
def test_a_run_does_not_continue_through_a_link(name: str, interrupted: Path, letter: Path, tmp_path: Path) -> None:
    out = shutil.copytree(interrupted, tmp_path / "out")
    (run,) = (path for path in out.iterdir() if (path / "run.json").exists())
    place, elsewhere = run / name, tmp_path / "elsewhere"
    if place.exists():
        place.rename(elsewhere)
    else:
        elsewhere.write_bytes(LETTER)
    place.symlink_to(elsewhere)
    before = {file: file.read_bytes() for file in [elsewhere, *elsewhere.rglob("*")] if file.is_file()}
    with pytest.raises(RecordError, match="is a link, and a run writes only into its own directory"):
        list(execute(prepare(plan(CHOICES)[0]), out))
    assert {file: file.read_bytes() for file in before} == before
    assert letter.read_bytes() == LETTER


def test_a_link_in_the_place_of_an_unfinished_file_is_not_followed(tmp_path: Path, letter: Path) -> None:
    (tmp_path / "run.json.new").symlink_to(letter)
    with pytest.raises(OSError, match="symbolic link"):
        replace_atomically(tmp_path / "run.json", b"{}", is_locked=True)
    assert letter.read_bytes() == LETTER
    (tmp_path / "page.html").symlink_to(letter)
    replace_atomically(tmp_path / "page.html", b"page")  # the link is replaced
    assert (letter.read_bytes(), (tmp_path / "page.html").read_bytes()) == (LETTER, b"page")


@pytest.fixture
def results(interrupted: Path, tmp_path: Path) -> Path:
    return shutil.copytree(interrupted, tmp_path / "out")


def test_a_report_deletes_and_writes_nothing_behind_a_link(
    results: Path, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results / "report"
    folder.mkdir()
    (folder / "old").symlink_to(letter.parent)  # a folder that an earlier report seems to have written
    names = ["old/letter.txt", "../letter.txt", str(letter)]
    write(folder / WRITTEN, json.dumps({"files": names}))
    assert call(capsys, "report", results).code == 0
    assert letter.read_bytes() == LETTER
    (results / "other").mkdir()
    shutil.rmtree(folder / "runs")
    (folder / "runs").symlink_to(letter.parent / "pages")
    (letter.parent / "pages").mkdir()
    reply = call(capsys, "report", results)
    assert reply.code == 2, reply.out
    assert list((letter.parent / "pages").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("report", ("report", "RESULTS")),
        ("figures", ("report", "RESULTS", "--figures", "svg")),
        ("export-csv", ("export", "RESULTS", "--format", "csv")),
        (".plans", ("run", "EXPERIMENT", "--out", "RESULTS", "--workers", "1")),
    ],
)
def test_a_folder_of_a_command_that_is_a_link_is_refused(
    folder: str, command: tuple[str, ...], results: Path, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = letter.parent / "elsewhere"
    elsewhere.mkdir()
    figure = write(elsewhere / "01-holiday-02-beach.svg", "a picture of the user")  # named as silobench names figures
    shutil.rmtree(results / folder, ignore_errors=True)
    (results / folder).symlink_to(elsewhere)
    experiment = write(letter.parent / "e.toml", "".join(f"{key} = {json.dumps(CHOICES[key])}\n" for key in CHOICES))
    places = {"RESULTS": results, "EXPERIMENT": experiment}
    reply = call(capsys, *(places.get(word, word) for word in command))
    assert (reply.code, list(elsewhere.iterdir())) == (2, [figure]), reply.out
    assert "is a link" in reply.err


def test_an_export_does_not_write_through_a_link(
    results: Path, letter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results / "export-csv"
    folder.mkdir()
    (folder / ".runs.csv.part").symlink_to(letter)
    call(capsys, "export", results, "--format", "csv")
    assert letter.read_bytes() == LETTER
    assert hashlib.sha256((folder / "runs.csv").read_bytes()).digest() != hashlib.sha256(LETTER).digest()
