"""The data directory: files are found and distrusted, arrays are kept and distrusted as well."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from commands import PATIENCE
from offline import disk_of, entry, sum_of, use
from silobench.data.dataset import Dataset, Split
from silobench.data.store.cache import stored
from silobench.data.store.catalog import Entry, File
from silobench.data.store.store import (
    Files,
    Manifest,
    available,
    cache,
    check_all,
    data_dir,
    entry_of,
    home_of,
    locate,
    read_manifest,
    require,
    store,
    write_manifest,
)
from silobench.errors import DataError

ONE, TWO = b"1,2,3\n" * 50, b"4,5,6\n" * 50


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def put(root: Path, **content: bytes) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (root / name).write_bytes(data)


def record(toy: Entry, *names: str) -> None:
    root = home_of(toy)
    write_manifest(root, Manifest(files={name: entry_of(root / name, "here") for name in names}))


def change(path: Path, keep_times: bool = False) -> None:
    """Flip a byte in the middle of a file."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    if keep_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


# --- files -------------------------------------------------------------------------------------------


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
    assert check_all(toy) == {"files": 2, "damaged": [store.damage(_files(toy), "b", Manifest())], "unchecked": 0}


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

    monkeypatch.setattr(store, "sha256", spy)
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
    with pytest.raises(DataError, match="has no recorded sum"):
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
    assert list(store.filter_names(names, "*.csv")) == ["a.csv"]
    assert list(store.filter_names(names, "d/*.csv")) == ["d/b.csv", "d/.csv"]
    assert list(store.filter_names(names, "*/*/*.csv")) == ["d/e/c.csv"]


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


# --- arrays ------------------------------------------------------------------------------------------


def dense() -> Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> Split:
        groups = {
            "writer": rng.integers(0, 5, n),
            "town": np.array(["Bern", "Oslo-am-See", "Zürich"])[rng.integers(0, 3, n)],
        }
        return Split(rng.integers(0, 255, (n, 3, 4, 4), dtype=np.uint8), rng.integers(0, 3, n), groups)

    return Dataset(
        "dense",
        split(40),
        split(10),
        ("a", "b", "c"),
        "odd",
        ("a note", "another"),
        {"model": "cnn"},
        augment="crop-flip",
    )


def sparse_one() -> Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> Split:
        x = sparse.random(n, 50, 0.1, format="csr", dtype=np.float32, random_state=1)
        return Split(x, rng.integers(0, 2, n))

    return Dataset("sparse", split(30), split(8), ("no", "yes"), "odd", columns=tuple(f"c{i}" for i in range(50)))


def words() -> Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> Split:
        return Split(rng.integers(0, 4, (n, 6), dtype=np.int32), rng.integers(0, 2, n), {"source": np.array(["x"] * n)})

    return Dataset("words", split(20), split(5), ("no", "yes"), "odd", vocabulary=("<pad>", "<unk>", "é", "b"))


def numbers() -> Dataset:
    rng = np.random.default_rng(0)

    def split(n: int) -> Split:
        return Split(rng.normal(size=(n, 2)).astype(np.float32), rng.normal(size=n).astype(np.float32))

    return Dataset("numbers", split(20), split(5), (), "odd", task="regression")


def empty_rows() -> Dataset:
    """Not a single value that is not zero in the test rows."""
    whole = sparse_one()
    return replace(whole, test=Split(sparse.csr_matrix((8, 50), dtype=np.float32), whole.test.y))


DATASETS: dict[str, Callable[[], Dataset]] = {
    "dense": dense, "sparse": sparse_one, "words": words, "numbers": numbers, "empty rows": empty_rows,
}  # fmt: skip


def same(left: Dataset, right: Dataset) -> None:
    facts = ("name", "classes", "licence", "notes", "task", "columns", "vocabulary", "augment", "checksum", "shape")
    for fact in facts:
        assert getattr(left, fact) == getattr(right, fact)
        assert type(getattr(left, fact)) is type(getattr(right, fact))
    assert dict(left.defaults) == dict(right.defaults)
    for a, b in ((left.train, right.train), (left.test, right.test)):
        assert sparse.issparse(a.x) == sparse.issparse(b.x)
        assert a.x.shape == b.x.shape
        assert a.x.dtype == b.x.dtype
        assert (a.x != b.x).sum() == 0
        assert a.y.dtype == b.y.dtype
        assert np.array_equal(a.y, b.y)
        assert list(a.groups) == list(b.groups)
        for level in a.groups:
            assert a.groups[level].dtype == b.groups[level].dtype
            assert np.array_equal(a.groups[level], b.groups[level])


class Reader:
    """Gives a dataset and counts how often it was asked."""

    def __init__(self, make: Callable[[], Dataset]) -> None:
        self.make, self.calls = make, 0

    def __call__(self, files: Files, **arguments: Any) -> Dataset:
        self.calls += 1
        assert files["a"].is_file()
        return self.make()


@pytest.fixture
def toy(place: Path, monkeypatch: pytest.MonkeyPatch) -> Entry:
    made = entry(unknown={"a": File()}, folders=("mine",))
    use(monkeypatch, made)
    put(home_of(made), a=ONE)
    record(made, "a")
    return made


def cache_of(toy: Entry) -> Path:
    (folder,) = [path for path in (home_of(toy) / ".cache").iterdir() if not path.name.startswith(".")]
    return folder


@pytest.mark.parametrize("make", DATASETS)
def test_the_cache_gives_the_same_dataset_without_reading(make: str, toy: Entry) -> None:
    reader = Reader(DATASETS[make])
    first = stored("toy", reader)
    second = stored("toy", reader)
    assert reader.calls == 1
    same(first, DATASETS[make]())
    same(second, first)


@pytest.mark.parametrize("make", ["dense", "sparse"])
def test_arrays_of_the_cache_can_be_written_in_memory_only(make: str, toy: Entry) -> None:
    reader = Reader(DATASETS[make])
    stored("toy", reader)
    before = {path.name: path.read_bytes() for path in cache_of(toy).iterdir()}
    kept = stored("toy", reader)
    array = kept.train.x.data if sparse.issparse(kept.train.x) else kept.train.x
    assert array.flags.writeable
    array[:] = 7
    kept.train.y[:] = 0
    assert {path.name: path.read_bytes() for path in cache_of(toy).iterdir()} == before
    same(stored("toy", reader), DATASETS[make]())
    assert reader.calls == 1


def test_a_changed_file_or_other_arguments_are_read_anew(toy: Entry) -> None:
    reader = Reader(dense)
    stored("toy", reader, size=1)
    stored("toy", reader, size=2)
    assert reader.calls == 2
    stored("toy", reader, size=1)
    stored("toy", reader, size=2)
    assert reader.calls == 2
    put(home_of(toy), a=TWO)
    record(toy, "a")
    stored("toy", reader, size=1)
    assert reader.calls == 3
    change(home_of(toy) / "a")
    with pytest.raises(DataError, match="is damaged"):
        stored("toy", reader, size=1)  # the cache does not hide it
    assert reader.calls == 3


def test_other_code_does_not_use_it_and_clears_it(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(dense)
    stored("toy", reader)
    old = cache_of(toy)
    os.utime(old, (0, 0))  # other code of today may still be in use
    monkeypatch.setattr(cache, "_code", lambda: "00000000")
    stored("toy", reader)
    assert reader.calls == 2
    assert cache_of(toy) != old


def test_what_it_is_made_from_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part, whole = entry("part", unknown={"b": File()}), entry("whole", {"a": ONE}, needs=("part",))
    use(monkeypatch, part, whole)
    put(home_of(whole), a=ONE)
    put(home_of(part), b=ONE)
    record(part, "b")
    reader = Reader(dense)
    stored("whole", reader)
    stored("whole", reader)
    assert reader.calls == 1
    put(home_of(part), b=TWO)
    record(part, "b")
    stored("whole", reader)
    assert reader.calls == 2


def test_nothing_is_written_into_a_foreign_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(files={"a": ONE}, folders=("mine",))
    use(monkeypatch, toy)
    put(place / "mine", a=ONE)
    reader = Reader(dense)
    for _ in range(2):
        same(stored("toy", reader), dense())
    assert [path.name for path in place.rglob("*")] == ["mine", "a"]


def _flip(path: Path, place: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


def _spoils(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ways to damage a cache."""
    rng = random.Random(0)
    for path in sorted(folder.iterdir()):
        size = path.stat().st_size
        yield f"delete {path.name}", path.unlink
        for length in (0, 60, size - 1):
            yield f"cut {path.name} to {length}", lambda p=path, n=length: os.truncate(p, n)  # type: ignore[misc]
        places = (*range(0, 128, 9), *rng.sample(range(size), 4)) if path.suffix == ".npy" else range(0, size, 9)
        for at in sorted({*places, size - 1}):
            yield (
                f"flip {at} of {path.name}",
                lambda p=path, n=at: _flip(p, n, 1),  # type: ignore[misc]
            )


@pytest.mark.parametrize("make", ["dense", "sparse", "words"])
def test_a_damaged_cache_is_never_believed(make: str, toy: Entry, tmp_path: Path) -> None:
    reader, expected = Reader(DATASETS[make]), DATASETS[make]()
    stored("toy", reader)
    folder, copy = cache_of(toy), tmp_path / "copy"
    shutil.copytree(folder, copy)
    wrong = []
    for how, spoil in list(_spoils(folder)):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(copy, folder)
        spoil()
        try:
            same(stored("toy", reader), expected)
            same(stored("toy", reader), expected)  # and what is there afterwards is right
        except Exception as error:
            wrong.append(f"{how}: {type(error).__name__} {str(error).splitlines()[:1]}")
    assert wrong == []


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"facts": [], "splits": {}}', "null", "\0", '{"splits": []}'])
def test_a_foreign_meta_file_is_never_believed(content: str, toy: Entry) -> None:
    reader = Reader(dense)
    stored("toy", reader)
    (cache_of(toy) / "meta.json").write_text(content)
    same(stored("toy", reader), dense())
    assert reader.calls == 2


@pytest.mark.parametrize("make", ["dense", "sparse", "words"])
def test_changed_facts_of_a_cache_are_noticed(make: str, toy: Entry) -> None:
    reader = Reader(DATASETS[make])
    stored("toy", reader)
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda meta: meta["facts"].update(classes=[*meta["facts"]["classes"], "one more"]),
        lambda meta: meta["facts"].update(vocabulary=["evil"] * 9),
        lambda meta: meta["facts"].update(notes=["nothing was done"]),
        lambda meta: meta["facts"].update(licence="free"),
    ]
    if make == "sparse":
        changes.append(
            lambda meta: [meta["splits"][side].update(shape=[n, 60]) for side, n in (("train", 30), ("test", 8))]
        )
    for spoil in changes:
        path = cache_of(toy) / "meta.json"
        meta = json.loads(path.read_text())
        spoil(meta)
        path.write_text(json.dumps(meta))
        same(stored("toy", reader), DATASETS[make]())


def test_a_cache_that_cannot_be_written_stops_nothing(toy: Entry) -> None:
    reader = Reader(dense)
    (home_of(toy) / ".cache").write_bytes(b"in the way")
    same(stored("toy", reader), dense())
    same(stored("toy", reader), dense())
    assert reader.calls == 2
    (home_of(toy) / ".cache").unlink()
    with disk_of(500):
        same(stored("toy", reader), dense())
    assert list((home_of(toy) / ".cache").glob(".part-*")) == []
    same(stored("toy", reader), dense())  # numpy does not notice when a small array is cut short, but we do
    same(stored("toy", reader), dense())
    assert reader.calls == 4


def test_a_read_only_folder_stops_nothing(toy: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(dense)

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # as root, modes of folders stop nobody
    same(stored("toy", reader), dense())
    assert reader.calls == 1


TWINS = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_store import *
from pathlib import Path
made = entry(unknown={"a": File()}, folders=("mine",))
with pytest.MonkeyPatch.context() as patch:
    use(patch, made)
    class Slow(Reader):
        def __call__(self, files, **arguments):
            Path(sys.argv[2]).touch()
            while not Path(sys.argv[3]).exists():  # both have found no cache
                time.sleep(0.01)
            return super().__call__(files, **arguments)
    reader = Slow(dense)
    same(stored("toy", reader), dense())
    same(stored("toy", reader), dense())
    print(reader.calls)
"""


def test_two_processes_may_build_the_same_cache(toy: Entry, tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    signs = [str(tmp_path / name) for name in ("first", "second")]
    commands = [[sys.executable, "-c", TWINS, here, signs[i], signs[1 - i]] for i in range(2)]
    running = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
    ends = [one.communicate(timeout=PATIENCE) for one in running]
    assert [one.returncode for one in running] == [0, 0], ends
    assert [out.split() for out, _ in ends] == [["1"], ["1"]]
    assert [path.name for path in (home_of(toy) / ".cache").iterdir()] == [cache_of(toy).name]


def test_a_corrected_sum_of_the_catalogue_counts_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = entry(files={"a": ONE}), entry(files={"a": TWO})
    use(monkeypatch, old)
    put(home_of(old), a=ONE)
    record(old, "a")
    require("toy")
    use(monkeypatch, new)
    with pytest.raises(DataError, match="is damaged"):
        require("toy")


def test_files_that_change_while_they_are_read_are_not_kept(toy: Entry) -> None:
    class Slow(Reader):
        def __call__(self, files: Files, **arguments: Any) -> Dataset:
            made = super().__call__(files, **arguments)
            put(home_of(toy), a=TWO)
            record(toy, "a")
            return made

    with pytest.raises(DataError, match="changed while they were read"):
        stored("toy", Slow(dense))
    assert not list((home_of(toy) / ".cache").glob("*-*"))
