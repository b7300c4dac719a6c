"""The server of the live view: readers on this machine get the files of the site, and others get nothing."""

import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse

import pytest

from silobench.errors import ConfigError
from silobench.live.progress import Progress
from silobench.live.server import LiveServer, is_everywhere, is_private
from silobench.live.site import Edition

FILES = {
    "index.html": b"<html>home</html>",
    "runs/a b.html": b"<html>run</html>",
    "runs/index.html": b"<html>runs</html>",
    "assets/site.css": b"a {}",
    "assets/tables.js": b"1;",
    "assets/chart.svg": b"<svg/>",
}
PROGRESS = Progress(1, 1, 0, 0, 3, 4, 2.0)


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    edition = Edition(FILES, "v1", "2026-01-01T00:00:00+00:00", PROGRESS)
    live = LiveServer("127.0.0.1", 0, lambda: edition)
    with live.serving():
        yield live


def answer(
    server: LiveServer, path: str = "/", method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    """Return what the server answers to a request, as it was written: no path is made tidy."""
    with closing(HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("/", FILES["index.html"], "text/html; charset=utf-8"),
        ("/index.html?a=1#b", FILES["index.html"], "text/html; charset=utf-8"),
        ("/runs/", FILES["runs/index.html"], "text/html; charset=utf-8"),
        ("/runs/a%20b.html", FILES["runs/a b.html"], "text/html; charset=utf-8"),
        ("/assets/site.css", FILES["assets/site.css"], "text/css; charset=utf-8"),
        ("/assets/tables.js", FILES["assets/tables.js"], "text/javascript; charset=utf-8"),
        ("/assets/chart.svg", FILES["assets/chart.svg"], "image/svg+xml; charset=utf-8"),
    ],
)
def test_files_of_the_site(server: LiveServer, path: str, content: bytes, kind: str) -> None:
    response, received = answer(server, path)
    assert (response.status, received, response.headers["Content-Type"]) == (200, content, kind)
    head, nothing = answer(server, path, "HEAD")
    assert (head.status, nothing, head.headers["Content-Length"]) == (200, b"", str(len(content)))


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml", "/..%2fpyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd",
        "/runs/../index.html", "/runs", "/assets/", "/nothing.html", "/index.html/", "/index.html%00", "/.plans/a.json",
        "http://127.0.0.1/etc/passwd", "/" + "a" * 5000,
    ],
)  # fmt: skip
def test_nothing_else(server: LiveServer, path: str) -> None:
    response, content = answer(server, path)
    assert response.status == 404
    assert b"<" not in content


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_it_can_only_be_read(server: LiveServer, method: str) -> None:
    response, _ = answer(server, "/", method, b"a=1" if method in ("POST", "PUT", "PATCH") else None)
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:9000", "127.0.0.1:1", "[::1]:80", "192.168.0.7:8000", "LOCALHOST"]
)
def test_addresses_and_local_names_are_accepted(server: LiveServer, host: str) -> None:
    assert answer(server, Host=host)[0].status == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", "localhost.attacker.example",
        "attacker.example@x", "[", "[::1", "", "a b", "127.0.0.1@attacker.example",
    ],
)  # fmt: skip
def test_other_names_of_this_machine_are_refused(server: LiveServer, host: str) -> None:
    """A page elsewhere could let its own name point to this machine, and then read what the server answers."""
    response, content = answer(server, Host=host)
    assert response.status == 403
    assert b"home" not in content


def test_a_request_without_a_host_is_refused(server: LiveServer) -> None:
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert connection.makefile("rb").readline().split()[1] == b"403"


@pytest.mark.parametrize("path", ["/", "/nothing", "/live.json"])
def test_headers_keep_others_out(server: LiveServer, path: str) -> None:
    headers = answer(server, path, Origin="http://attacker.example")[0].headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert "Python" not in headers["Server"]


def test_what_did_not_change_is_not_sent_again(server: LiveServer) -> None:
    etag = answer(server)[0].headers["ETag"]
    response, content = answer(server, If_None_Match=etag)
    assert (response.status, content) == (304, b"")
    assert answer(server, If_None_Match='"another"')[0].status == 200


def test_the_state_has_progress_and_problems(server: LiveServer) -> None:
    response, content = answer(server, "/live.json")
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert b'"in_progress": 1' in content


@pytest.mark.parametrize("request_", [b"\x00\xff\xfe\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 5])
def test_noise_does_not_stop_the_server(server: LiveServer, request_: bytes) -> None:
    with socket.create_connection(server.server_address[:2], timeout=60) as connection:
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    assert answer(server)[0].status == 200


def test_a_long_header_is_refused(server: LiveServer) -> None:
    try:
        status = answer(server, X_Long="a" * 100_000)[0].status
    except OSError:  # the server hung up before it had read everything
        status = 431
    assert status == 431
    assert answer(server)[0].status == 200


def test_a_port_in_use(server: LiveServer) -> None:
    with pytest.raises(ConfigError, match=r"choose another --port"):
        LiveServer("127.0.0.1", server.server_address[1], server.edition)


@pytest.mark.parametrize("host", ["203.0.113.1", "1:2:3"])
def test_an_address_of_another_machine(server: LiveServer, host: str) -> None:
    with pytest.raises(ConfigError, match=host):
        LiveServer(host, 0, server.edition)


def test_every_address_of_this_machine(server: LiveServer) -> None:
    live = LiveServer("0.0.0.0", 0, server.edition)
    with live.serving():
        assert live.address == f"http://127.0.0.1:{live.server_address[1]}/"
        assert answer(live, Host=socket.gethostname())[0].status == 200
        assert answer(live, Host="attacker.example")[0].status == 403


def test_who_can_reach_an_address() -> None:
    assert [is_everywhere(host) for host in ("0.0.0.0", "::", "127.0.0.1", "name")] == [True, True, False, False]
    assert [is_private(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "name")] == [True] * 3 + [
        False
    ] * 2
