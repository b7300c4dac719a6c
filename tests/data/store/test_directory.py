"""The data directory: files are found, and verified before they are read."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from storing import ONE, TWO, change, put, record

from offline import disk_of, entry, sum_of, use
from silobench.data.store import directory
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import (
    Files,
    Manifest,
    available,
    check_all,
    data_dir,
    home_of,
    locate,
    read_manifest,
    require,
)
from silobench.errors import DataError

pytestmark = pytest.mark.usefixtures("place")


def test_the_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_dir() == tmp_path / "data"
    monkeypatch.setenv("SILOBENCH_DATA", "~/odd")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_dir() == tmp_path / "odd"
    monkeypatch.setenv("SILOBENCH_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_dir() == tmp_path / "cache" / "silobench" / "data"


def test_a_version_has_a_folder_of_its_own(place: Path) -> None:
    old, new = entry(files={"a": ONE}), entry(files={"a": TWO}, version=2)
    put(home_of(old), a=ONE)
    assert locate(old) is not None
    assert locate(new) is None
    assert home_of(new) == place / "toy" / "2"


def test_a_form_is_here_only_if_all_of_it_is(place: Path) -> None:
    toy = entry(files={"a": ONE, "b": TWO, "c": ONE}, forms={"two": ("a", "b"), "one": ("c",)})
    assert locate(toy) is None
    put(home_of(toy), a=ONE)
    assert locate(toy) is None
    put(home_of(toy), c=ONE)
    found = locate(toy)
    assert found is not None
    assert (found.form, found.names, found.root, found.managed) == ("one", ("c",), home_of(toy), True)
    put(home_of(toy), b=TWO)
    assert [files.form for files in (locate(toy), locate(toy, "one"), locate(toy, "two")) if files] == [
        "two", "one", "two",
    ]  # fmt: skip
    assert locate(toy, "three") is None


@pytest.mark.parametrize("folder", ["toy", "elsewhere"])
def test_files_may_lie_in_other_folders_of_the_data_directory(
    folder: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(files={"a": ONE}, folders=("elsewhere",))
    use(monkeypatch, toy)
    put(place / folder, a=ONE)
    found = require("toy")
    assert (found.root, found.managed, found["a"].read_bytes()) == (place / folder, False, ONE)
    change(place / folder / "a")
    with pytest.raises(DataError, match=rf"{folder}/a is damaged.*silobench data fetch toy|import toy"):
        require("toy")
    put(home_of(toy), a=ONE)
    assert require("toy").root == home_of(toy)  # its own comes first


def test_a_foreign_folder_may_have_a_manifest_of_its_own(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(files={"a": ONE}, folders=("elsewhere",))
    use(monkeypatch, toy)
    put(place / "elsewhere", a=ONE, **{"manifest.json": b'{"name": "a page", "icons": []}'})
    assert require("toy")["a"].read_bytes() == ONE


def test_require_names_what_is_not_here_and_what_to_type(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = entry("mine", unknown={"a": File()}, by_hand="the file a of the form")
    use(monkeypatch, by_hand)
    with pytest.raises(DataError) as caught:
        require("mine")
    for part in (str(place), "`silobench data import mine PATH`", "the file a of the form"):
        assert part in str(caught.value)
    with pytest.raises(DataError, match=r"no dataset 'mien': did you mean mine\?"):
        require("mien")
    assert not place.exists()


def test_a_damaged_file_is_named_and_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(files={"a": ONE, "b": TWO})
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE, b=TWO)
    assert require("toy").names == ("a", "b")
    change(home_of(toy) / "b")
    with pytest.raises(DataError, match=r"1/b is damaged .*: it was not read"):
        require("toy")
    assert check_all(toy) == {"files": 2, "damaged": [directory.damage(_files(toy), "b", Manifest())], "unchecked": 0}


def _files(toy: Entry) -> Files:
    found = locate(toy)
    assert found is not None
    return found


@pytest.mark.parametrize("published", [True, False])
def test_a_change_is_found_though_its_times_were_restored(
    published: bool, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(files={"a": ONE}) if published else entry(unknown={"a": File()})
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE)
    record(toy, "a")
    require("toy")
    change(home_of(toy) / "a", keep_times=True)
    with pytest.raises(DataError, match="1/a is damaged"):
        require("toy")
    found = check_all(toy)
    assert found is not None
    assert len(found["damaged"]) == 1


def test_a_file_as_it_was_is_not_hashed_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(files={"a": ONE})
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE)
    record(toy, "a")
    hashed: list[Path] = []

    def spy(path: Path) -> str:
        hashed.append(path)
        return sum_of(path.read_bytes())

    monkeypatch.setattr(directory, "sha256", spy)
    require("toy")
    assert hashed == []
    os.utime(home_of(toy) / "a", ns=(0, 0))  # touched: looked at again, and still right
    require("toy")
    assert hashed == [home_of(toy) / "a"]
    require("toy")
    assert len(hashed) == 1  # found right, and remembered
    check_all(toy)
    assert len(hashed) == 2  # verify always reads


def test_known_copies_are_right_as_well(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(unknown={"a": File(bytes=len(ONE), sha256=sum_of(ONE), copies=(sum_of(TWO),))})
    use(monkeypatch, toy)
    for content, right in ((ONE, True), (TWO, True), (b"other", False)):
        put(home_of(toy), a=content)
        assert check_all(toy) == {"files": 1, "damaged": [], "unchecked": 0} if right else check_all(toy) is not None
        if right:
            require("toy")
        else:
            with pytest.raises(DataError, match="is damaged"):
                require("toy")


def test_a_file_that_nobody_vouches_for_is_refused_where_silobench_puts_files(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(unknown={"a": File()}, folders=("mine",))
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE)  # as a fetch that was killed would leave it
    with pytest.raises(DataError, match="has no recorded checksum"):
        require("toy")
    record(toy, "a")
    require("toy")
    shutil.rmtree(home_of(toy))
    put(place / "mine", a=ONE)  # the user's own folder
    require("toy")


def test_a_pattern_stands_for_what_the_manifest_lists(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(forms={"tree": ("*/*.wav",)})
    use(monkeypatch, toy)
    put(home_of(toy) / "yes", **{"1.wav": ONE, "2.wav": TWO, "3.txt": ONE})
    assert locate(toy) is None  # they are there, but nothing says that they are all
    record(toy, "yes/1.wav", "yes/2.wav", "yes/3.txt")
    assert require("toy").names == ("yes/1.wav", "yes/2.wav")
    put(home_of(toy) / "yes", **{"4.wav": ONE})  # not of the import
    assert require("toy").names == ("yes/1.wav", "yes/2.wav")
    (home_of(toy) / "yes" / "2.wav").unlink()
    with pytest.raises(DataError, match=r"yes/2.wav is missing"):
        require("toy")


def test_patterns_stay_within_a_folder() -> None:
    names = ["a.csv", "d/b.csv", "d/e/c.csv", "d/.csv", "x.CSV"]
    assert list(directory.filter_names(names, "*.csv")) == ["a.csv"]
    assert list(directory.filter_names(names, "d/*.csv")) == ["d/b.csv", "d/.csv"]
    assert list(directory.filter_names(names, "*/*/*.csv")) == ["d/e/c.csv"]


def test_verify_names_a_recorded_file_that_is_missing(place: Path) -> None:
    toy = entry(files={"a": ONE, "b": TWO})
    put(home_of(toy), a=ONE, b=TWO)
    record(toy, "a", "b")
    (home_of(toy) / "b").unlink()
    assert check_all(toy) == {"files": 2, "damaged": [f"{home_of(toy) / 'b'} is missing"], "unchecked": 0}


def test_verify_looks_at_every_form(place: Path) -> None:
    toy = entry(files={"a": ONE, "b": TWO}, forms={"one": ("a",), "two": ("b",)})
    assert check_all(toy) is None
    put(home_of(toy), a=ONE, b=b"wrong")
    found = check_all(toy)
    assert found is not None
    assert (found["files"], len(found["damaged"])) == (2, 1)


def test_what_it_needs_must_be_here_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = entry("one", {"a": ONE}), entry("two", {"b": TWO}, needs=("one",))
    mixed, free = entry("mixed", needs=("two",)), entry("free")
    use(monkeypatch, one, two, mixed, free)
    assert [available(each) for each in (one, two, mixed, free)] == [False, False, False, True]
    put(home_of(two), b=TWO)
    assert [available(each) for each in (one, two, mixed)] == [False, False, False]
    put(home_of(one), a=ONE)
    assert [available(each) for each in (one, two, mixed)] == [True, True, True]


def test_a_manifest_is_replaced_at_once_or_not_at_all(place: Path) -> None:
    toy = entry(files={"a": ONE})
    put(home_of(toy), a=ONE)
    record(toy, "a")
    before = read_manifest(home_of(toy))
    with disk_of(20), pytest.raises(OSError, match="File too large"):
        record(toy)
    assert read_manifest(home_of(toy)) == before
    assert sorted(path.name for path in home_of(toy).iterdir()) == ["a", "manifest.json"]


@pytest.mark.parametrize("broken", ["", "{", "[1]", "3", '{"files": {"a": 1}}', '{"files": ["a"]}', '{"more": 1}'])
def test_a_damaged_manifest_is_named(broken: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(files={"a": ONE})
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE, **{"manifest.json": broken.encode()})
    with pytest.raises(DataError, match=r"1/manifest.json is damaged: delete it"):
        require("toy")


def test_a_manifest_that_may_not_be_read_is_not_called_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user would delete it."""
    toy = entry(files={"a": ONE})
    use(monkeypatch, toy)
    put(home_of(toy), a=ONE)

    def forbidden(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(DataError, match=r"1/manifest.json cannot be read \(Permission denied\): check the permissions"):
        require("toy")


def test_a_corrected_sum_of_the_catalogue_counts_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = entry(files={"a": ONE}), entry(files={"a": TWO})
    use(monkeypatch, old)
    put(home_of(old), a=ONE)
    record(old, "a")
    require("toy")
    use(monkeypatch, new)
    with pytest.raises(DataError, match="is damaged"):
        require("toy")


def test_a_user_without_a_home_has_a_cache_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some clusters run containers as a user whom the system does not know."""
    for name in ("HOME", "XDG_CACHE_HOME", "SILOBENCH_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54_321)
    monkeypatch.chdir(tmp_path)
    assert data_dir() == tmp_path / ".silobench" / "data"
