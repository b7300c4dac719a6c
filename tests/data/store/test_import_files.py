"""Imports of folders, archives and files: all files of a dataset, or an error and nothing left behind."""

import bz2
import contextlib
import gzip
import lzma
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fetching import LARGE, OTHER, SMALL, refusal, run, tgz, visible, zipped

from offline import disk_of, entry, sum_of, use
from silobench.data.store.archives import members
from silobench.data.store.catalog import File
from silobench.data.store.directory import check_all, home_of, locate, read_manifest, require
from silobench.data.store.fetch import import_files
from silobench.errors import DataError

pytestmark = pytest.mark.usefixtures("place")


def test_an_import_that_does_not_fit_leaves_nothing(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a").write_bytes(SMALL)
    (folder / "b").write_bytes(LARGE)
    toy = entry(files={"a": SMALL, "b": LARGE})
    with disk_of(300_000):
        refusal(import_files(toy, folder), str(home_of(toy)), "the data cannot be written", "--data-dir")
    assert visible(home_of(toy)) == {}
    assert locate(toy) is None
    run(import_files(toy, folder))
    assert visible(home_of(toy)) == {"a": SMALL, "b": LARGE}


# --- importing ---------------------------------------------------------------------------------------


def test_import_from_a_folder_however_deep(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL, "d/b": OTHER})
    deep = tmp_path / "mine" / "x" / "y" / "d"
    deep.mkdir(parents=True)
    (deep / "b").write_bytes(OTHER)
    (tmp_path / "mine" / "z").mkdir()
    (tmp_path / "mine" / "z" / "a").write_bytes(SMALL)
    (tmp_path / "mine" / "unrelated.txt").write_bytes(b"?")
    steps = run(import_files(toy, tmp_path / "mine"))
    assert steps[-1].text == f"2 files imported to {home_of(toy)}"
    assert visible(home_of(toy)) == {"a": SMALL, "d/b": OTHER}
    assert not (home_of(toy) / ".partial").exists()
    assert read_manifest(home_of(toy)).files["a"].source == "import mine/z/a"
    assert (tmp_path / "mine" / "z" / "a").read_bytes() == SMALL  # copied, not moved


def test_import_from_a_folder_whose_own_name_is_hidden(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL, "d/b": OTHER})
    hidden = tmp_path / ".mine"
    (hidden / "d").mkdir(parents=True)
    (hidden / ".trash").mkdir()
    for name, content in (("a", SMALL), ("d/b", OTHER), (".trash/a", b"?")):
        (hidden / name).write_bytes(content)
    run(import_files(toy, hidden))
    assert visible(home_of(toy)) == {"a": SMALL, "d/b": OTHER}


@pytest.mark.parametrize("make", [tgz, zipped])
def test_import_from_an_archive(make: Any, place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL, "d/b": OTHER})
    given = tmp_path / "download.bin"
    given.write_bytes(make({"top/a": SMALL, "top/d/b.gz": gzip.compress(OTHER), "b": b"another"}))
    run(import_files(toy, given))
    assert visible(home_of(toy)) == {"a": SMALL, "d/b": OTHER}


def test_import_of_one_file_packed_or_not(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a.csv": SMALL})
    for name, content in (("a.csv", SMALL), ("a.csv.gz", gzip.compress(SMALL))):
        shutil.rmtree(place, ignore_errors=True)
        (tmp_path / name).write_bytes(content)
        run(import_files(toy, tmp_path / name))
        assert visible(home_of(toy)) == {"a.csv": SMALL}
    packed = gzip.compress(OTHER)
    as_it_is = entry("packed", {"b.gz": packed})
    (tmp_path / "b.gz").write_bytes(packed)
    run(import_files(as_it_is, tmp_path / "b.gz"))
    assert visible(home_of(as_it_is)) == {"b.gz": packed}


def test_import_of_a_linked_file(place: Path, tmp_path: Path) -> None:
    (tmp_path / "blob123").write_bytes(SMALL)
    (tmp_path / "a.csv").symlink_to(tmp_path / "blob123")
    toy = entry(files={"a.csv": SMALL})
    run(import_files(toy, tmp_path / "a.csv"))
    assert visible(home_of(toy)) == {"a.csv": SMALL}


def test_import_refuses_another_sum(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(OTHER)
    toy = entry(files={"a": SMALL})
    refusal(import_files(toy, tmp_path / "a"), "a has the sha256", sum_of(SMALL)[:12])
    assert visible(home_of(toy)) == {}
    assert locate(toy) is None
    assert (tmp_path / "a").read_bytes() == OTHER


def test_import_keeps_a_good_file_when_a_bad_one_is_offered(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL})
    (tmp_path / "a").write_bytes(SMALL)
    run(import_files(toy, tmp_path / "a"))
    (tmp_path / "a").write_bytes(OTHER)
    refusal(import_files(toy, tmp_path / "a"), "a has the sha256")
    assert check_all(toy) == {"files": 1, "damaged": [], "unchecked": 0}


def test_import_says_what_is_needed(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL, "b": OTHER}, by_hand="both files of the form")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "c").write_bytes(SMALL)
    refusal(import_files(toy, mine), "toy consists of a, b", "has none of them", "both files of the form")
    (mine / "a").write_bytes(SMALL)
    refusal(import_files(toy, mine), "toy consists of a, b", "has only a", "both files of the form")
    assert locate(toy) is None
    (tmp_path / "b").write_bytes(OTHER)
    run(import_files(toy, tmp_path / "b"))  # the rest may come later
    assert visible(home_of(toy)) == {"a": SMALL, "b": OTHER}
    assert check_all(toy) == {"files": 2, "damaged": [], "unchecked": 0}
    refusal(import_files(toy, tmp_path / "nowhere"), "does not exist")
    refusal(import_files(entry("free"), mine), "has no files of its own: use it without an import")
    (tmp_path / "odd.bin").write_bytes(b"neither")
    refusal(import_files(toy, tmp_path / "odd.bin"), "is not an archive")


def test_an_import_takes_the_place_of_an_earlier_one(place: Path, tmp_path: Path) -> None:
    first, second = tree(tmp_path / "first"), tmp_path / "second"
    run(import_files(WAVS, first))
    (second / "new").mkdir(parents=True)
    (second / "new" / "s_nohash_0.wav").write_bytes(OTHER)
    (second / ".cache").mkdir()
    (second / ".cache" / "s_nohash_0.wav").write_bytes(SMALL)  # hidden: a system's, or ours
    assert "1 file imported" in run(import_files(WAVS, second))[-1].text
    assert visible(home_of(WAVS)) == {"new/s_nohash_0.wav": OTHER}
    assert check_all(WAVS) == {"files": 1, "damaged": [], "unchecked": 0}


def test_two_files_of_one_name_are_not_one(place: Path, tmp_path: Path) -> None:
    for folder, content in (("la", SMALL), ("bay", OTHER)):
        (tmp_path / "mine" / folder).mkdir(parents=True)
        (tmp_path / "mine" / folder / "speed.csv").write_bytes(content)
    toy = entry(forms={"tables": ("*.csv",)})
    refusal(import_files(toy, tmp_path / "mine"), "speed.csv twice", "mine/bay/speed.csv", "mine/la/speed.csv")
    assert visible(home_of(toy)) == {}


def test_an_import_of_nothing_records_nothing(place: Path, tmp_path: Path) -> None:
    toy = entry(files={"a": SMALL}, terms="For odd use only.")
    mine = tmp_path / "mine"
    mine.mkdir()
    refusal(import_files(toy, mine), "has none of them")
    assert read_manifest(home_of(toy)).accepted == ""


def tree(folder: Path, count: int = 6) -> Path:
    for word in ("yes", "no"):
        (folder / word).mkdir(parents=True)
        for i in range(count // 2):
            (folder / word / f"s{i}_nohash_0.wav").write_bytes(f"{word} {i}".encode() * 100)
    return folder


WAVS = entry("wavs", forms={"folders": ("*/*.wav",)}, by_hand="a folder of words", terms="Odd.")


def test_import_of_a_tree_and_what_verify_finds(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, WAVS)
    assert run(import_files(WAVS, tree(tmp_path / "mine")))[0].kind == "terms"
    assert check_all(WAVS) == {"files": 6, "damaged": [], "unchecked": 0}
    assert len(require("wavs").names) == 6
    root = home_of(WAVS)
    flipped, deleted = root / "yes" / "s1_nohash_0.wav", root / "no" / "s2_nohash_0.wav"
    flipped.write_bytes(b"x" + flipped.read_bytes()[1:])
    deleted.unlink()
    found = check_all(WAVS)
    assert found is not None
    assert found["files"] == 6
    assert [problem for problem in found["damaged"] if str(flipped) in problem and "is damaged" in problem]
    assert [problem for problem in found["damaged"] if str(deleted) in problem and "is missing" in problem]
    assert len(found["damaged"]) == 2
    with pytest.raises(DataError, match=r"s2_nohash_0.wav is missing.*silobench data import wavs PATH"):
        require("wavs")


def test_a_killed_import_of_a_tree_is_not_available(place: Path, tmp_path: Path) -> None:
    mine = tree(tmp_path / "mine", 40)
    steps = import_files(WAVS, mine)
    while next(steps).done < 20:
        pass
    steps.close()  # type: ignore[attr-defined]
    assert locate(WAVS) is None
    assert check_all(WAVS) is None
    assert run(import_files(WAVS, mine))[-1].kind == "done"
    assert check_all(WAVS) == {"files": 40, "damaged": [], "unchecked": 0}


KILLED = """
import os, signal, sys
from pathlib import Path
from silobench.data.store import fetch
from silobench.data.store.catalog import Entry
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "all moved, none recorded":
    fetch._record = die
for step in fetch.import_files(Entry.model_validate_json(sys.argv[1]), Path(sys.argv[2])):
    if step.kind == "file" and step.done == 7:
        die()
"""


@pytest.mark.parametrize("when", ["halfway", "all moved, none recorded"])
def test_a_sigkill_in_a_tree_import_leaves_it_not_available(when: str, place: Path, tmp_path: Path) -> None:
    mine = tree(tmp_path / "mine", 6 if when.startswith("all") else 40)
    command = [sys.executable, "-c", KILLED, WAVS.model_dump_json(), str(mine), when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert locate(WAVS) is None
    assert check_all(WAVS) is None
    assert run(import_files(WAVS, mine))[-1].kind == "done"
    assert check_all(WAVS) == {"files": len(list(mine.rglob("*.wav"))), "damaged": [], "unchecked": 0}
    assert not (home_of(WAVS) / ".partial").exists()


@pytest.mark.parametrize("make", [tgz, zipped])
def test_no_member_of_an_import_is_written_outside(make: Any, place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.wav"
    pattern = "/".join("*" for _ in outside.parts[1:]) + ".wav"
    toy = entry(forms={"folders": (f"*/{pattern}",)})
    given = tmp_path / "given.bin"
    given.write_bytes(make({f"a/{outside}": b"evil"}))
    assert next(iter(members(given))).name == f"a/{outside}"
    with contextlib.suppress(DataError):
        run(import_files(toy, given))
    assert not outside.exists()


@pytest.mark.parametrize("packing", [gzip.compress, bz2.compress, lzma.compress])
def test_import_of_a_packed_file_of_another_name(packing: Any, place: Path, tmp_path: Path) -> None:
    """What it holds has no name, so that it cannot be told what it is."""
    given = tmp_path / "download.bin"
    given.write_bytes(packing(SMALL))
    refusal(import_files(entry(files={"a": SMALL}), given), "toy consists of a", "has none of them")


@pytest.mark.parametrize("to", ["..", "../../mine", "../../mine/yes/.."])
def test_import_by_a_path_with_dots_stays_inside(
    to: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tree(tmp_path / "mine")
    (mine / "stray.wav").write_bytes(SMALL)
    monkeypatch.chdir(mine / "yes")
    run(import_files(WAVS, Path(to)))
    assert [name for name in read_manifest(home_of(WAVS)).files if ".." in name] == []
    assert [path.name for path in home_of(WAVS).parent.iterdir()] == ["1"]
    found = locate(WAVS)
    assert found is not None
    assert {"yes/s0_nohash_0.wav", "no/s2_nohash_0.wav"} <= set(found.names)


def test_a_bomb_inside_an_archive_is_refused(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("silobench.data.store.archives._SMALL", 10_000)
    (tmp_path / "mine.zip").write_bytes(zipped({"a.gz": gzip.compress(bytes(500_000))}))
    toy = entry(files={"a": SMALL}).model_copy(update={"files": {"a": File()}})
    refusal(import_files(toy, tmp_path / "mine.zip"), "a.gz has more than", "bytes, so it was refused")
    assert visible(home_of(toy)) == {}
