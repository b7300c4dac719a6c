"""Downloads from a server that misbehaves: the right file, or an error and nothing left behind."""

import http.client
import io
import socket
import ssl
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from fetching import LARGE, SMALL, refusal

from offline import Handler, Page, Server, chunked, drop, ignore_range, range_of, redirect, status, wrong_range
from silobench.data.store import download as download_module
from silobench.data.store.catalog import Download
from silobench.data.store.download import from_address

pytestmark = pytest.mark.usefixtures("place")


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
    refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be downloaded", "of 1,500,000 bytes")
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
    assert "free some space" not in told
    assert len(server.log) == 4


def test_nothing_leads_from_https_to_http() -> None:
    asked, answer = urllib.request.Request("https://a.invalid/x"), io.BytesIO()
    handler = download_module._WebOnly()
    with pytest.raises(urllib.error.URLError, match="not an https address"):
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
        refusal(from_address(Download(what=refused), tmp_path / "no"), f"the server answered {code}")
        assert len(server.asked(f"no{code}")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["busy"]


def test_nobody_there_is_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/x"
    refusal(from_address(Download(what=address), tmp_path / "x"), address, "cannot be downloaded", "refused")


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    far = server.put("far", SMALL)
    near = server.put("near", b"", redirect(far))
    list(from_address(Download(what=near), tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == SMALL


def test_endless_redirects_end(server: Server, tmp_path: Path) -> None:
    round_ = server.put("round", b"")
    server.pages["round"].plan += [redirect(round_)] * 100
    refusal(from_address(Download(what=round_), tmp_path / "x"), "cannot be downloaded")


def test_a_redirect_to_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for to in (f"file://{secret}", f"file://localhost{secret}", "data:text/plain,secret"):
        address = server.put("x", b"", redirect(to))
        refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be downloaded")
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
        refusal(from_address(Download(what=address), tmp_path / "x"), "cannot be downloaded")
        ftp.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert calls == []


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/etc/passwd", "data:,x", ""])
def test_only_web_addresses_are_opened(address: str, tmp_path: Path) -> None:
    refusal(from_address(Download(what=address), tmp_path / "x"), "is not a web address")
    assert list(tmp_path.iterdir()) == []


def test_more_than_the_catalogue_says_is_refused(server: Server, tmp_path: Path) -> None:
    for name, plan in (("sized", []), ("chunked", [chunked()])):
        address = server.put(name, LARGE, *plan)
        refusal(
            from_address(Download(what=address, bytes=1000), tmp_path / name), "has more than the expected 1,000 bytes"
        )
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
