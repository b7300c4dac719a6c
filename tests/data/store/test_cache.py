"""The cache of arrays: it returns the same dataset, and is verified before it is used."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from storing import ONE, TWO, Reader, change, dense, put, record, same

from commands import Program
from offline import disk_of, entry, use
from silobench.data.dataset import Dataset, Split
from silobench.data.store import cache
from silobench.data.store.cache import stored
from silobench.data.store.catalog import Entry, File
from silobench.data.store.directory import Files, home_of
from silobench.errors import DataError

pytestmark = pytest.mark.usefixtures("place")


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

    owners, facts = {"bank": ("a",), "shop": ("b",)}, {"match": "exact", "rows": {"bank": 25, "shop": 30}}
    return Dataset(
        "numbers", split(20), split(5), (), "odd", task="regression", columns=("a", "b"), owners=owners, alignment=facts
    )


def empty_rows() -> Dataset:
    """Not a single value that is not zero in the test rows."""
    whole = sparse_one()
    return replace(whole, test=Split(sparse.csr_matrix((8, 50), dtype=np.float32), whole.test.y))


DATASETS: dict[str, Callable[[], Dataset]] = {
    "dense": dense, "sparse": sparse_one, "words": words, "numbers": numbers, "empty rows": empty_rows,
}  # fmt: skip


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
    monkeypatch.setattr(cache, "_code_digest", lambda: "00000000")
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
        places = (*range(0, 128, 17), *rng.sample(range(size), 4)) if path.suffix == ".npy" else range(0, size, 29)
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
sys.path[:0] = sys.argv[1].split(":")
from pathlib import Path
import pytest
from offline import entry, use
from storing import Reader, dense, same
from silobench.data.store.cache import stored
from silobench.data.store.catalog import File
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
    here = Path(__file__).parent
    helpers = f"{here}:{here.parents[1]}"
    signs = [str(tmp_path / name) for name in ("first", "second")]
    running = [Program(TWINS, helpers, signs[i], signs[1 - i]) for i in range(2)]
    ends = [one.wait() for one in running]
    assert [(code, out.split()) for code, out, _ in ends] == [(0, [b"1"])] * 2, ends
    assert [path.name for path in (home_of(toy) / ".cache").iterdir()] == [cache_of(toy).name]


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
